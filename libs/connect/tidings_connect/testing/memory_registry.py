"""A schema registry in memory, for converters in tests."""

import json
from typing import Any

import fastavro


class MemoryRegistry:
    """Keeps what is registered; the same schema has the same id."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def register(self, _subject: str, text: str) -> int:
        """The schema's id."""
        if text not in self._texts:
            self._texts.append(text)
        return self._texts.index(text) + 1

    def schema_by_id(self, schema_id: int) -> Any:
        """As fastavro has parsed it."""
        return fastavro.parse_schema(json.loads(self._texts[schema_id - 1]))

    def close(self) -> None:
        """Nothing is open."""
