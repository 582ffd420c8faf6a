"""A task that reads several partitions of its source: each has a stored position of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson
import pytest

from tidings_connect.errors import OffsetError
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import PartitionedTask
from tidings_connect.task.stored_positions import Partition, Position, StoredPositions
from tidings_connect.testing.memory_worker import Crash, MemoryWorker
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.schema import ConnectSchema, ConnectType

POINTS = ["batch.sent", "records.acknowledged", "offset.written", "offset.stored"]


class FolderTask(PartitionedTask):
    """Counts in each file of a folder up to the number that it holds."""

    def __init__(self, folder: Path, output: Output) -> None:
        self._folder, self._output = folder, output
        self._done: dict[str, int] = {}

    def start(self, stored: StoredPositions) -> None:
        for file in self._folder.iterdir():
            position = stored.get({"protocol": "1", "file": file.name})
            if position is not None:
                self._done[file.name] = position["number"]

    def poll(self) -> bool:
        for file in self._folder.iterdir():
            for number in range(self._done.get(file.name, 0) + 1, int(file.read_text()) + 1):
                schema = ConnectSchema(ConnectType.INT32)
                self._output.write(SourceRecord(file.name, None, None, None, schema, number, None, []))
                self._done[file.name] = number
        return True

    def positions(self) -> Sequence[tuple[Partition, Position]]:
        return [({"protocol": "1", "file": name}, {"number": done}) for name, done in self._done.items()]


@pytest.fixture
def worker(counting: None, tmp_path: Path) -> Iterator[MemoryWorker]:
    import counting as page

    class Folder(page.Counter):  # type: ignore[misc]  # the page's module has no types
        def open_task(self, config: Mapping[str, str], output: Output) -> PartitionedTask:
            return FolderTask(Path(config["counter.file"]), output)

    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("1")
    with MemoryWorker(Folder(), "folder") as worker:
        yield worker


def stored(worker: MemoryWorker) -> dict[str, int]:
    return {entry["partition"]["file"]: entry["offset"]["number"] for entry in worker.offsets()}


def begin(worker: MemoryWorker, folder: Path) -> None:
    worker.put({"counter.file": str(folder), "counter.topic": "unused"})
    worker.wait_for(lambda: stored(worker) == {"a": 2, "b": 1}, "both positions")


def counted(worker: MemoryWorker) -> Callable[[str], list[int]]:
    return lambda name: list(dict.fromkeys(worker.values(name)))


def test_each_partition_goes_on_where_it_was(worker: MemoryWorker, tmp_path: Path) -> None:
    begin(worker, tmp_path)
    worker.stop()
    (tmp_path / "b").write_text("3")
    worker.resume()
    worker.wait_for(lambda: stored(worker) == {"a": 2, "b": 3}, "the other's position")
    assert worker.values("a") == [1, 2]
    assert worker.values("b") == [1, 2, 3]


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_loses_nothing_of_any(worker: MemoryWorker, tmp_path: Path, point: str) -> None:
    begin(worker, tmp_path)
    with worker.crash_at(point) as happened:
        (tmp_path / "a").write_text("4")
        (tmp_path / "b").write_text("2")
        worker.wait_for(lambda: happened.is_set() and worker.state == "FAILED", f"a crash at {point}")
    assert isinstance(worker.error, Crash)
    worker.resume()
    worker.wait_for(lambda: stored(worker) == {"a": 4, "b": 2}, "both positions")
    numbers = counted(worker)
    assert numbers("a") == [1, 2, 3, 4]
    assert numbers("b") == [1, 2]


def test_a_position_that_kafka_connect_has_stored_is_found_whatever_the_order_of_its_fields() -> None:
    key = b'["folder",{"file":"a","protocol":"1"}]'
    known = StoredPositions("folder", {key: b'{"number":3}', b'["other",{"file":"a"}]': b"{}", b"?": b"?"})
    partition = {"protocol": "1", "file": "a"}
    assert known.get(partition) == {"number": 3}
    assert known.get({"protocol": "1", "file": "b"}) is None
    assert known.entries([(partition, {"number": 4})]) == {key: b'{"number":4}'}
    other = {"protocol": "1", "file": "b"}
    (new,) = known.entries([(other, {"number": 1})])
    assert orjson.loads(new) == ["folder", other]


def test_a_stored_position_that_is_no_object_is_an_error() -> None:
    known = StoredPositions("folder", {b'["folder",{"file":"a"}]': b"[1]"})
    with pytest.raises(OffsetError, match="folder is not a JSON object"):
        known.get({"file": "a"})
