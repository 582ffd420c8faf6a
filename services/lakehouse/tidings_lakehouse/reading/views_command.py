"""`tidings-lakehouse views`: the command's options, and what it says."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any

from tidings_lakehouse.settings import HistorySettings
from tidings_lakehouse.topics import HISTORY
from tidings_service import SettingsError


def add_views(commands: Any, read_settings: Callable[[type[HistorySettings]], HistorySettings]) -> None:
    """Add the command to those of `tidings-lakehouse`."""
    views = commands.add_parser(
        "views",
        help="make the views technical.<table>_history and business.<event>_corrected in the catalog, or bring them up to new"
        " columns",
    )
    views.add_argument(
        "--materialise",
        metavar="PATTERN",
        help="have the histories of the tables whose whole names match be tables, as they are now, in place of views; run it again"
        " to bring them up to date",
    )
    views.add_argument(
        "--views",
        metavar="PATTERN",
        help="have the histories of the tables whose whole names match be views again",
    )
    views.set_defaults(command=lambda options: _run(options, read_settings))


def _run(
    options: argparse.Namespace, read_settings: Callable[[type[HistorySettings]], HistorySettings]
) -> int:
    from tidings_lakehouse.history.history_sql import SPARK  # noqa: PLC0415
    from tidings_lakehouse.reading.corrected import CORRECTED, corrected_queries  # noqa: PLC0415
    from tidings_lakehouse.reading.duck import duck_lake  # noqa: PLC0415
    from tidings_lakehouse.reading.materialised import (  # noqa: PLC0415
        MATERIALISED_PROPERTY,
        drop_materialised,
        materialise,
    )
    from tidings_lakehouse.reading.moments import SourceTables  # noqa: PLC0415
    from tidings_lakehouse.reading.views import create_views  # noqa: PLC0415
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415

    settings = read_settings(HistorySettings)
    tables, views = (_pattern(options.materialise), _pattern(options.views))
    with duck_lake(settings) as lake:
        source = SourceTables(lake, settings.source)
        histories = {
            name: (source.history_statement(name, SPARK), source.keys(name))
            for name in source.tables
            if name + HISTORY not in lake.tables
            or lake.property(name + HISTORY, MATERIALISED_PROPERTY) == name
        }
        queries = {
            name + HISTORY: statement
            for name, (statement, _) in histories.items()
            if not tables(name) and (name + HISTORY not in lake.tables or views(name))
        }
        events = [f"{name}{CORRECTED}" for name in sorted(lake.tables)]
        queries |= corrected_queries(events, lake.tables, SPARK)
    with running_session(settings, "tidings-lakehouse-views") as session:
        for name, (statement, keys) in histories.items():
            if tables(name):
                count = materialise(
                    session, name, name + HISTORY, statement, topic=source.topics[name], keys=keys
                )
                sys.stdout.write(f"{name}{HISTORY}: a table of {count} versions\n")
            elif views(name):
                drop_materialised(session, name + HISTORY)
        for name in create_views(session, queries):
            sys.stdout.write(f"{name}\n")
    return 0


def _pattern(text: str | None) -> Callable[[str], bool]:
    """Whether a pattern is a name as a whole; none is."""
    try:
        pattern = None if text is None else re.compile(text)
    except re.error as error:
        raise SettingsError(
            f"{text} is not a regular expression: {error}", hint=r"such as technical\.orders"
        ) from error
    return lambda name: pattern is not None and pattern.fullmatch(name) is not None
