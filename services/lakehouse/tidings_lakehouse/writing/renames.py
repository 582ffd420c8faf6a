"""`tidings.renames`: columns that PostgreSQL has renamed, by what capture tells on ``<source>.schema-changes``.

A message tells the table before and after (see capture's `SchemaChangePlan`). Where only a name is different, the column was renamed, with one exception: the last column
may have been dropped, and another one of its type added behind it. Then the statement has to say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.schemas import Planner
from tidings_lakehouse.formats.avro_nodes import Node
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.naming import Rename
from tidings_lakehouse.tables.tables import Table, frame_of
from tidings_lakehouse.topics import RENAMES, schema_change_topic, technical_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAYS_RENAME = re.compile(r"\brename\b", re.IGNORECASE)
SCHEMA = st.StructType(
    [
        st.StructField("topic", st.StringType()),
        st.StructField("lsn", st.LongType()),
        st.StructField("former", st.StringType()),
        st.StructField("name", st.StringType()),
    ]
)


def renames_told(change: dict[str, Any]) -> list[tuple[str, str]]:
    """Former and new names of columns by one record of the topic; none when that is not certain."""
    before, after = change.get("before"), change.get("after")
    if not before or not after or len(before["columns"]) != len(after["columns"]):
        return []
    pairs = list(zip(before["columns"], after["columns"], strict=True))
    different = [number for number, (one, other) in enumerate(pairs) if one["name"] != other["name"]]
    if any(pairs[number][0]["type"] != pairs[number][1]["type"] for number in different):
        return []
    if len(pairs) - 1 in different and not _SAYS_RENAME.search(change.get("statement") or ""):
        return []
    return [(pairs[number][0]["name"], pairs[number][1]["name"]) for number in different]


def check_schema_change(node: Node) -> str | None:
    """Why a schema is not that of a schema change, or None."""
    if any(node.field(name) is None for name in ("before", "after", "source", "schema", "table")):
        return "is not that of a schema change"
    return None


class Renames:
    """The columns that were renamed, by topic; kept before they are applied."""

    def __init__(self, session: SparkSession, source: str, schemas: SchemaSource, commits: Commits) -> None:
        self.topic = schema_change_topic(source)
        self._session = session
        self._source = source
        self._plans = Planner(schemas, check_schema_change)
        self._table = Table(session, RENAMES, "", commits)
        self._known: dict[str, list[Rename]] = {}
        for row in session.table(RENAMES).collect() if self._table.exists else []:
            self._add(row["topic"], Rename(row["lsn"], row["former"], row["name"]))

    def of(self, topic: str) -> tuple[Rename, ...]:
        """Those of one topic, in order."""
        return tuple(self._known.get(topic, ()))

    def read(self, records: DataFrame, value_ids: Iterable[int]) -> set[str]:
        """Take in records of the topic; gives the topics of tables of which something is new."""
        plan = self._plans.plan(f"{self.topic}-value", value_ids)
        new = []
        for number, group in enumerate(plan.groups):
            decoded = group.decode("value", "value_id").alias(f"c{number}")
            for row in records.where(group.matches("value_id")).select(sf.to_json(decoded)).collect():
                change = json.loads(row[0])
                if not (change.get("schema") and change.get("table") and change.get("source", {}).get("lsn")):
                    continue
                topic = technical_topic(self._source, f"{change['schema']}.{change['table']}")
                for former, name in renames_told(change):
                    rename = Rename(int(change["source"]["lsn"]), former, name)
                    if self._add(topic, rename):
                        new.append((topic, rename))
        if new:
            self._keep(new)
        return {topic for topic, _ in new}

    def _add(self, topic: str, rename: Rename) -> bool:
        known = self._known.setdefault(topic, [])
        if rename in known:
            return False
        known.append(rename)
        known.sort()
        return True

    def _keep(self, new: list[tuple[str, Rename]]) -> None:
        self._table.ensure(SCHEMA)
        rows = [
            {"topic": topic, "lsn": one.lsn, "former": one.former, "name": one.name} for topic, one in new
        ]
        self._table.append(frame_of(self._session, rows, SCHEMA))
