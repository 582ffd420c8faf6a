"""`tidings-lakehouse audit`: the command's options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tidings_lakehouse.settings import AuditSettings
from tidings_lakehouse.topics import TRANSACTION_LOG, domain_property, transaction_topic

if TYPE_CHECKING:
    from tidings_lakehouse.auditing.audit import Audit
    from tidings_lakehouse.auditing.source import Server

EXIT_WRONG = 3
S = TypeVar("S", bound=AuditSettings)
ReadSettings = Callable[[type[S]], S]


def add_audit(commands: Any, read_settings: ReadSettings[AuditSettings]) -> None:
    """Add the command to those of `tidings-lakehouse`."""
    audit = commands.add_parser(
        "audit", help="compare the current states with the database; exit code 3 when a row is wrong"
    )
    add_comparison(audit)
    audit.add_argument(
        "--metrics-file", type=Path, metavar="FILE", help="for the node exporter's textfile collector, *.prom"
    )
    audit.add_argument("--json", action="store_true", help="one object a table, with every row")
    audit.set_defaults(command=lambda options: _run(options, read_settings))


def add_comparison(command: argparse.ArgumentParser) -> None:
    """Add what is compared, and how gently."""
    command.add_argument(
        "--table", action="append", metavar="PATTERN", help="such as technical.order*; default: all"
    )
    command.add_argument(
        "--range-rows", type=int, default=50_000, metavar="N", help="rows in a statement; default: 50000"
    )
    command.add_argument(
        "--pause", type=float, default=0.1, metavar="SECONDS", help="between two statements; default: 0.1"
    )
    command.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="of a statement; default: 60"
    )
    command.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for the watermark; default: 60"
    )
    command.add_argument(
        "--most", type=int, default=100, metavar="N", help="rows that are named a table; default: 100"
    )


@contextmanager
def comparison(settings: AuditSettings, options: argparse.Namespace) -> Iterator[Audit]:
    """An audit with a connection to the database, as `add_comparison`'s options have it."""
    from tidings_lakehouse.auditing.audit import Audit  # noqa: PLC0415 - duckdb takes its time to import
    from tidings_lakehouse.auditing.source import Source  # noqa: PLC0415
    from tidings_lakehouse.reading.duck import DuckLake  # noqa: PLC0415

    with _connected(settings, options.timeout) as server:
        yield Audit(
            Source(server, pause=options.pause),
            lambda: DuckLake(settings),
            settings.source,
            size=options.range_rows,
            wait=options.wait,
        )


@contextmanager
def _connected(settings: AuditSettings, timeout: float) -> Iterator[Server]:
    """The database of a URL or a connection string."""
    setting, address = "TIDINGS_LAKEHOUSE_AUDIT_DATABASE", settings.audit_database
    if address.partition("://")[0] in {"mariadb", "mysql"}:
        from tidings_lakehouse.auditing import binlog_servers  # noqa: PLC0415 - each driver takes its time to import
        from tidings_lakehouse.reading.duck import duck_lake  # noqa: PLC0415

        with duck_lake(settings) as lake:
            noted = ""
            if TRANSACTION_LOG in lake.tables:
                noted = lake.property(TRANSACTION_LOG, domain_property(transaction_topic(settings.source)))
        domain = int(noted) if noted.isdecimal() else None
        with binlog_servers.connected(setting, address, timeout=timeout, domain=domain) as server:
            yield server
        return
    from tidings_lakehouse.auditing.postgres import PostgresServer  # noqa: PLC0415
    from tidings_lakehouse.database import connected  # noqa: PLC0415

    with connected(setting, address) as database:
        yield PostgresServer(database, timeout=timeout)


def wanted(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    """Whether a table's name is one of those that ``--table`` names."""
    return lambda name: any(fnmatch(name, pattern) for pattern in patterns or ("*",))


def _run(options: argparse.Namespace, read_settings: ReadSettings[AuditSettings]) -> int:
    from tidings_lakehouse.auditing.report import as_json, told, write_metrics  # noqa: PLC0415

    with comparison(read_settings(AuditSettings), options) as audit:
        results = list(audit.run(wanted(options.table)))
    sys.stdout.write(as_json(results) if options.json else told(results, most=options.most))
    if options.metrics_file is not None:
        write_metrics(results, options.metrics_file)
    return EXIT_WRONG if any(one.findings for one in results) else 0
