"""The sink of objects keeps the contract of sinks, and no record is in two objects.

Records do come again after a crash (its positions are the group's), and are written over themselves.
"""

import json
from pathlib import Path

import pytest

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.objects.connector import ObjectStorageSink


class TestJsonInADirectory(SinkContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> SinkCase:
        def numbers() -> list[int]:
            files = sorted(tmp_path.rglob("*.json"))  # by partition and offset
            found = [json.loads(line)["number"] for file in files for line in file.read_text().splitlines()]
            assert len(found) == len(set(found)), "never twice, whatever happens"
            return found

        return SinkCase(
            connector=ObjectStorageSink(),
            config={
                "tidings.storage.url": tmp_path.as_uri(),
                "format.class": "JsonFormat",
                "flush.size": "1",
            },
            numbers=numbers,
            changed={"rotate.interval.ms": "1000"},
            wrong=("format.class", "io.confluent.connect.s3.format.bytearray.ByteArrayFormat"),
        )

    def test_offsets_are_altered_and_reset_while_it_is_stopped(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        """Records that are read again are written over those that are there."""
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        worker.stop()
        stored = worker.offsets()
        worker.reset_offsets()
        worker.resume()
        worker.wait_for(lambda: worker.offsets() == stored, "everything once more")
        assert sorted(case.numbers()) == [1, 2, 3, 4]
