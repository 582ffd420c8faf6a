"""Kafka Connect's connectors for files keep the contracts of sources and of sinks."""

import re
from pathlib import Path

import pytest

from tidings_connect.testing.contract import Case, SourceContract
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.file.connector import FileStreamSinkConnector, FileStreamSourceConnector


class TestSource(SourceContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> Case:
        file = tmp_path / "numbers"
        file.touch()

        def produce(count: int) -> None:
            first = len(file.read_text().splitlines()) + 1
            with file.open("a") as end:
                end.write("".join(f"{number}\n" for number in range(first, first + count)))

        def numbers(worker: MemoryWorker) -> list[int]:
            return [int(value) for value in worker.values("lines")]

        return Case(
            connector=FileStreamSourceConnector(),
            config={"file": str(file), "topic": "lines"},
            produce=produce,
            numbers=numbers,
            changed={"batch.size": "1"},
            wrong=("batch.size", "many"),
        )


class TestSink(SinkContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SinkCase:
        file = tmp_path / "lines"
        file.touch()
        return SinkCase(
            connector=FileStreamSinkConnector(),
            config={"file": str(file)},
            numbers=lambda: [
                int(n) for n in re.findall(r"^\{number=(\d+)\}$", file.read_text(), re.MULTILINE)
            ],
        )
