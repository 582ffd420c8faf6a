"""How the rows of a result become records. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidings_capture.query.columns import Column, Field
from tidings_capture.query.packed import checksum
from tidings_envelope.schema import ConnectSchema


@dataclass(slots=True)
class Plan:
    """How rows of a result become records."""

    columns: tuple[Column, ...]
    schema: ConnectSchema
    fields: list[tuple[str, Field]]
    key_schema: ConnectSchema | None
    key: list[str]
    number: int | None
    moments: list[int]
    late: int | None
    identity: list[int]
    """Where the primary key's columns are, when rows are compared with what was sent."""

    def checksum(self, row: Sequence[Any]) -> bytes:
        """Of a row, without what only this connector has selected."""
        names = [column.name for column in self.columns]
        if self.late is None:
            return checksum(names, row)
        late = self.late
        return checksum([*names[:late], *names[late + 1 :]], [*row[:late], *row[late + 1 :]])
