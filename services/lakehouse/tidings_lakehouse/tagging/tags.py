"""Makes and drops tags, and lists them. A tag keeps its snapshot, and so its files, until it is dropped."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from tidings_envelope.position import lsn_to_text
from tidings_lakehouse.errors import MomentError
from tidings_lakehouse.reading.duck import DuckLake
from tidings_lakehouse.reading.rows import Rows
from tidings_lakehouse.tables.races import until_it_holds
from tidings_lakehouse.topics import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_RESERVED = re.compile(r"main|tidings_.*")
"""The branch that readers see, and those to which the job writes."""
_POSITION = "tidings.tag."
"""Before a tag's name: property of a table, the position that the tag is exactly as of."""
_ATTEMPTS = 5
"""Times that a commit is tried while the job commits, too."""


def check_name(name: str) -> None:
    """See that a tag can have a name.

    Raises:
        MomentError: it cannot.
    """
    if not _NAME.fullmatch(name) or _RESERVED.fullmatch(name):
        raise MomentError(
            f"{name!r} is not a name for a tag",
            hint="letters, digits, points, - and _, beginning with a letter or a digit; main and tidings_... are taken",
        )


def tagged(lake: DuckLake, name: str) -> list[str]:
    """Tables that have a tag of that name."""
    return [table for table in sorted(lake.tables) if name in _tags(lake.metadata(table))]


def list_tags(lake: DuckLake) -> Rows:
    """Every tag of every table, with the position that it is exactly as of, where this command made it."""
    found: list[tuple[object, ...]] = []
    for table in sorted(lake.tables):
        metadata = lake.metadata(table)
        made = {one["snapshot-id"]: one["timestamp-ms"] for one in metadata.get("snapshots", [])}
        for name, reference in sorted(_tags(metadata).items()):
            snapshot = reference["snapshot-id"]
            at = made.get(snapshot)
            moment = None if at is None else dt.datetime.fromtimestamp(at / 1000, dt.UTC)
            position = metadata.get("properties", {}).get(_POSITION + name)
            told = None if moment is None else moment.isoformat(sep=" ", timespec="seconds")
            found.append((name, table, position, snapshot, told))
    return Rows(
        ("tag", "table", "position", "snapshot", "committed"),
        sorted(found, key=lambda row: row[:2]),
        (False, False, False, True, False),
    )


class Tags:
    """Changes the tags of tables."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        self._util = jvm.org.apache.iceberg.spark.Spark3Util
        self._spark = session._jsparkSession  # noqa: SLF001

    def make(self, name: str, snapshots: Mapping[str, int], position: int) -> None:
        """Tag a snapshot of each table; all of them or none.

        Raises:
            MomentError: a table could not be tagged; those that were are not any more.
        """
        done: list[str] = []
        for table, snapshot in snapshots.items():
            try:
                self._commit(
                    table, lambda change, snapshot=snapshot: change.createTag(name, snapshot), name, position
                )
            except Py4JJavaError as error:
                self.drop(name, done)
                raise MomentError(
                    f"{table} could not be tagged, so no table is: {_told(error)}",
                    hint="its snapshot may have expired meanwhile: try again, and look at TIDINGS_LAKEHOUSE_KEEP_SECONDS",
                ) from error
            done.append(table)

    def drop(self, name: str, tables: Iterable[str]) -> None:
        """Drop a tag of tables that have it."""
        for table in tables:
            self._commit(table, lambda change: change.removeTag(name), name, None)

    def _commit(self, table: str, change: Any, name: str, position: int | None) -> None:
        def commit() -> None:
            transaction = self._util.loadIcebergTable(self._spark, f"{CATALOG}.{table}").newTransaction()
            change(transaction.manageSnapshots()).commit()
            properties = transaction.updateProperties()
            if position is None:
                properties.remove(_POSITION + name).commit()
            else:
                properties.set(_POSITION + name, lsn_to_text(position)).commit()
            transaction.commitTransaction()

        until_it_holds(table, _ATTEMPTS, commit)


def _tags(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in metadata.get("refs", {}).items() if one.get("type") == "tag"}


def _told(error: Py4JJavaError) -> str:
    return str(error.java_exception.getMessage()).splitlines()[0]
