"""Objects in S3, on a server of its protocol: written once, by name; a server that is away is waited for, a missing bucket named."""

import io
import json
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest
from object_parts import JSON, TOPIC, order
from pyarrow import fs

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.errors import TargetError
from tidings_sinks.objects.connector import S3Sink
from tidings_stack.s3 import S3Server
from tidings_stack.waiting import wait_for


@pytest.fixture
def worker() -> Iterator[MemoryWorker]:
    with MemoryWorker(S3Sink(), "lake") as worker:
        worker.kafka.inputs.create(TOPIC, 1)
        yield worker


def start(worker: MemoryWorker, server: S3Server, url: str, **more: str) -> None:
    worker.put(
        {
            "topics": TOPIC, "s3.bucket.name": server.bucket, "s3.region": "eu-north-1", "store.url": url, "flush.size": "2",
            "aws.access.key.id": "key", "aws.secret.access.key": "secret", "storage.class": "io.confluent.connect.s3.storage.S3Storage",
            "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "value.converter": JSON,
            "value.converter.schemas.enable": "true", "errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "200",
            **{name.replace("_", "."): text for name, text in more.items()},
        }
    )  # fmt: skip


def objects(server: S3Server) -> dict[str, list[int]]:
    """The records of each object of the topic; other tests write to the bucket, too."""
    system = fs.S3FileSystem(
        access_key="key", secret_key="secret", endpoint_override=server.url.removeprefix("http://"), scheme="http", region="eu-north-1"
    )  # fmt: skip
    found = {}
    place = fs.FileSelector(f"{server.bucket}/topics/{TOPIC}", allow_not_found=True, recursive=True)
    for info in system.get_file_info(place):
        if info.is_file:
            with system.open_input_file(info.path) as file:
                rows = pq.read_table(io.BytesIO(file.read())).to_pylist()
            found[info.path] = [row["id"] for row in rows]
    return found


def await_committed(worker: MemoryWorker, offset: int) -> None:
    """Wait until the group has come to an offset: longer than the worker in memory does, for a server that has to warm up."""

    def done() -> bool:
        assert worker.error is None, worker.error
        return any(entry["offset"]["kafka_offset"] == offset for entry in worker.offsets())

    wait_for(f"the commit of {offset}", done, 120)


def test_objects_are_there_once_whatever_happens(worker: MemoryWorker, s3: S3Server) -> None:
    for number in range(5):
        worker.kafka.inputs.produce(TOPIC, b'"k"', order(number))
    with worker.crash_at("object.stored") as happened:
        start(worker, s3, s3.url)
        wait_for(
            "a crash after the first object", lambda: happened.is_set() and worker.state == "FAILED", 120
        )
    worker.resume()
    await_committed(worker, 4)
    place = f"{s3.bucket}/topics/{TOPIC}/partition=0/{TOPIC}+0+"
    assert objects(s3) == {
        f"{place}0000000000.snappy.parquet": [0, 1],
        f"{place}0000000002.snappy.parquet": [2, 3],
    }
    s3.stop()
    for number in (5, 6):
        worker.kafka.inputs.produce(TOPIC, b'"k"', order(number))
    wait_for("the records to be taken", lambda: worker.taken >= 6, 120)
    s3.start()
    await_committed(worker, 6)
    assert objects(s3)[f"{place}0000000004.snappy.parquet"] == [4, 5]


def test_a_bucket_that_is_not_there_is_named(worker: MemoryWorker, s3: S3Server) -> None:
    for number in range(2):
        worker.kafka.inputs.produce(TOPIC, b'"k"', order(number))
    start(worker, s3, s3.url, s3_bucket_name="nowhere")
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert isinstance(worker.error, TargetError)
    assert "secret" not in json.dumps(str(worker.error))
