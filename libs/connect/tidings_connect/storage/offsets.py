"""A connector's source offsets in the worker's offsets topic or file, read and written from outside the task.

Key ``["<connector>",{<partition>}]``, value the offset, both JSON as Kafka Connect's own converter writes them
(KIP-875 describes the REST API around it). What is written here is not checked: a task that cannot understand its
offset says so when it starts. Blocks on Kafka: call it off the event loop, and only while no task writes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from tidings_connect.data.kept import KEPT
from tidings_connect.kafka.producer import AcknowledgedProducer
from tidings_connect.kafka.topics import read_compacted
from tidings_connect.storage.offset_file import OffsetFile, read_offsets

Partition = dict[str, Any] | None
Offset = dict[str, Any]


class ConnectorOffsets:
    """The offsets of all connectors of a worker.

    Args:
        client: librdkafka's settings for every client.
        consumer: those for consumers only.
        topic: ``offset.storage.topic``.
        file: of a standalone worker, in place of the topic.
    """

    def __init__(
        self, client: Mapping[str, Any], consumer: Mapping[str, Any], topic: str, file: str | None = None
    ) -> None:
        self._client = dict(client)
        self._consumer = {**client, **consumer}
        self._topic = topic
        self._file = None if file is None else Path(file)

    def read(self, connector: str) -> list[tuple[Partition, Offset]]:
        """A connector's offsets, each with its partition, without what tasks keep beside them; reads the topic from its beginning to its end.

        Raises:
            BrokerError: the topic cannot be read.
        """
        stored = self._stored(connector)
        return [
            (partition, offset)
            for _key, partition, offset in stored
            if partition is not None and KEPT not in partition
        ]

    def alter(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Store offsets; None deletes one. The last of several for one partition counts.

        Raises:
            BrokerError: the topic cannot be read or written.
        """
        known = [(partition, key) for key, partition, _offset in self._stored(connector)]
        writer = self._writer()
        for partition, offset in offsets:
            # A key that is there already keeps its bytes: the order of fields does not tell two partitions apart.
            key = next((key for other, key in known if other == partition), None)
            key = key or orjson.dumps([connector, partition])
            writer.put_and_wait(self._topic, key, None if offset is None else orjson.dumps(offset))

    def reset(self, connector: str) -> None:
        """Delete all offsets of a connector.

        Raises:
            BrokerError: the topic cannot be read or written.
        """
        writer = self._writer()
        for key, _partition, _offset in self._stored(connector):
            writer.put_and_wait(self._topic, key, None)

    def _writer(self) -> AcknowledgedProducer | OffsetFile:
        return AcknowledgedProducer(self._client) if self._file is None else OffsetFile(self._file)

    def _records(self) -> dict[bytes, bytes]:
        return read_compacted(self._consumer, self._topic) if self._file is None else read_offsets(self._file)

    def _stored(self, connector: str) -> list[tuple[bytes, Partition, Offset]]:
        found = []
        for key, value in sorted(self._records().items()):
            match _json(key):
                case [str(name), dict() | None as partition] if name == connector:
                    offset = _json(value)
                    if isinstance(offset, dict):
                        found.append((key, partition, offset))
        return found


def _json(data: bytes) -> Any:
    """A value, or None for what somebody else has written to the topic."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
