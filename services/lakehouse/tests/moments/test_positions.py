"""How records are ordered, what is late, and up to where a table is complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as sf

from tidings_envelope.position import place_in_stream
from tidings_lakehouse.decoding.changes import COMMIT_LSN, LSN, with_position
from tidings_lakehouse.tables.positions import PartitionId, Position, Progress, Span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P0, P1 = PartitionId("id", 0), PartitionId("id", 1)


def streamed(first: tuple[int, int], last: tuple[int, int], offsets: tuple[int, int] = (0, 9)) -> Span:
    return Span(*offsets, snapshot_lsns=None, first_lsns=None, placed=(Position(*first), Position(*last)))


def snapshot(lsn: int) -> Span:
    return Span(0, 9, snapshot_lsns=(lsn, lsn), first_lsns=None, placed=None)


def test_rows_behind_what_the_table_has_are_late() -> None:
    progress = Progress()
    assert not progress.is_late({P0: streamed((10, 11), (20, 21))})
    progress.advance({P0: streamed((10, 11), (20, 21))})
    assert not progress.is_late({P0: streamed((20, 22), (30, 31))})
    assert progress.is_late({P0: streamed((20, 20), (30, 31))})


def test_rows_of_a_topic_made_again_are_compared() -> None:
    progress = Progress()
    progress.advance({P0: streamed((10, 11), (20, 21))})
    assert progress.is_late({PartitionId("another", 0): streamed((30, 31), (40, 41))})


def test_a_table_is_complete_up_to_its_slowest_partition() -> None:
    progress = Progress()
    assert progress.complete_lsn([0, 1]) is None
    progress.advance({P0: streamed((10, 11), (20, 21)), P1: streamed((12, 13), (15, 16))})
    assert progress.complete_lsn([0, 1]) == 15
    assert progress.complete_lsn([0, 1, 2]) is None
    assert progress.newest_position == (20, 21)


def test_the_first_transaction_after_a_snapshot_is_newer_than_the_snapshot() -> None:
    """Its rows do not know the last commit, and may have been written before the snapshot."""
    progress = Progress()
    progress.advance({P0: snapshot(100)})
    first = Span(10, 11, snapshot_lsns=None, first_lsns=(90, 95), placed=None)
    assert not progress.is_late({P0: first})
    progress.advance({P0: first})
    assert progress.newest_position == (100, 95)
    assert not progress.is_late({P0: streamed((110, 105), (110, 106))})


LOG = "topic_id string, partition int, offset long, snapshot boolean, incremental boolean, last_commit_lsn long, lsn long"
LSNS = st.integers(0, 60)
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["false", "incremental", "true", "last"]),
        st.none() | LSNS,
        LSNS,
        st.sampled_from([0, 1]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.spark
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, before=st.dictionaries(st.sampled_from([0, 1]), LSNS))
def test_the_tables_order_is_that_of_the_one_rule(
    session: SparkSession,
    records: list[tuple[str, int | None, int, int]],
    before: dict[int, int],
) -> None:
    """Every row's position is what `place_in_stream` gives, with the snapshot before it in its partition."""
    rows = [
        {
            "topic_id": "id",
            "partition": partition,
            "offset": offset,
            "snapshot": kind != "false",
            "incremental": kind == "incremental",
            "last_commit_lsn": last_commit,
            "lsn": lsn,
        }
        for offset, (kind, last_commit, lsn, partition) in enumerate(records)
    ]
    rows_of = sf.from_json(sf.lit(json.dumps(rows)), f"array<struct<{LOG}>>")
    frame = session.range(1, numPartitions=1).select(sf.inline(rows_of))
    found = {
        row["offset"]: (row[COMMIT_LSN], row[LSN])
        for row in with_position(
            frame, {PartitionId("id", number): lsn for number, lsn in before.items()}, windowed=True
        ).collect()
    }
    seen = dict(before)
    for offset, (kind, last_commit, lsn, partition) in enumerate(records):
        if kind in {"true", "last"} and last_commit is None:
            seen[partition] = lsn
        place = place_in_stream(kind, last_commit, lsn, snapshot_lsn=seen.get(partition, 0))
        assert found[offset] == place[:2]
