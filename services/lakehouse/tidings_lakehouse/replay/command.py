"""`tidings-lakehouse replay`: the command's options, and what it says."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings_lakehouse.settings import HistorySettings

if TYPE_CHECKING:
    from tidings_lakehouse.replay.comparison import Compared

_EXIT_DIFFERENT = 3
_COLUMNS = ("equal", "missing", "extra", "different", "told")


def add_replay(
    commands: Any,
    add_format: Callable[[argparse.ArgumentParser], None],
    read_settings: Callable[[type[HistorySettings]], HistorySettings],
) -> None:
    """Add the command to those of `tidings-lakehouse`."""
    replay = commands.add_parser(
        "replay",
        help="evaluate a domain's rules over the logs and compare the events with the published ones; exit code 3 when they"
        " differ",
    )
    replay.add_argument(
        "--domain", required=True, metavar="MODULE", help="the domain's package, such as tidings_shop.domain"
    )
    outcome = replay.add_mutually_exclusive_group()
    outcome.add_argument(
        "--generation",
        type=Path,
        metavar="DIRECTORY",
        help="write what a new generation begins with to a new directory, for `tidings-translator generations start NAME"
        " --from-replay DIRECTORY`, instead of comparing",
    )
    outcome.add_argument(
        "--into",
        metavar="NAME",
        help="write the events to a new table business_replay.NAME instead of comparing them",
    )
    replay.add_argument(
        "--until",
        metavar="POSITION",
        help="the last commit (0/16B3748); default: the watermark of the tables",
    )
    replay.add_argument(
        "--shares",
        type=int,
        metavar="N",
        help="in how many parts aggregates are evaluated; default: as many as Spark runs tasks at once",
    )
    replay.add_argument(
        "--give-up-incomplete",
        action="store_true",
        help="leave out transactions that lack rows, as the sequencer does when it gives one up; without this they are refused",
    )
    replay.add_argument("--trace-column", metavar="COLUMN", help="as TIDINGS_TRACE_COLUMN of the translator")
    replay.add_argument(
        "--examples", type=int, default=5, metavar="N", help="ids shown of each difference; default: 5"
    )
    add_format(replay)
    replay.set_defaults(command=lambda options: _replay(options, read_settings))


def _replay(
    options: argparse.Namespace, read_settings: Callable[[type[HistorySettings]], HistorySettings]
) -> int:
    from tidings_domain.loading.domain import load_domain  # noqa: PLC0415 - pyspark takes a second to import
    from tidings_envelope.errors import DecodeError  # noqa: PLC0415
    from tidings_envelope.position import lsn_from_text  # noqa: PLC0415
    from tidings_lakehouse.replay.comparison import as_json, compare  # noqa: PLC0415
    from tidings_lakehouse.replay.generation import write_generation  # noqa: PLC0415
    from tidings_lakehouse.replay.run import replayed, write_table  # noqa: PLC0415
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415
    from tidings_service import SettingsError  # noqa: PLC0415

    try:
        until = None if options.until is None else lsn_from_text(options.until)
    except DecodeError as error:
        raise SettingsError("--until is not a position", hint="it is written as 0/16B3748") from error
    if options.shares is not None and options.shares < 1:
        raise SettingsError("--shares is not a positive number", hint="leave it out")
    settings = read_settings(HistorySettings)
    domain = load_domain(options.domain)
    with (
        running_session(settings, "tidings-lakehouse-replay") as session,
        replayed(
            session,
            settings.source,
            domain,
            until=until,
            shares=options.shares,
            gives_up=options.give_up_incomplete,
            trace_column=options.trace_column,
            with_data=options.into is not None,
            with_state=options.generation is not None,
        ) as found,
    ):
        compared = []
        if options.generation is not None:
            written = write_generation(session, settings.source, found, options.generation)
            sys.stdout.write(
                f"{options.generation}: {found.events.count()} events, up to commit {written['until']}\n"
            )
        elif options.into is not None:
            name = write_table(session, found, options.into)
            sys.stdout.write(f"{name}: {found.events.count()} events\n")
        else:
            compared = compare(
                session,
                found.rows,
                domain,
                found.range.until,
                snapshot=found.range.snapshot,
                examples=options.examples,
            )
            if options.format == "json":
                sys.stdout.write(as_json(compared))
            else:
                _print(compared, options.format)
        sys.stdout.flush()
        for note in found.notes():
            sys.stderr.write(f"{note}\n")
    return 0 if all(one.is_equal for one in compared) else _EXIT_DIFFERENT


def _print(compared: list[Compared], form: str) -> None:
    from tidings_lakehouse.reading.rows import Rows, print_rows  # noqa: PLC0415

    columns = ("event", *_COLUMNS, "examples")
    rows: list[tuple[object, ...]] = [
        (
            one.event,
            *(one.counts[name] for name in _COLUMNS),
            "; ".join(f"{state}: {', '.join(ids)}" for state, ids in sorted(one.examples.items())),
        )
        for one in compared
    ]
    print_rows(Rows(columns, rows, (False, *(True for _ in _COLUMNS), False)), form)
