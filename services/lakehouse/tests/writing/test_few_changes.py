"""Few changes of a current state, and few events, are written without a job of Spark's: the tables are the same."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.changes import POSITION_FIELDS, CurrentShape
from tidings_lakehouse.errors import SecondWriterError
from tidings_lakehouse.layout_rules import layout_rules
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.spark.small_files import SmallFiles
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.table_counts import row_count
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.writing.few_changes import FewChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILE_PATH = 2147483546
"""Id of the column of a position delete that names the data file (Iceberg specification, "Reserved Field IDs")."""
NOTE = st.StructField("note", st.StringType())
KEYS = {
    "number": [st.StructField("a", st.IntegerType())],
    "several": [
        st.StructField("a", st.LongType()),
        st.StructField("b", st.StringType()),
        st.StructField("c", st.DateType()),
        st.StructField("d", st.DecimalType(20, 2)),
    ],
    "moment": [st.StructField("a", st.TimestampType())],
}


def _value(chance: random.Random, kind: st.DataType) -> Any:
    number = chance.randrange(4)
    if isinstance(kind, st.StringType):
        return ["x", "y'\n", "\u00e9,]", '"'][number]
    if isinstance(kind, st.DateType):
        return f"2024-01-0{number + 1}"
    return f"{number}.50" if isinstance(kind, st.DecimalType) else number


class Current:
    """A current state and what it has to hold."""

    def __init__(self, session: SparkSession, name: str, fields: list[st.StructField]) -> None:
        self.session, self.fields = session, fields
        self.shape = CurrentShape(
            {field.name: field.name for field in fields},
            {field.name: field.name for field in [*fields, NOTE]},
            st.StructType([*fields, NOTE, *POSITION_FIELDS]),
        )
        self.name = f"technical.{name}"
        self.lay_out("")
        self.local = LocalRows(session, 10_000)
        self.few = FewChanges(session, self.local)
        self.expected: dict[tuple[Any, ...], tuple[int, int, str]] = {}

    def lay_out(self, how: str) -> None:
        """As a job would that has begun with the setting; ``bucket(3)``."""
        self.commits = Commits(self.session, layout_rules(f".*={how}" if how else ""))
        self.table = Table(self.session, self.name, "t", self.commits)
        self.table.ensure(self.shape.schema, keys=[field.name for field in self.fields])

    def takes(self, changes: int = 1) -> bool:
        return self.few.takes(self.shape, changes)

    def write(self, changes: list[dict[str, Any]], behind: Any = lambda: None) -> bool:
        """Write changes, each with op (x: what an incremental snapshot found gone), key, note, commit and lsn."""
        done = self.few.write(self.table, self.frame(changes), self.shape, {}, {"n": len(changes)}, behind)
        for one in changes:
            key, at = tuple(one["key"].values()), (one["commit"], one["lsn"])
            held = self.expected.get(key)
            # What is deleted and comes again in the same changes is newer than itself alone.
            if held is None or at > held[:2] or (at == held[:2] and one["op"] in "rx"):
                self.expected[key] = (*at, "" if one["op"] in "dx" else one["note"])
        self.expected = {key: held for key, held in self.expected.items() if held[2]}
        return done

    def frame(self, changes: list[dict[str, Any]]) -> DataFrame:
        key, row = st.StructType(self.fields), st.StructType([*self.fields, NOTE])
        schema = st.StructType(
            [
                st.StructField("topic_id", st.StringType()),
                st.StructField("partition", st.IntegerType()),
                st.StructField("offset", st.LongType()),
                st.StructField("timestamp", st.TimestampType()),
                st.StructField("op", st.StringType()),
                st.StructField("key", key),
                st.StructField("before", row),
                st.StructField("after", row),
                st.StructField("snapshot", st.BooleanType()),
                st.StructField("incremental", st.BooleanType()),
                st.StructField("last_commit_lsn", st.LongType()),
                st.StructField("lsn", st.LongType()),
                st.StructField("changed_at", st.TimestampType()),
                st.StructField("unavailable", st.ArrayType(st.StringType())),
                st.StructField("reason", st.StringType()),
            ]
        )
        rows = [
            {
                "topic_id": "t",
                "partition": 0,
                "offset": number,
                "timestamp": "2024-01-01T00:00:00Z",
                "op": "d" if one["op"] == "x" else one["op"],
                "key": one["key"],
                ("before" if one["op"] in "dx" else "after"): {**one["key"], "note": one["note"]},
                "snapshot": one["op"] == "x",
                "incremental": one["op"] == "x",
                "last_commit_lsn": one["commit"],
                "lsn": one["lsn"],
                "unavailable": [],
            }
            for number, one in enumerate(changes)
        ]
        frame = self.session.range(1).select(
            sf.inline(sf.from_json(sf.lit(json.dumps(rows)), st.ArrayType(schema)))
        )
        return self.local.collected(frame)

    def put_together(self) -> int:
        """As the job does between two times that it looks after the table."""
        files = SmallFiles(self.session)
        return self.commits.looked_at(self.name, lambda held: files.put_together(held, 2))

    def check(self) -> None:
        """That a reader sees what is expected, and that the metadata tell of it rightly."""
        rows = self.session.table(self.table.name).collect()
        names = [field.name for field in self.fields]
        held = {
            tuple(map(_plain, (row[name] for name in names))): (
                row["__commit_lsn"],
                row["__lsn"],
                row["note"],
            )
            for row in rows
        }
        assert held == self.expected
        assert len(rows) == len(held) == row_count(self.session, self.table.name)
        # Each data file has one delete file at most, as Spark leaves it.
        files = self.session.table(f"{self.table.name}.delete_files")
        bounds = files.selectExpr(f"lower_bounds[{FILE_PATH}]", f"upper_bounds[{FILE_PATH}]").collect()
        assert all(least == greatest for least, greatest in bounds)
        assert len(set(bounds)) == len(bounds)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else value


@pytest.mark.parametrize("kind", ["number", "several"])
def test_newer_positions_win(session: SparkSession, unique_name: str, kind: str) -> None:
    """Whatever is late, repeated, deleted or read again, with a compaction in between, with small files put together, with former
    snapshots gone, and with files of several layouts."""
    chance, current = random.Random(kind), Current(session, unique_name, KEYS[kind])
    assert current.takes()
    column = KEYS[kind][-1].name
    for turn, layout in enumerate(["", "", f"bucket(3), bucket(2, {column})", "bucket(5)", "none"]):
        current.lay_out(layout)
        maintenance = Maintenance(session, current.commits, commits=1, keep_snapshots=1, keep_seconds=0)
        if turn == 2:
            maintenance.compact(current.table.name)  # the first snapshot expires
        changes = [
            {
                "op": chance.choice("cuudrx"),
                "key": {
                    field.name: _value(chance, field.dataType) if field.name != "d" else "7.00"
                    for field in KEYS[kind]
                },
                "note": f"{turn} {number}",
                "commit": 10 * turn + chance.randrange(45),
                "lsn": chance.randrange(3),
            }
            for number in range(0 if turn == 2 else 6)
        ]
        compacted = []

        def compact(
            turn: int = turn, compacted: list[int] = compacted, maintenance: Maintenance = maintenance
        ) -> None:
            if turn == 3 and not compacted:
                compacted.append(turn)
                maintenance.compact(current.table.name)

        assert current.write(changes, compact)
        current.check()
        if turn != 1:
            current.put_together()
            current.check()
    assert current.commits.noted(current.table.name) == {"n": 6}


def test_what_is_left_to_spark(session: SparkSession, unique_name: str) -> None:
    """Many changes, keys whose files have many rows, keys of other kinds, tables of version 3; what has no key or no position."""
    current = Current(session, unique_name, KEYS["number"])
    assert not current.takes(changes=201)
    assert not Current(session, f"{unique_name}m", KEYS["moment"]).takes()
    changes = [{"op": "c", "key": {"a": None}, "note": "x", "commit": 1, "lsn": 1}]
    assert not current.few.write(current.table, current.frame(changes), current.shape, {}, None, lambda: None)
    session.sql(f"ALTER TABLE {current.table.name} SET TBLPROPERTIES ('format-version' = '3')")
    changes[0]["key"] = {"a": 1}
    assert not current.few.write(current.table, current.frame(changes), current.shape, {}, None, lambda: None)
    assert current.table.rows_held == 0


def test_few_rows_of_a_large_table_are_read_by_buckets(
    session: SparkSession, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings_lakehouse.writing.few_changes._MOST_ROWS", 10)
    current = Current(session, unique_name, KEYS["number"])

    def changes(*keys: int, at: int) -> list[dict[str, Any]]:
        return [{"op": "u", "key": {"a": key}, "note": f"{at} {key}", "commit": at, "lsn": 1} for key in keys]

    current.lay_out("bucket(8)")
    assert current.write(changes(*range(40), at=1))
    assert current.write(changes(7, at=2))  # of one bucket
    before = dict(current.expected)
    assert not current.write(changes(*range(40), at=3))  # of all
    current.expected = before
    current.lay_out("none")
    assert current.write(changes(9, at=4))  # the files of the former layout are left out, too
    current.check()


def test_a_second_writer_is_found_and_a_crash_leaves_nothing(session: SparkSession, unique_name: str) -> None:
    current = Current(session, unique_name, KEYS["number"])
    changes = [
        {"op": "c", "key": {"a": number}, "note": "x", "commit": number, "lsn": 1} for number in range(3)
    ]
    assert current.write(changes)
    newer = [{**one, "op": "u", "note": "y", "commit": 9} for one in changes[:2]]
    before = current.expected
    with pytest.raises(ZeroDivisionError):
        current.write(newer, lambda: 1 // 0)
    current.expected = before
    current.check()
    other = Current(session.newSession(), unique_name, KEYS["number"])
    with pytest.raises(SecondWriterError, match=current.table.name):
        current.write(newer, lambda: _is(other.write([{**changes[2], "op": "d", "commit": 8}])))
    other.expected = {key: held for key, held in before.items() if key != (2,)}
    other.check()


def _is(done: bool) -> None:
    assert done
