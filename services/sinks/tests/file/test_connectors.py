"""What files do to their connectors: absent, growing, replaced, full; and the worker's standard streams."""

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings_connect.config.plugins import find_connector
from tidings_connect.errors import OffsetError, OptionError
from tidings_connect.task.sink import SinkContext
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.errors import FileError
from tidings_sinks.file.connector import FileStreamSinkConnector, FileStreamSourceConnector
from tidings_stack.waiting import wait_for


@pytest.fixture
def source() -> Iterator[MemoryWorker]:
    with MemoryWorker(FileStreamSourceConnector()) as worker:
        yield worker


def await_lines(worker: MemoryWorker, *lines: str) -> None:
    worker.wait_for(lambda: worker.values("t") == list(lines), f"{len(lines)} lines")


def append(file: Path, data: bytes) -> None:
    with file.open("ab") as end:
        end.write(data)


def test_they_are_found_by_kafka_s_classes_and_short_names() -> None:
    package = "org.apache.kafka.connect.file"
    for name in (f"{package}.FileStreamSourceConnector", "FileStreamSourceConnector", "FileStreamSource"):
        assert isinstance(find_connector(name), FileStreamSourceConnector)
    for name in (f"{package}.FileStreamSinkConnector", "FileStreamSinkConnector", "FileStreamSink"):
        assert isinstance(find_connector(name), FileStreamSinkConnector)


def test_a_file_may_come_later_and_its_last_line_waits_for_its_end(
    source: MemoryWorker, tmp_path: Path
) -> None:
    file = tmp_path / "later"
    source.put({"file": str(file), "topic": "t"})
    source.wait_for(lambda: source.state == "RUNNING", "a task that waits")
    assert source.offsets() == []
    append(file, "ö\nhal".encode())
    await_lines(source, "ö")
    append(file, b"f\r")
    source.wait_for(lambda: bool(source.offsets()), "a stored offset")
    assert source.offsets() == [{"partition": {"filename": str(file)}, "offset": {"position": 3}}]
    append(file, b"x\n")
    await_lines(source, "ö", "half", "x")


def test_a_renamed_file_is_read_on_and_a_shorter_one_is_an_error(
    source: MemoryWorker, tmp_path: Path
) -> None:
    file = tmp_path / "log"
    file.write_text("one\n")
    source.put({"file": str(file), "topic": "t"})
    await_lines(source, "one")
    file.rename(tmp_path / "log.1")
    append(tmp_path / "log.1", b"two\n")
    await_lines(source, "one", "two")
    file.write_text("new\n")
    source.stop()
    source.resume()
    with pytest.raises(AssertionError, match="the task failed"):
        source.wait_for(lambda: False, "a failure")
    assert isinstance(source.error, FileError)
    assert "has 4 bytes, and 8 of it have been read" in str(source.error)
    source.stop()
    source.reset_offsets()
    source.resume()
    await_lines(source, "one", "two", "new")
    os.truncate(file, 0)
    with pytest.raises(AssertionError, match="the task failed"):
        source.wait_for(lambda: False, "a failure")
    assert isinstance(source.error, FileError)


def test_a_file_that_cannot_be_opened_is_named(source: MemoryWorker, tmp_path: Path) -> None:
    source.put({"file": str(tmp_path), "topic": "t"})
    with pytest.raises(AssertionError, match="the task failed"):
        source.wait_for(lambda: False, "a failure")
    assert str(tmp_path) in str(source.error)
    assert isinstance(source.error, FileError)


def test_small_batches_give_every_line_at_once(source: MemoryWorker, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("".join(f"{number}\n" for number in range(50)))
    source.put({"file": str(file), "topic": "t", "batch.size": "0"})
    await_lines(source, *(str(number) for number in range(50)))


def test_values_have_a_schema_of_texts(source: MemoryWorker, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("a\n")
    source.put({"file": str(file), "topic": "t", "value.converter.schemas.enable": "true"})
    source.wait_for(lambda: bool(source.values("t")), "a record")
    assert source.values("t") == [{"schema": {"type": "string", "optional": False}, "payload": "a"}]
    assert source.kafka.topics["t"][0][0] is None


def test_offsets_are_checked_in_kafka_s_words() -> None:
    connector, config = FileStreamSourceConnector(), {"file": "f", "topic": "t"}
    place = {"filename": "f"}
    connector.check_offsets(config, [(place, {"position": 0}), (None, None), ({"x": 1}, None)])
    for partition, offset, said in (
        (place, {}, "should either be null or contain the key 'position'"),
        (place, {"position": "1"}, "is expected to be a Long value"),
        (place, {"position": 1.5}, "is expected to be a Long value"),
        (place, {"position": -1}, "should be a non-negative value"),
        (None, {"position": 1}, "Partition objects cannot be null"),
        ({}, {"position": 1}, "Partition objects should contain the key 'filename'"),
    ):
        with pytest.raises(OffsetError, match=said):
            connector.check_offsets(config, [(partition, offset)])
    with pytest.raises(OffsetError, match="stdin is used for input"):
        connector.check_offsets({"topic": "t"}, [])


def test_standard_input_can_have_no_exactly_once(source: MemoryWorker) -> None:
    with pytest.raises(OptionError, match="does not support exactly-once semantics"):
        source.put({"topic": "t", "exactly.once.support": "required"})


STREAMS = """
import os, sys
from tidings_connect.task import standard_streams
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_sinks.file.connector import FileStreamSinkConnector, FileStreamSourceConnector

standard_streams.keep()  # as a task's process does before its channel takes their places
channel, _ = os.pipe()
os.dup2(channel, 0)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
with MemoryWorker(FileStreamSourceConnector(), "in") as source, MemoryWorker(FileStreamSinkConnector(), "out") as sink:
    source.put({"topic": "t"})
    source.wait_for(lambda: source.values("t") == ["one", "two"], "two lines")
    assert source.offsets() == []
    sink.kafka.inputs.create("t", 1)
    sink.kafka.inputs.produce("t", None, b'{"b":[1,null]}', partition=0)
    sink.put({"topics": "t"})
    sink.wait_for(lambda: bool(sink.offsets()), "a commit")
"""


def test_without_a_file_they_are_the_worker_s_standard_streams() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STREAMS],
        input=b"one\ntwo\nhalf",
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"{b=[1, null]}\n"


TASK = """
import resource, sys
from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, TopicPartition
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_sinks.file.connector import FileStreamSinkConnector

at, text = TopicPartition("t", 0), ConnectSchema(ConnectType.STRING)

def record(value, offset):
    return SinkRecord("t", 0, None, None, text, value, None, [], offset, at)

def open_task(number=0):
    context = SinkContext("s", number, lambda record, error: None)
    return FileStreamSinkConnector().open_task({"file": sys.argv[1]}, context)

task, other = open_task(), open_task(1)
"""
FULL = (
    TASK
    + """
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, unlimited[1]))  # as a disk with so many bytes left
task.put([record("first", 0), record("second", 1)])
assert open(sys.argv[1], "rb").read() == b"first\\n"
for again in (lambda: task.flush({at: 2}), lambda: task.put([record("third", 2)])):
    try:
        again()
    except RetriableError as error:
        assert "cannot be written" in str(error)
    else:
        raise AssertionError("it was taken")
other.put([record("one", 0)])
assert open(sys.argv[1], "rb").read() == b"first\\none\\n"
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
other.put([record("two", 1)])
task.put([record("third", 2)])
assert task.flush({at: 3}) == {at: 3}
task.stop()
"""
)
AT_ONCE = (
    TASK
    + """
task.put([record("one " + "1" * 30, 0)])
task.stop()
"""
)


def test_a_full_disk_tears_and_repeats_no_line_of_either_task(tmp_path: Path) -> None:
    file = tmp_path / "out"  # another process: the limit counts for what pytest writes as well
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(file)], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert file.read_bytes() == b"first\none\ntwo\nsecond\nthird\n"


def test_a_task_waits_for_the_other_one_s_lines(tmp_path: Path) -> None:
    file = tmp_path / "out"
    with file.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waits = f" -> FLOCK .*:{file.stat().st_ino} "
        with subprocess.Popen([sys.executable, "-c", AT_ONCE, str(file)]) as task:
            wait_for(
                "the task to wait, or to end",
                lambda: re.search(waits, Path("/proc/locks").read_text()) or task.poll() is not None,
            )
            assert task.poll() is None, "it has not waited"
            assert file.read_bytes() == b""
            fcntl.flock(other, fcntl.LOCK_UN)
            assert task.wait(60) == 0
    assert file.read_bytes() == b"one " + b"1" * 30 + b"\n"


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    context = SinkContext("s", 0, lambda _record, _error: None)
    with pytest.raises(FileError, match="nowhere"):
        FileStreamSinkConnector().open_task({"file": str(tmp_path / "nowhere" / "f")}, context)
