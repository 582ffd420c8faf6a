"""The positions that a source connector has stored, by partition. Pure.

Key ``["<connector>",{<partition>}]``, value the position, both JSON as Kafka Connect's own converter writes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from tidings_connect.data.kept import KEPT
from tidings_connect.errors import OffsetError

Position = Mapping[str, Any]
"""Where a task is, as a JSON object: the ``offset`` of Kafka Connect's REST API."""
Partition = Mapping[str, Any]
"""A part of a source that has a position of its own: the ``partition`` of Kafka Connect's REST API."""


class StoredPositions:
    """What is stored of one connector.

    Args:
        records: all that is stored, also of other connectors, by key.
    """

    def __init__(self, connector: str, records: Mapping[bytes, bytes]) -> None:
        self._connector = connector
        self._found: list[tuple[Mapping[str, Any], bytes, bytes]] = []
        for key, value in records.items():
            match _json(key):
                case [str(name), dict() as partition] if name == connector:
                    self._found.append((partition, key, value))

    def get(self, partition: Partition) -> Position | None:
        """The position of a partition; None where none is stored.

        Raises:
            OffsetError: what is stored is not a JSON object.
        """
        for other, _key, value in self._found:
            if other == partition:
                position = _json(value)
                if not isinstance(position, dict):
                    raise OffsetError(
                        f"the stored offset of connector {self._connector} is not a JSON object",
                        hint="correct it with PATCH /connectors/{name}/offsets, or delete it",
                    )
                return position
        return None

    def kept(self, partition: Partition) -> dict[str, Position]:
        """What the task has stored beside a partition's position, by name."""
        found: dict[str, Position] = {}
        for other, _key, value in self._found:
            name = other.get(KEPT)
            if isinstance(name, str) and other == {**partition, KEPT: name}:
                entry = _json(value)
                found[name] = entry if isinstance(entry, dict) else {}
        return found

    def of(self, partitions: Iterable[Partition]) -> list[tuple[Partition, Position]]:
        """The positions of those partitions that have one."""
        found = ((partition, self.get(partition)) for partition in partitions)
        return [(partition, position) for partition, position in found if position is not None]

    def entries(self, positions: Sequence[tuple[Partition, Position]]) -> dict[bytes, bytes]:
        """How positions are stored. A key that is there keeps its bytes: Kafka Connect's may have another order of fields."""
        return {self._key(partition): orjson.dumps(dict(position)) for partition, position in positions}

    def _key(self, partition: Partition) -> bytes:
        if KEPT in partition:  # written by nobody else
            return orjson.dumps([self._connector, dict(partition)])
        known = next((key for other, key, _value in self._found if other == partition), None)
        return known or orjson.dumps([self._connector, dict(partition)])


def _json(data: bytes) -> Any:
    """A value, or None for what somebody else has written to the topic."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
