"""The logs as the records they came from: offsets, positions and values as Debezium has them, and nothing twice."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as st

from tidings_lakehouse.errors import HistoryError
from tidings_lakehouse.history.history import check_columns, write_history

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

pytestmark = pytest.mark.timeout(900)

FULL: dict[str, Any] = {
    "id": 1,
    "status": "paid",
    "note": 'a "note" \u20ac',
    "amount": Decimal("-12.50"),
    "required_on": 19_000,
    "ordered_at": "2024-02-29T12:30:00.12Z",
    "updated_at": 1_700_000_000_123_456,
}
NULLS: dict[str, Any] = {**dict.fromkeys(FULL), "id": 2}


def records(directory: Path, topic: str) -> list[dict[str, Any]]:
    [file] = (directory / f"topic={topic}" / "partition=0").glob("*.gz")
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


@pytest.mark.spark
@pytest.mark.stack
def test_a_log_becomes_the_records_that_it_came_from(
    lake: Lake, orders: TableTopic, topics: Topics, unique_name: str, tmp_path: Path
) -> None:
    lake.settings = lake.settings.model_copy(update={"lakehouse_infinite": ".*=null"})
    markers = f"{unique_name}.transaction"
    topics.create(markers)
    orders.change("r", FULL, None, 100, snapshot="last")
    orders.change("c", NULLS, None, 110)
    orders.change("u", {**FULL, "ordered_at": "infinity"}, 120, 130, before={**FULL, "id": 1})
    orders.change("d", {**NULLS, "id": 2}, 140, 150)
    topics.produce(orders.topic, None, b"\0broken")
    orders.read_again(FULL, 160, 170)
    for number in range(3):
        topics.produce(markers, b"key", b"\0marker %d" % number)
    topics.flush()
    lake.drain()
    lake.forget()
    for number in range(3, 5):
        topics.produce(markers, None, b"\0marker %d" % number)
    topics.flush()
    lake.drain_and_crash("transactions")
    lake.forget()
    lake.drain()

    infinite = "after.ordered_at is null, after.ordered_at__infinite"
    assert lake.rows(f"select {infinite} from {orders.table}_log where lsn = 130") == [(True, "infinity")]
    found = write_history(lake.session, unique_name, tmp_path / "history")
    assert json.loads((tmp_path / "history" / "history.json").read_text()) == found
    spans = {topic: one["partitions"] for topic, one in found["topics"].items()}
    assert spans == {
        orders.topic: {"0": {"first": 0, "last": 6}},
        markers: {"0": {"first": 0, "last": 4}},
    }
    told = records(tmp_path / "history", markers)
    assert [(one["offset"], b64decode(one["raw_value"])) for one in told] == [
        (number, b"\0marker %d" % number) for number in range(5)
    ]
    snapshot, created, updated, deleted, tombstone, broken, again = records(
        tmp_path / "history", orders.topic
    )
    row = {**FULL, "amount": "-12.50"}
    assert snapshot["key"] == {"id": 1}
    assert (snapshot["value"]["op"], snapshot["value"]["after"]) == ("r", row)
    assert snapshot["value"]["transaction"] is None
    assert snapshot["value"]["source"]["snapshot"] == "true"
    assert (created["value"]["before"], created["value"]["after"]) == (None, NULLS)
    assert created["value"]["source"] == {
        "name": unique_name,
        "db": "",
        "schema": "public",
        "table": orders.topic.rpartition(".")[2],
        "ts_ms": 1_700_000_000_110,
        "ts_us": 1_700_000_000_110_000,
        "snapshot": "false",
        "sequence": '[null,"110"]',
        "txId": 110,
        "lsn": 110,
    }
    transaction = {"id": "110:110", "total_order": 1, "data_collection_order": 1}
    assert created["value"]["transaction"] == transaction
    assert updated["value"]["before"] == row
    assert updated["value"]["after"] == {**row, "ordered_at": "infinity"}
    assert updated["value"]["source"]["sequence"] == '["120","130"]'
    assert (deleted["value"]["op"], deleted["value"]["before"]["id"]) == ("d", 2)
    assert (tombstone["key"], tombstone["value"]) == ({"id": 2}, None)
    assert b64decode(broken["raw_value"]) == b"\0broken"
    read = again["value"]["source"]
    assert (read["snapshot"], read["lsn"], read["sequence"]) == ("incremental", None, '["160","170"]')
    told_in_order = (snapshot, created, updated, deleted, tombstone, broken, again)
    assert [one["offset"] for one in told_in_order] == [*range(7)]

    with pytest.raises(HistoryError, match="exists"):
        write_history(lake.session, unique_name, tmp_path / "history")
    with pytest.raises(HistoryError, match="no log of a table of source other"):
        write_history(lake.session, "other", tmp_path / "other")


def test_a_column_with_two_types_is_refused() -> None:
    """Which of the two columns a record had is not told any more; names that only look like that are columns."""
    text, number = st.StringType(), st.DecimalType(10, 2)
    fine = st.StructType([st.StructField("amount", number), st.StructField("amount__net", text)])
    check_columns("shop.public.orders", fine)
    check_columns("shop.public.orders", None)
    both = st.StructType([st.StructField("amount", number), st.StructField("amount__string", text)])
    with pytest.raises(HistoryError, match="orders: column amount has changed its type"):
        check_columns("shop.public.orders", both)
