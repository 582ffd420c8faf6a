"""`tidings-lakehouse repair`: the command's options, and what it says."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidings_lakehouse.auditing.command import EXIT_WRONG, ReadSettings, add_comparison, comparison, wanted
from tidings_lakehouse.settings import RepairSettings

if TYPE_CHECKING:
    from tidings_lakehouse.auditing.audit import TableResult
    from tidings_lakehouse.auditing.source import AuditTable
    from tidings_lakehouse.repairing.repair import Repaired


def add_repair(commands: Any, read_settings: ReadSettings[RepairSettings]) -> None:
    """Add the command to those of `tidings-lakehouse`."""
    repair = commands.add_parser(
        "repair",
        help="have rows that an audit finds wrong told again by their source; shows them, unless --apply",
    )
    add_comparison(repair)
    repair.add_argument("--apply", action="store_true", help="do it; without this, nothing is changed")
    repair.add_argument(
        "--max-rows",
        type=int,
        default=1000,
        metavar="N",
        help="do nothing when more rows are wrong; default: 1000",
    )
    repair.add_argument(
        "--connector",
        metavar="NAME",
        help="of the source; default: the one whose topic.prefix is TIDINGS_SOURCE",
    )
    repair.add_argument("--json", action="store_true", help="one object a table, with every row")
    repair.set_defaults(command=lambda options: _run(options, read_settings))


def _run(options: argparse.Namespace, read_settings: ReadSettings[RepairSettings]) -> int:
    from tidings_lakehouse.auditing.audit import TableResult  # noqa: PLC0415 - duckdb takes its time to import
    from tidings_lakehouse.repairing.repair import Repaired, check_number  # noqa: PLC0415

    settings = read_settings(RepairSettings)
    with comparison(settings, options) as audit:
        planned = audit.plan(wanted(options.table))
        tables: list[tuple[AuditTable | None, TableResult]] = [
            (None, one) if isinstance(one, TableResult) else (one, audit.compare(one)) for one in planned
        ]
        repaired = [Repaired(result) for _, result in tables]
        if options.apply and any(one.findings for _, one in tables):
            check_number([result for _, result in tables], options.max_rows)
            repaired = _repaired(settings, options, audit, tables)
    sys.stdout.write(_as_json(repaired) if options.json else _told(repaired, options))
    left = [one.left if options.apply else one.result.findings for one in repaired]
    return EXIT_WRONG if any(left) or any(one.undecided for one in repaired) else 0


def _repaired(
    settings: RepairSettings,
    options: argparse.Namespace,
    audit: Any,
    tables: Sequence[tuple[AuditTable | None, TableResult]],
) -> list[Repaired]:
    from tidings_lakehouse.repairing.repair import Repair, Repaired  # noqa: PLC0415
    from tidings_lakehouse.repairing.worker import Worker  # noqa: PLC0415

    worker = Worker(settings.lakehouse_worker, settings.worker_login)
    connector = worker.connector(settings.source, options.connector)
    moment = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%SZ")
    repair = Repair(audit, worker, connector, f"repair-{moment}-{secrets.token_hex(3)}", wait=options.wait)
    return [
        Repaired(result) if table is None or not result.findings else repair.table(table, result)
        for table, result in tables
    ]


def _told(repaired: Sequence[Repaired], options: argparse.Namespace) -> str:
    from tidings_lakehouse.auditing.report import told, told_findings  # noqa: PLC0415

    said = ""
    for one in repaired:
        said += told([one.result], most=options.most)
        if not one.signals:
            continue
        said += f"  told again as {', '.join(one.signals)}: {one.mended} mended, {len(one.left)} still wrong"
        said += f", {one.undecided} undecided\n" if one.undecided else "\n"
        said += "".join(f"  still {line.strip()}\n" for line in told_findings(one.left, most=options.most))
    if not options.apply and any(one.result.findings for one in repaired):
        said += "Nothing is changed yet: --apply has the source tell these rows again.\n"
    return said


def _as_json(repaired: Sequence[Repaired]) -> str:
    from tidings_lakehouse.auditing.report import as_object  # noqa: PLC0415

    return "".join(
        json.dumps(
            as_object(one.result)
            | {
                "signals": one.signals,
                "mended": one.mended,
                "left": [
                    {name: value for name, value in asdict(finding).items() if name != "texts"}
                    for finding in one.left
                ],
                "left_undecided": one.undecided,
            }
        )
        + "\n"
        for one in repaired
    )
