"""`tidings-lakehouse as-of ... --tag` and `tidings-lakehouse tags`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from tidings_lakehouse.errors import MomentError
from tidings_lakehouse.settings import HistorySettings, WarehouseSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_tags(
    commands: Any, add_format: Callable[[argparse.ArgumentParser], None], settings_of: Callable[[Any], Any]
) -> None:
    """Add the command that lists and drops tags."""
    tags = commands.add_parser("tags", help="list the tags of tables, or drop one")
    tags.add_argument("--drop", metavar="NAME", help="drop the tag of this name from all tables that have it")
    add_format(tags)
    tags.set_defaults(command=lambda options: _tags(options, settings_of(WarehouseSettings)))


def tag(settings: HistorySettings, text: str, name: str) -> int:
    """Tag all tables of the source as of a moment, where that is exact; gives the exit code.

    Raises:
        MomentError: it is not, or there is such a tag.
    """
    from tidings_lakehouse.reading.duck import duck_lake  # noqa: PLC0415 - duckdb is not needed by every command
    from tidings_lakehouse.reading.moments import SourceTables  # noqa: PLC0415
    from tidings_lakehouse.tagging.exact import exact_snapshots  # noqa: PLC0415
    from tidings_lakehouse.tagging.tags import Tags, check_name, tagged  # noqa: PLC0415

    check_name(name)
    with duck_lake(settings) as lake:
        source = SourceTables(lake, settings.source)
        if taken := sorted(set(tagged(lake, name)) & set(source.tables)):
            raise MomentError(
                f"{', '.join(taken)}: there is a tag {name}",
                hint=f"take another name, or tidings lakehouse tags --drop {name}",
            )
        moment = source.moment(text)
        snapshots = exact_snapshots(lake, source, moment)
    with _session(settings) as session:
        Tags(session).make(name, snapshots, moment.position)
    for table, snapshot in snapshots.items():
        sys.stdout.write(f"{table} {snapshot}\n")
    return 0


def _tags(options: argparse.Namespace, settings: WarehouseSettings) -> int:
    from tidings_lakehouse.reading.duck import duck_lake  # noqa: PLC0415
    from tidings_lakehouse.reading.rows import print_rows  # noqa: PLC0415
    from tidings_lakehouse.tagging.tags import Tags, list_tags, tagged  # noqa: PLC0415

    with duck_lake(settings) as lake:
        if options.drop is None:
            print_rows(list_tags(lake), options.format)
            return 0
        tables = tagged(lake, options.drop)
    if not tables:
        raise MomentError(f"no table has a tag {options.drop}", hint="tidings lakehouse tags lists them")
    with _session(settings) as session:
        Tags(session).drop(options.drop, tables)
    for table in tables:
        sys.stdout.write(f"{table}\n")
    return 0


def _session(settings: WarehouseSettings) -> AbstractContextManager[SparkSession]:
    from tidings_lakehouse.spark.session import running_session  # noqa: PLC0415

    return running_session(settings, "tidings-lakehouse-tags")
