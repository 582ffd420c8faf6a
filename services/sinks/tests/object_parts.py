"""What the tests of object sinks share: records with schemas, and a sink that writes to a directory."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidings_connect.testing.memory_worker import MemoryWorker

TOPIC = "orders"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def field(name: str, kind: str, /, *, optional: bool = True, **more: Any) -> dict[str, Any]:
    """A field of a schema in the JsonConverter's form."""
    return {"field": name, "type": kind, "optional": optional, **more}


def struct(*fields: Mapping[str, Any], name: str = "Row") -> dict[str, Any]:
    """A struct's schema."""
    return {"type": "struct", "optional": False, "name": name, "fields": list(fields)}


ORDER = struct(field("id", "int64", optional=False), field("city", "string"))


def order(number: int, city: str | None = "Oslo", schema: Mapping[str, Any] = ORDER) -> bytes:
    """A record's value."""
    return json.dumps({"schema": schema, "payload": {"id": number, "city": city}}).encode()


class Objects:
    """A sink on a worker in memory, and the directory that it writes to."""

    def __init__(self, worker: MemoryWorker, directory: Path) -> None:
        self.worker, self.directory = worker, directory
        worker.kafka.inputs.create(TOPIC, 2)

    def start(self, form: str = "ParquetFormat", **more: str) -> None:
        """Start it; underscores of names are dots."""
        self.worker.put(
            {
                "topics": TOPIC, "format.class": form, "flush.size": "3", "tidings.storage.url": self.directory.as_uri(),
                "value.converter": JSON, "value.converter.schemas.enable": "true",
                "errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "100",
                **{name.replace("_", "."): text for name, text in more.items()},
            }
        )  # fmt: skip

    def send(self, *values: bytes | None, partition: int = 0, timestamps: Sequence[int] = ()) -> None:
        """Write records to the topic."""
        for number, value in enumerate(values):
            at = timestamps[number] if timestamps else 1_700_000_000_000
            self.worker.kafka.inputs.produce(TOPIC, b'"k"', value, partition=partition, timestamp=at)

    def committed(self, partition: int = 0) -> int:
        """The offset that the group goes on at."""
        found = (
            entry for entry in self.worker.offsets() if entry["partition"]["kafka_partition"] == partition
        )
        return next((int(entry["offset"]["kafka_offset"]) for entry in found), 0)

    def await_committed(self, offset: int, partition: int = 0) -> None:
        """Wait until it has come to an offset."""
        self.worker.wait_for(lambda: self.committed(partition) == offset, f"the commit of {offset}")

    def files(self) -> dict[str, bytes]:
        """All objects, by name."""
        found = (
            file for file in sorted(self.directory.rglob("*")) if file.is_file() and file.suffix != ".part"
        )
        return {str(file.relative_to(self.directory)): file.read_bytes() for file in found}
