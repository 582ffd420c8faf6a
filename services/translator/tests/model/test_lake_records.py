"""What the lakehouse has written is read back as records, and refused where history would have a gap."""

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Uuid

from tidings_translator.base.errors import GenerationError
from tidings_translator.base.records import Partition
from tidings_translator.generations.from_lake.history import Lake, LakeRecord
from tidings_translator.ledger.records import topic_id_text

ORDERS, MARKERS = Partition("shop.public.orders", 1), Partition("shop.transaction", 0)
READ = {ORDERS.topic, MARKERS.topic}


def written(directory: Path, *lines: dict[str, Any], first: int = 0, last: int = 9) -> Path:
    """Rows of orders, and a log of markers that has none."""
    span = {"first": 0, "last": 3}
    topics = {
        ORDERS.topic: {"id": "A", "partitions": {"1": {"first": first, "last": last}}},
        MARKERS.topic: {"id": "B", "partitions": {"0": span}},
    }
    (directory / "history.json").write_text(json.dumps({"source": "shop", "topics": topics}))
    path = directory / f"topic={ORDERS.topic}" / "partition=1" / "part-0.txt.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    return path


def test_records_are_read_by_offset_from_anywhere(tmp_path: Path) -> None:
    header = {"key": "traceparent", "value": b64encode(b"00-a").decode()}
    written(
        tmp_path,
        {"offset": 2, "key": {"id": 1}, "value": {"op": "c"}, "headers": None},
        {"offset": 4, "key": None, "value": None, "headers": [header]},
        {"offset": 7, "raw_value": b64encode(b"\0x").decode(), "headers": [header]},
    )
    records = [
        LakeRecord(2, b'{"id": 1}', b'{"op": "c"}', []),
        LakeRecord(4, None, None, [("traceparent", b"00-a")]),
        LakeRecord(7, None, b"\0x", [("traceparent", b"00-a")]),
    ]
    for start in range(8):
        partition = Lake(tmp_path, "shop").open(ORDERS, start)
        found = []
        while batch := partition.next(2):
            found += batch
            assert partition.exhausted or partition.position == batch[-1].offset + 1
        assert found == [record for record in records if record.offset >= start]
        assert partition.exhausted
        assert partition.position == 10, "the log ends there, whatever was deleted before"


def test_moments_that_could_be_milliseconds_are_told_in_text(tmp_path: Path) -> None:
    """Numbers of a history are microseconds, whatever the column's unit; others keep their bytes."""
    early, late = {"id": 1, "made_at": 12_345, "n": 5}, {"id": 1, "made_at": 1_700_000_000_000_001, "n": 5}
    written(
        tmp_path,
        {"offset": 0, "key": None, "value": {"op": "u", "before": late, "after": early}},
        {"offset": 1, "key": None, "value": {"op": "c", "before": None, "after": late}},
    )
    found = Lake(tmp_path, "shop", frozenset({"made_at"})).open(ORDERS, 0).next(2)
    changed, same = (record.value or b"" for record in found)
    assert json.loads(changed)["before"] == late
    assert json.loads(changed)["after"] == {**early, "made_at": "1970-01-01T00:00:00.012345"}
    assert same == json.dumps({"op": "c", "before": None, "after": late}).encode()


def test_a_topics_id_is_written_as_java_does() -> None:
    assert topic_id_text(Uuid(1, 2)) == "AAAAAAAAAAEAAAAAAAAAAg"
    assert topic_id_text(Uuid(-1, -2)) == "_____________________g"


def test_a_damaged_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(GenerationError, match=r"history\.json cannot be read"):
        Lake(tmp_path, "shop")
    path = written(tmp_path, {"offset": 2}, {"offset": 2})
    with pytest.raises(GenerationError, match="history of source shop, not of other"):
        Lake(tmp_path, "other")
    with pytest.raises(GenerationError, match="not in the order"):
        Lake(tmp_path, "shop").open(ORDERS, 0).next(5)
    path.write_bytes(written(tmp_path, {"offset": 2}).read_bytes()[:-9])
    with pytest.raises(GenerationError, match=r"part-0\.txt\.gz cannot be read: EOFError"):
        Lake(tmp_path, "shop").open(ORDERS, 0).next(5)


def test_a_gap_in_history_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    ids = {ORDERS.topic: "A", MARKERS.topic: "B", "shop.public.new": "C"}

    def check(firsts: dict[Partition, int], ids: dict[str, str] = ids) -> None:
        Lake(tmp_path, "shop").check(READ | {"shop.public.new"}, MARKERS.topic, firsts=firsts, topic_ids=ids)

    new = Partition("shop.public.new", 0)
    check({ORDERS: 10, MARKERS: 4, new: 0})
    with pytest.raises(GenerationError, match=r"orders/1 is logged up to offset 9, and Kafka's begins at 11"):
        check({ORDERS: 11, MARKERS: 0})
    with pytest.raises(GenerationError, match=r"new/0 is logged up to offset -1, and Kafka's begins at 1"):
        check({ORDERS: 0, MARKERS: 0, new: 1})
    for other in ({**ids, ORDERS.topic: "Z"}, {MARKERS.topic: "B"}):
        with pytest.raises(GenerationError, match=r"orders is not the one that the lakehouse has logged"):
            check({ORDERS: 0, MARKERS: 0}, other)
    with pytest.raises(GenerationError, match=r"no log of shop\.other"):
        Lake(tmp_path, "shop").check(READ, "shop.other", firsts={}, topic_ids=ids)
    written(tmp_path, first=5)
    for firsts, hint in ((0, "without --from-lake"), (5, "started after")):
        with pytest.raises(
            GenerationError, match=r"the log of shop.public.orders/1 begins at offset 5"
        ) as error:
            check({ORDERS: firsts, MARKERS: 0})
        assert hint in str(error.value.hint)
