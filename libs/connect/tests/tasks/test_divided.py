"""A source with several tasks keeps the contract: a toy, each of whose tasks reads a share of some files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tidings_connect.config.option import Option
from tidings_connect.connector import Connector
from tidings_connect.errors import OffsetError
from tidings_connect.task.output import Output
from tidings_connect.task.source_loop import PartitionedTask, SourceConnector
from tidings_connect.task.stored_positions import Partition, Position, StoredPositions
from tidings_connect.testing.divided_contract import DividedCase, DividedContract
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope.schema import ConnectSchema, ConnectType

SCHEMA = ConnectSchema(ConnectType.INT64)


class LinesTask(PartitionedTask):
    """Writes the lines of its files, a record for each."""

    def __init__(self, files: Sequence[Path], output: Output) -> None:
        self._files, self._output = files, output
        self._read: dict[Path, int] = {}

    def start(self, stored: StoredPositions) -> None:
        for file in self._files:
            position = stored.get({"file": str(file)})
            if position is not None and not isinstance(position.get("lines"), int):
                raise OffsetError("the stored offset has no lines")
            self._read[file] = 0 if position is None else position["lines"]

    def poll(self) -> bool:
        for file, read in self._read.items():
            lines = file.read_text().split()
            for line in lines[read:]:
                self._output.write(SourceRecord(file.name, None, None, None, SCHEMA, int(line), None, []))
            self._read[file] = len(lines)
        return True

    def positions(self) -> Sequence[tuple[Partition, Position]]:
        return [({"file": str(file)}, {"lines": read}) for file, read in self._read.items() if read]


class Lines(SourceConnector):
    class_name = "counting.LinesConnector"
    version = "1.0"
    own_options = (
        Option("lines.files", required=True, documentation="Files with lines, with commas between."),
    )

    def task_configs(self, config: dict[str, str], most: int) -> Sequence[dict[str, str]]:
        files = config["lines.files"].split(",")
        count = min(most, len(files))
        return [{**config, "lines.files": ",".join(files[number::count])} for number in range(count)]

    def open_task(self, config: Mapping[str, str], output: Output) -> PartitionedTask:
        return LinesTask([Path(file) for file in config["lines.files"].split(",")], output)


class TestLines(DividedContract):
    @pytest.fixture
    def case(self, tmp_path: Path, register: Callable[[type[Connector]], None]) -> DividedCase:
        register(Lines)
        files = [tmp_path / name for name in "abc"]
        for file in files:
            file.write_text("")
        highest = 0

        def produce(count: int) -> None:
            nonlocal highest
            for number in range(highest + 1, highest + count + 1):
                file = files[number % 3]
                new = tmp_path / "new"
                new.write_text(f"{file.read_text()}{number}\n")
                new.replace(file)  # at once: a task never sees half of it
            highest += count

        def numbers(worker: MemoryWorker) -> list[Any]:
            return [number for file in files for number in worker.values(file.name)]

        return DividedCase(Lines(), {"lines.files": ",".join(map(str, files))}, produce, numbers)
