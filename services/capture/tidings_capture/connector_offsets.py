"""A connector's source offsets in the worker's offsets topic, read and written from outside the task.

Key ``["<connector>",{<partition>}]``, value the offset, both JSON as Kafka Connect's own converter writes them
(KIP-875 describes the REST API around it). What is written here is not checked: a task that cannot understand its
offset says so when it starts. Blocks on Kafka: call it off the event loop, and only while no task writes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from tidings_capture.kafka import AcknowledgedProducer, read_compacted

Partition = dict[str, Any] | None
Offset = dict[str, Any]


class ConnectorOffsets:
    """The offsets of all connectors of a worker.

    Args:
        client: librdkafka's settings for every client.
        consumer: those for consumers only.
        topic: ``offset.storage.topic``.
    """

    def __init__(self, client: Mapping[str, Any], consumer: Mapping[str, Any], topic: str) -> None:
        self._client = dict(client)
        self._consumer = {**client, **consumer}
        self._topic = topic

    def read(self, connector: str) -> list[tuple[Partition, Offset]]:
        """A connector's offsets, each with its partition; reads the topic from its beginning to its end.

        Raises:
            BrokerError: the topic cannot be read.
        """
        stored = self._stored(connector)
        return [(partition, offset) for _key, partition, offset in stored if partition is not None]

    def alter(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Store offsets; None deletes one. The last of several for one partition counts.

        Raises:
            BrokerError: the topic cannot be read or written.
        """
        known = [(partition, key) for key, partition, _offset in self._stored(connector)]
        producer = AcknowledgedProducer(self._client)
        for partition, offset in offsets:
            # A key that is there already keeps its bytes: the order of fields does not tell two partitions apart.
            key = next((key for other, key in known if other == partition), None)
            key = key or orjson.dumps([connector, partition])
            producer.put_and_wait(self._topic, key, None if offset is None else orjson.dumps(offset))

    def reset(self, connector: str) -> None:
        """Delete all offsets of a connector.

        Raises:
            BrokerError: the topic cannot be read or written.
        """
        producer = AcknowledgedProducer(self._client)
        for key, _partition, _offset in self._stored(connector):
            producer.put_and_wait(self._topic, key, None)

    def _stored(self, connector: str) -> list[tuple[bytes, Partition, Offset]]:
        found = []
        for key, value in sorted(read_compacted(self._consumer, self._topic).items()):
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
