"""Rows are replaced by a semi join, whatever is late, repeated, deleted, read again, not logged or there twice, by any layouts."""

from __future__ import annotations

import datetime as dt
import json
import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.changes import OP, CurrentShape, logged_at
from tidings_lakehouse.layout_rules import layout_rules
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.writing.replacing import replace_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KEYS = {"a": st.IntegerType(), "b": st.StringType()}
SCHEMA = st.StructType(
    [
        *[st.StructField(name, type_) for name, type_ in KEYS.items()],
        st.StructField("note", st.StringType()),
        st.StructField("__commit_lsn", st.LongType()),
        st.StructField("__lsn", st.LongType()),
        st.StructField("__changed_at", st.TimestampType()),
    ]
)
PLACE = st.StructType([st.StructField(name, st.LongType()) for name in ("__commit_lsn", "__lsn")])
CHANGES = st.ArrayType(
    st.StructType(
        [
            st.StructField(OP, st.StringType()),
            st.StructField("__is_read", st.BooleanType()),
            *SCHEMA.fields,
            st.StructField(logged_at("note"), PLACE),
        ]
    )
)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_newer_positions_win(session: SparkSession, unique_name: str, seed: int) -> None:
    chance = random.Random(seed)
    keys = ["a"] if seed == 1 else ["a", "b"]
    missing = [] if seed == 1 else ["note"]
    columns = {field.name: field.name for field in SCHEMA.fields[:3]}
    shape = CurrentShape({key: key for key in keys}, columns, SCHEMA)
    expected: dict[tuple[object, ...], tuple[object, ...]] = {}
    newest = (0, 0)
    for turn, layout in enumerate(["", "bucket(4)", "bucket(4)", "bucket(9)", "note", "none sort a"]):
        commits = Commits(session, layout_rules(f".*={layout}" if layout else ""))
        table = Table(session, f"technical.{unique_name}", "t", commits)
        table.ensure(SCHEMA, keys=keys)
        changes = {}
        is_newer = turn in {2, 5}
        for _ in range(12):
            at = (chance.randrange(6) + (newest[0] + 1 if is_newer else 0), chance.randrange(3))
            op = chance.choice("cuudrx")  # x: what an incremental snapshot found gone
            one = {
                OP: op.replace("x", "d"),
                "__is_read": op in "rx",
                "a": chance.randrange(5),
                "b": chance.choice(["x", "y'"]) if len(keys) == 2 else "x",
                "note": f"{turn}",
                logged_at("note"): None if chance.random() < 0.4 else {"__commit_lsn": at[0], "__lsn": at[1]},
                "__commit_lsn": at[0],
                "__lsn": at[1],
                "__changed_at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC).isoformat(),
            }
            changes[tuple(one[key] for key in keys)] = one
        frame = session.range(1).select(
            sf.inline(sf.from_json(sf.lit(json.dumps(list(changes.values()))), CHANGES))
        )
        rows_held = table.rows_held
        table.write(
            lambda name, frame=frame, rows_held=rows_held, is_newer=is_newer, turn=turn, table=table: (
                replace_rows(  # type: ignore[misc]
                    session,
                    name,
                    frame,
                    shape,
                    rows_held=rows_held,
                    is_newer=is_newer,
                    most=12 if turn % 2 else 10**6,
                    missing=missing,
                    buckets=table.buckets(keys),
                )
            )
        )
        for key, one in changes.items():
            at = (one["__commit_lsn"], one["__lsn"])
            newest = max(newest, at)
            held = expected.get(key)
            if held is None or at > held[:2] or (at == held[:2] and one["__is_read"]):
                expected.pop(key, None)
                is_known = not missing or one[logged_at("note")] is not None
                if one[OP] != "d" and (is_known or held is not None):
                    expected[key] = (*at, one["note"] if is_known or held is None else held[2])
        rows = session.table(table.name).collect()
        assert {
            tuple(row[key] for key in keys): (row["__commit_lsn"], row["__lsn"], row["note"]) for row in rows
        } == expected
        assert len(rows) == len(expected)
