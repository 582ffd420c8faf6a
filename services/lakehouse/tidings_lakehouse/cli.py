"""`tidings-lakehouse`: run the job, look at its tables."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

from aiohttp import web

from tidings_lakehouse.auditing.command import add_audit
from tidings_lakehouse.erasing.command import add_erase
from tidings_lakehouse.reading.views_command import add_views
from tidings_lakehouse.repairing.command import add_repair
from tidings_lakehouse.replay.command import add_replay
from tidings_lakehouse.settings import (
    HistorySettings,
    LakehouseSettings,
    LossSettings,
    SubmitSettings,
    WarehouseSettings,
)
from tidings_lakehouse.spark.submitted import is_submitted
from tidings_lakehouse.tagging.command import add_tags, tag
from tidings_service import (
    Health,
    SettingsError,
    TidingsError,
    configure_logging,
    get_logger,
    load_settings,
    print_error,
    report_error,
    serve_http_in_thread,
)

SERVICE = "lakehouse"
_EXIT_SOFTWARE = 70

R = TypeVar("R", bound=WarehouseSettings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    options = parser().parse_args(arguments)
    configure_logging(SERVICE)
    try:
        if is_submitted():
            from tidings_lakehouse.spark.submit import take_master  # noqa: PLC0415 - imports pyspark

            take_master()
        return int(options.command(options))
    except TidingsError as error:
        # The job's errors are for its log; a person who asks for rows reads them at a terminal.
        return report_error(error, service=SERVICE) if options.command is _run else print_error(error)
    except BrokenPipeError:
        return 0
    except Exception:  # noqa: BLE001 - the last line of defence, logged with its traceback
        get_logger(SERVICE).exception("the service stopped on an unexpected error")
        return _EXIT_SOFTWARE


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="tidings-lakehouse", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    run = commands.add_parser("run", help="write topics to tables until stopped")
    run.add_argument("--available-now", action="store_true", help="write what is on the topics, then stop")
    run.set_defaults(command=_run)
    submit = commands.add_parser(
        "submit-files",
        help="write the files that Spark's spark-submit needs to run the job, and print the command",
    )
    submit.add_argument("directory", type=Path, help="where spark.conf and lakehouse.py go")
    submit.set_defaults(command=_submit_files)
    executor = commands.add_parser(
        "executor", help="be an executor in a pod that Spark has made on Kubernetes; not for people"
    )
    executor.set_defaults(command=_executor)
    sql = commands.add_parser("sql", help="run a SELECT and print its rows")
    sql.add_argument("statement", help='for example "select * from technical.orders limit 10"')
    sql.add_argument(
        "--as-of",
        metavar="MOMENT",
        help="every table with a key as of one commit: a position (0/16B3748) or a time (2026-01-31T12:00:00Z)",
    )
    _add_engine(sql)
    _add_format(sql)
    sql.set_defaults(command=_sql)
    tables = commands.add_parser("tables", help="list the tables with their rows")
    _add_engine(tables)
    _add_format(tables)
    tables.set_defaults(command=_tables)
    as_of = commands.add_parser(
        "as-of", help="queries or views of all tables of a source as of one commit position"
    )
    as_of.add_argument(
        "moment", help="a position (0/16B3748) or a time (2026-01-31T12:00:00Z); no later than the watermark"
    )
    as_of.add_argument(
        "--create",
        action="store_true",
        help="make them views in the catalog, in a namespace as_of_<position>",
    )
    as_of.add_argument(
        "--tag",
        metavar="NAME",
        help="tag the snapshots of all tables that are exactly as of it; refused when a table has none",
    )
    as_of.add_argument(
        "--dialect", choices=("spark", "duckdb"), default="spark", help="of the queries; default: spark"
    )
    as_of.set_defaults(command=_as_of)
    add_views(commands, _reader_settings)
    history = commands.add_parser(
        "history", help="write the logs as the records they came from, for a generation of the translator"
    )
    history.add_argument("directory", type=Path, help="a new directory")
    history.set_defaults(command=_history)
    loss = commands.add_parser(
        "accept-loss", help="go on with a topic that is set aside, without records that it has lost"
    )
    loss.add_argument("topic", help="a topic of tidings.set_aside")
    loss.add_argument(
        "--to-end",
        action="store_true",
        help="also give up what the topic still has: the job goes on with what comes from now on",
    )
    loss.add_argument(
        "--yes", action="store_true", help="accept it; without this, only what would be lost is shown"
    )
    _add_format(loss)
    loss.set_defaults(command=_accept_loss)
    add_audit(commands, _reader_settings)
    add_repair(commands, _reader_settings)
    add_erase(commands, _add_format, _reader_settings)
    add_replay(commands, _add_format, _reader_settings)
    add_tags(commands, _add_format, _reader_settings)
    return parser


def _add_engine(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--engine",
        choices=("duckdb", "spark"),
        default="duckdb",
        help="default: duckdb, which answers in about a second; spark for its own functions, or another catalog than JDBC",
    )


def _add_format(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=("table", "json", "csv"), default="table", help="default: table")
    command.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )


def _run(options: argparse.Namespace) -> int:
    from tidings_lakehouse.auditing.schedule import Auditing  # noqa: PLC0415
    from tidings_lakehouse.formats.registry import Registry  # noqa: PLC0415
    from tidings_lakehouse.job import Job  # noqa: PLC0415 - pyspark takes a second to import
    from tidings_lakehouse.spark.gateway import is_ours  # noqa: PLC0415
    from tidings_lakehouse.spark.kafka_login import KafkaLogin, refuse_remote_tokens  # noqa: PLC0415
    from tidings_lakehouse.spark.session import prepare_warehouse, running_session  # noqa: PLC0415
    from tidings_lakehouse.warehouse_lock import lock_warehouse  # noqa: PLC0415

    settings = load_settings(LakehouseSettings)
    configure_logging(SERVICE, level=settings.log_level, format=settings.log_format)
    refuse_remote_tokens(settings.kafka_access, settings.lakehouse_master)
    auditing = None
    if settings.lakehouse_audit_seconds and not options.available_now:
        _ = settings.audit_database  # that there is one
        auditing = Auditing(settings.lakehouse_audit_seconds)
    stop = threading.Event()
    health = Health()
    jobs: list[Job] = []

    async def tables(_request: web.Request) -> web.Response:
        return web.json_response({"tables": jobs[0].counts.snapshot() if jobs else {}})

    routes = [web.get("/tables", tables)]
    with serve_http_in_thread(health, settings.http_host, settings.http_port, routes=routes) as server:
        get_logger(SERVICE).info("listening", url=server.url)
        health.set("streams", ok=False, detail="starting")
        prepare_warehouse(settings)
        health.set("registry", ok=False, detail="connecting")
        schemas = Registry(settings.optional_registry)
        schemas.check()
        health.set("registry", ok=True)
        lock = lock_warehouse(settings)
        login = KafkaLogin(settings.kafka_access, local=is_ours(settings.lakehouse_master))
        held = () if lock is None else (lock.fileno(),)
        with (
            contextlib.closing(login),
            running_session(settings, "tidings-lakehouse", inherit=(*held, *login.inherit)) as session,
        ):
            # Spark's own handler of SIGINT would cancel a batch in its middle.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, _stopper(stop))
            job = Job(session, settings, schemas, health, login=login)
            try:
                job.start(available_now=options.available_now)
                jobs.append(job)
                if auditing is not None:
                    auditing.start()
                job.wait(stop)
            finally:
                if auditing is not None:
                    auditing.stop()
                job.stop()
    return 0


def _submit_files(options: argparse.Namespace) -> int:
    from tidings_lakehouse.spark.submit import write_submit_files  # noqa: PLC0415

    settings = load_settings(SubmitSettings)
    sys.stdout.write(write_submit_files(settings, options.directory) + "\n")
    return 0


def _executor(_options: argparse.Namespace) -> int:
    from tidings_lakehouse.spark.executor import become_executor  # noqa: PLC0415

    become_executor()


def _stopper(stop: threading.Event) -> Callable[[int, FrameType | None], None]:
    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            sys.exit(128 + number)
        get_logger(SERVICE).info("stopping after the current batch", signal=signal.Signals(number).name)
        stop.set()

    return on_signal


def _sql(options: argparse.Namespace) -> int:
    from tidings_lakehouse.reading.rows import print_rows  # noqa: PLC0415

    settings = _reader_settings(HistorySettings)
    if options.engine == "spark":
        from tidings_lakehouse.reading.query import select  # noqa: PLC0415

        if options.as_of is not None:
            raise SettingsError(
                "--as-of is DuckDB's", hint="leave out --engine spark, or use tidings lakehouse as-of"
            )
        print_rows(select(settings, options.statement), options.format)
    else:
        from tidings_lakehouse.reading.look import select_as_of  # noqa: PLC0415

        print_rows(select_as_of(settings, options.statement, options.as_of), options.format)
    return 0


def _as_of(options: argparse.Namespace) -> int:
    from tidings_lakehouse.history.history_sql import DUCKDB, SPARK  # noqa: PLC0415
    from tidings_lakehouse.reading.duck import duck_lake  # noqa: PLC0415
    from tidings_lakehouse.reading.moments import SourceTables  # noqa: PLC0415

    settings = _reader_settings(HistorySettings)
    if options.tag is not None:
        return tag(settings, options.moment, options.tag)
    dialect = DUCKDB if options.dialect == "duckdb" and not options.create else SPARK
    with duck_lake(settings) as lake:
        source = SourceTables(lake, settings.source)
        moment = source.moment(options.moment)
        queries = {
            f"{moment.namespace}.{name.partition('.')[2]}": source.statement(name, moment, dialect)
            for name in moment.tables
        }
    if options.create:
        _create_views(settings, queries)
        return 0
    sys.stdout.write(f"-- position {moment.position}, watermark {moment.watermark}\n")
    for name, query in queries.items():
        sys.stdout.write(f"CREATE OR REPLACE VIEW {name} AS {query};\n")
    return 0


def _create_views(settings: HistorySettings, queries: Mapping[str, str]) -> None:
    from tidings_lakehouse.reading.views import create_views  # noqa: PLC0415
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415

    with running_session(settings, "tidings-lakehouse-views") as session:
        for name in create_views(session, queries):
            sys.stdout.write(f"{name}\n")


def _tables(options: argparse.Namespace) -> int:
    from tidings_lakehouse.reading.rows import print_rows  # noqa: PLC0415

    settings = _reader_settings(WarehouseSettings)
    if options.engine == "spark":
        from tidings_lakehouse.reading.query import list_tables  # noqa: PLC0415
    else:
        from tidings_lakehouse.reading.look import list_tables  # noqa: PLC0415
    print_rows(list_tables(settings), options.format)
    return 0


def _history(options: argparse.Namespace) -> int:
    from tidings_lakehouse.history.history import write_history  # noqa: PLC0415
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415

    settings = _reader_settings(HistorySettings)
    with running_session(settings, "tidings-lakehouse-history") as session:
        topics = write_history(session, settings.source, options.directory)["topics"]
    sys.stdout.write(f"{len(topics)} topics in {options.directory}\n")
    return 0


def _accept_loss(options: argparse.Namespace) -> int:
    from tidings_lakehouse.reading.rows import print_rows  # noqa: PLC0415
    from tidings_lakehouse.spark.gateway import is_ours  # noqa: PLC0415
    from tidings_lakehouse.spark.kafka import Brokers  # noqa: PLC0415
    from tidings_lakehouse.spark.kafka_login import KafkaLogin  # noqa: PLC0415
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415
    from tidings_lakehouse.writing.accepted_losses import accept, statement_of  # noqa: PLC0415

    settings = _reader_settings(LossSettings)
    login = KafkaLogin(settings.kafka_access, local=is_ours(settings.lakehouse_master))
    with (
        contextlib.closing(login),
        running_session(settings, "tidings-lakehouse-accept-loss", inherit=login.inherit) as session,
    ):
        statement = statement_of(session, Brokers(session, login), options.topic, to_end=options.to_end)
        print_rows(statement.rows, options.format)
        sys.stdout.flush()
        if options.yes:
            accept(session, statement.losses)
    sys.stderr.write(statement.told(is_accepted=options.yes))
    return 0


def _reader_settings(kind: type[R]) -> R:
    settings = load_settings(kind)
    configure_logging(SERVICE, level="WARNING", format=settings.log_format)
    directory = settings.warehouse_directory
    if directory is not None and not settings.lakehouse_catalog and not (directory / "catalog.db").is_file():
        raise SettingsError(
            f"TIDINGS_LAKEHOUSE_WAREHOUSE: there is no lakehouse in {directory}",
            hint="name the directory that tidings-lakehouse run writes to",
        )
    return settings


if __name__ == "__main__":
    sys.exit(main())
