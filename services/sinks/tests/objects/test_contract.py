"""The sink of objects keeps the contract of sinks, and no record is in two objects.

Records do come again after a crash (its positions are the group's), and are written over themselves.
"""

import json
from pathlib import Path

import pytest

from tidings_connect.testing.sink_contract import IdempotentSinkContract, SinkCase
from tidings_sinks.objects.connector import ObjectStorageSink


class TestJsonInADirectory(IdempotentSinkContract):
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
