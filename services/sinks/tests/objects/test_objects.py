"""Objects: their names, when they are complete, what a crash leaves, and what a bad record does."""

import gzip
import io
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest
from object_parts import ORDER, Objects, field, order, struct

from tidings_connect.task.sink import SinkContext
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.objects.connector import ObjectStorageSink, S3Sink
from tidings_sinks.objects.settings import OPTIONS, REFUSED, S3_OPTIONS, check_together

POINTS = ("sink.put", "sink.flush", "object.complete", "object.stored", "sink.flushed", "sink.committed")
CITIES = ("Oslo", "Turku", "Bergen")
HOUR = 3_600_000
START = 1_767_222_000_000  # 2025-12-31T23:00:00Z


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Objects]:
    with MemoryWorker(ObjectStorageSink(), "lake") as worker:
        yield Objects(worker, tmp_path)


def ids(data: bytes, name: str) -> list[int]:
    """The records of an object."""
    if name.endswith(".parquet"):
        found = pq.read_table(io.BytesIO(data)).to_pylist()
    elif name.endswith(".avro"):
        found = list(fastavro.reader(io.BytesIO(data)))
    else:
        text = gzip.decompress(data) if name.endswith(".gz") else data
        found = [json.loads(line) for line in text.splitlines()]
    return [row["id"] for row in found]


@pytest.mark.parametrize(
    ("form", "more", "extension"),
    [
        ("ParquetFormat", {}, ".snappy.parquet"),
        ("io.confluent.connect.s3.format.parquet.ParquetFormat", {"parquet_codec": "none"}, ".parquet"),
        ("AvroFormat", {}, ".avro"),
        ("AvroFormat", {"avro_codec": "deflate"}, ".avro"),
        ("JsonFormat", {}, ".json"),
        ("JsonFormat", {"s3_compression_type": "gzip"}, ".json.gz"),
    ],
)
def test_an_object_has_so_many_records_and_is_named_by_its_first(
    sink: Objects, form: str, more: dict[str, str], extension: str
) -> None:
    sink.send(*(order(n) for n in range(7)))
    sink.send(order(100), partition=1)
    sink.start(form, **more)
    sink.await_committed(6)
    found = {name: ids(data, name) for name, data in sink.files().items()}
    place = "topics/orders/partition=0/orders+0+"
    assert found == {f"{place}0000000000{extension}": [0, 1, 2], f"{place}0000000003{extension}": [3, 4, 5]}
    sink.send(order(7), order(8))
    sink.send(order(101), order(102), partition=1)
    sink.await_committed(9)
    sink.await_committed(3, partition=1)
    names = sink.files()
    assert ids(names[f"{place}0000000006{extension}"], extension) == [6, 7, 8]
    assert ids(names[f"topics/orders/partition=1/orders+1+0000000000{extension}"], extension) == [
        100,
        101,
        102,
    ]


@pytest.mark.parametrize("form", ["ParquetFormat", "AvroFormat", "JsonFormat"])
@pytest.mark.parametrize("point", POINTS)
def test_after_a_crash_the_same_objects_are_there(tmp_path: Path, form: str, point: str) -> None:
    """Whatever batches the records come in: byte for byte, and nothing beside them."""
    chance = random.Random(f"{form} {point}")
    wider = struct(*ORDER["fields"], field("more", "int32"))
    values = [order(n, chance.choice(CITIES), wider if 20 <= n < 30 else ORDER) for n in range(60)]
    times = [START + n * HOUR // 10 + chance.randrange(HOUR) for n in range(60)]
    skip = chance.randrange(3) if point in {"sink.put", "object.complete", "object.stored"} else 0
    results = []
    for side in ("whole", "crashed"):
        directory = tmp_path / side
        with MemoryWorker(ObjectStorageSink(), "lake") as worker:
            sink = Objects(worker, directory)
            options = {
                "partitioner_class": "FieldPartitioner", "partition_field_name": "city", "rotate_interval_ms": str(2 * HOUR),
                "consumer_override_max_poll_records": "500" if side == "whole" else str(chance.randrange(1, 9)),
            }  # fmt: skip
            sink.send(*values[:30], timestamps=times[:30])
            if side == "whole":
                sink.start(form, **options)
            else:
                with worker.crash_at(point, skip=skip) as happened:
                    sink.start(form, **options)
                    worker.wait_for(
                        lambda: happened.is_set() and worker.state == "FAILED", f"a crash at {point}"
                    )
                worker.resume()
            sink.send(*values[30:], timestamps=times[30:])
            sink.send(*(order(1000 + n, "Oslo") for n in range(3)), timestamps=[times[-1] + 9 * HOUR] * 3)
            sink.await_committed(63)
            results.append(sink.files())
    whole, crashed = results
    assert crashed.keys() == whole.keys()
    assert crashed == whole
    found = sorted(number for name, data in whole.items() for number in ids(data, name))
    assert found == [*range(60), 1000, 1001, 1002]
    assert len(whole) > 20


def test_objects_end_by_the_records_time(sink: Objects) -> None:
    sink.send(*(order(n) for n in range(4)), timestamps=[START, START + 500, START + 999, START + 1000])
    sink.start(flush_size="100", rotate_interval_ms="1000", consumer_override_max_poll_records="2")
    sink.await_committed(3)
    assert [ids(data, name) for name, data in sink.files().items()] == [[0, 1, 2]]


def test_another_schema_begins_another_object(sink: Objects) -> None:
    wider = struct(*ORDER["fields"], field("more", "int32"))
    sink.send(order(0), order(1), order(2, schema=wider), order(3, schema=wider), order(4))
    sink.start(flush_size="100")
    sink.await_committed(4)
    assert [ids(data, name) for name, data in sink.files().items()] == [[0, 1], [2, 3]]


def test_all_objects_of_a_partition_end_together_when_they_are_many_records(sink: Objects) -> None:
    sink.send(*(order(n, CITIES[n % 3]) for n in range(7)))
    sink.start(
        flush_size="5",
        tidings_open_records="6",
        partitioner_class="FieldPartitioner",
        partition_field_name="city",
    )
    sink.await_committed(6)
    assert {name.split("/")[2]: ids(data, name) for name, data in sink.files().items()} == {
        "city=Oslo": [0, 3], "city=Turku": [1, 4], "city=Bergen": [2, 5],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "directories"),
    [
        ({"partitioner_class": "io.confluent.connect.storage.partitioner.DailyPartitioner"}, ["year=2025/month=12/day=31", "year=2026/month=01/day=01"]),
        ({"partitioner_class": "HourlyPartitioner", "timezone": "Asia/Kolkata"}, ["year=2026/month=01/day=01/hour=04", "year=2026/month=01/day=01/hour=05"]),
        (
            {"partitioner_class": "TimeBasedPartitioner", "path_format": "'at'=YYYY-MM-dd-HHmm", "partition_duration_ms": "600000"},
            ["at=2025-12-31-2300", "at=2026-01-01-0000"],
        ),
        ({"partitioner_class": "FieldPartitioner", "partition_field_name": "id,city"}, ["id=0/city=a%2Fb", "id=1/city=%2E%2E"]),
    ],
)  # fmt: skip
def test_directories(sink: Objects, options: dict[str, str], directories: list[str]) -> None:
    sink.send(order(0, "a/b"), order(1, ".."), timestamps=[START + 59_999, START + HOUR])
    sink.start(flush_size="2", tidings_open_records="2", **options)
    sink.await_committed(2)
    assert (
        sorted(name.removeprefix("topics/orders/").rpartition("/")[0] for name in sink.files()) == directories
    )


def test_the_time_of_a_field(sink: Objects) -> None:
    at = struct(field("id", "int64", optional=False), field("city", "string"), name="At")
    sink.send(order(0, "2026-03-01T10:00:00+02:00", at), order(1, "2026-03-01T09:59:59", at))
    options = {
        "timestamp_extractor": "RecordField",
        "timestamp_field": "city",
        "partitioner_class": "HourlyPartitioner",
    }
    sink.start(flush_size="1", **options)
    sink.await_committed(2)
    hours = sorted(name.split("/")[-2] for name in sink.files())
    assert hours == ["hour=08", "hour=09"]


def test_bad_records_are_dead_letters_and_count_for_nothing(sink: Objects) -> None:
    schemaless = b'{"schema":null,"payload":{"id":5}}'
    digits = struct(
        field("id", "int64", optional=False),
        field("city", "bytes", name="org.apache.kafka.connect.data.Decimal", parameters={"scale": "0", "connect.decimal.precision": "2"}),
        name="Digits",
    )  # fmt: skip
    sink.send(
        order(0, "Yw==", digits),
        order(1, "ZQ==", digits),
        order(2, "AfQ=", digits),
        None,
        order(4, None, digits),
        schemaless,
    )
    sink.send(order(6, "CQ==", digits), order(7, "CA==", digits))
    letters = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": "letters"}
    sink.start(flush_size="4", **letters)
    sink.await_committed(8)
    (data,) = sink.files().values()
    rows = pq.read_table(io.BytesIO(data)).to_pylist()
    assert rows == [
        {"id": 0, "city": Decimal(99)}, {"id": 4, "city": None}, {"id": 6, "city": Decimal(9)}, {"id": 7, "city": Decimal(8)},
    ]  # fmt: skip
    letters_written = [value for _, value, _ in sink.worker.kafka.topics["letters"]]
    assert letters_written == [order(1, "ZQ==", digits), order(2, "AfQ=", digits), None, schemaless]


def test_a_bad_record_without_tolerance_is_named_and_not_shown(sink: Objects) -> None:
    sink.send(order(0), b'{"schema":{"type":"string","optional":false},"payload":"secret"}')
    sink.start(flush_size="1")
    with pytest.raises(AssertionError, match="the task failed"):
        sink.worker.wait_for(lambda: False, "a failure")
    assert "only a struct with a schema" in f"{sink.worker.error} {sink.worker.error.__cause__}"
    assert "secret" not in str(sink.worker.error)


@pytest.mark.parametrize(("nulls", "runs"), [("ignore", True), ("fail", False)])
def test_records_without_a_value(sink: Objects, nulls: str, runs: bool) -> None:
    sink.send(order(0), None, order(2))
    sink.start(flush_size="2", behavior_on_null_values=nulls)
    sink.worker.wait_for(
        lambda: bool(sink.files()) or sink.worker.error is not None, "an object or a failure"
    )
    assert (sink.worker.error is None) == runs


def test_a_directory_that_takes_nothing_lets_the_partitions_rest(sink: Objects, tmp_path: Path) -> None:
    blocked = tmp_path / "topics"
    blocked.write_text("no directory")
    sink.send(*(order(n) for n in range(9)))
    sink.start(consumer_override_max_poll_records="4")
    sink.worker.wait_for(lambda: sink.worker.state == "RUNNING", "a task that tries again")
    assert sink.committed() == 0
    blocked.unlink()
    sink.await_committed(9)
    assert [ids(data, name) for name, data in sink.files().items()] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_two_topics_that_a_transform_makes_one_keep_their_names_apart(sink: Objects) -> None:
    sink.worker.kafka.inputs.create("others", 1)
    sink.worker.kafka.inputs.produce("others", b'"k"', order(1), partition=0)
    sink.send(order(0))
    route = {
        "transforms": "r", "transforms_r_type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms_r_regex": ".*", "transforms_r_replacement": "one",
    }  # fmt: skip
    sink.start("JsonFormat", flush_size="1", topics="orders,others", **route)
    sink.worker.wait_for(lambda: len(sink.files()) == 2, "two objects")
    assert {name: ids(data, name) for name, data in sink.files().items()} == {
        "topics/one/partition=0/orders+0+0000000000.json": [0],
        "topics/one/partition=0/others+0+0000000000.json": [1],
    }


S3 = {
    "connector.class": S3Sink.class_name,
    "topics": "t",
    "s3.bucket.name": "b",
    "flush.size": "1",
    "format.class": "JsonFormat",
}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("flush.size", "0"), ("flush.size", ""), ("format.class", "OrcFormat"), ("partitioner.class", "x"), ("store.url", "ftp://x"),
        ("timestamp.extractor", "Wallclock"), ("timezone", "Mars/Olympus"), ("path.format", "w"), ("path.format", "YY"),
        ("schema.compatibility", "BACKWARD"), ("parquet.codec", "lzo"), ("storage.class", "Other"), ("s3.bucket.name", ""),
        ("rotate.schedule.interval.ms", "1000"), ("no.such.option", "1"), *((name, "x") for name in REFUSED),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_name(option: str, value: str) -> None:
    found = S3Sink().problems({**S3, option: value})
    assert set(found) == {option}
    assert option in found[option][0]


def test_what_does_not_go_together() -> None:
    assert S3Sink().problems(S3) == {}
    for more, option in (
        ({"partitioner.class": "FieldPartitioner"}, "partition.field.name"),
        ({"partitioner.class": "TimeBasedPartitioner", "path.format": "YYYY"}, "partition.duration.ms"),
        ({"partitioner.class": "TimeBasedPartitioner", "partition.duration.ms": "1"}, "path.format"),
        ({"flush.size": "7", "tidings.open.records": "6"}, "tidings.open.records"),
    ):
        assert set(check_together({**S3, **more}, S3_OPTIONS)) == {option}
    config = {name: text for name, text in S3.items() if name != "s3.bucket.name"}
    config["connector.class"] = ObjectStorageSink.class_name
    for url in ("file:///x", "s3://b/p", "gs://b", "abfss://c@a.dfs.core.windows.net/p"):
        assert ObjectStorageSink().problems({**config, "tidings.storage.url": url}) == {}
    for url in ("/x", "file://host/x", "s3://", "s3://u:p@b", "http://b", "abfss://c/p"):
        assert set(ObjectStorageSink().problems({**config, "tidings.storage.url": url})) == {
            "tidings.storage.url"
        }


@pytest.mark.listing
@pytest.mark.parametrize("option", [*OPTIONS, *S3_OPTIONS], ids=lambda option: option.name)
def test_each_option_says_what_it_means(option: object) -> None:
    assert getattr(option, "documentation", "").endswith(".")


@pytest.mark.parametrize(
    "url", ["gs://bucket/prefix", "abfss://container@account.dfs.core.windows.net/prefix"]
)
def test_a_store_is_opened_without_asking_it(url: str) -> None:
    """More of these is not tried: there is no server for them here."""
    key = {"aws.secret.access.key": "a2V5"} if url.startswith("abfss") else {}
    context = SinkContext("s", 0, lambda _record, _error: None)
    config = {"tidings.storage.url": url, "format.class": "JsonFormat", "flush.size": "1", **key}
    assert ObjectStorageSink().open_task(config, context) is not None
