"""What a database writes behind the row of an event: ``source``, with the position, and the connector's own time.

The table plan (`plan`) knows where these bytes go; what stands in them is the database's.
"""

from typing import Protocol

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.tables import Table
from tidings_envelope.codec import Codec
from tidings_envelope.schema import ConnectSchema


class SourceWriter(Protocol):
    """Writes what follows ``after`` in the values of one relation version."""

    def value(self, opening: bytes, row: bytes, context: EventContext, op: str) -> bytes:
        """Counts the event, and gives its whole value: the opening, the row, and everything behind ``after``."""
        ...

    def tail(self, context: EventContext, op: str) -> bytes:
        """Counts the event, and gives everything behind ``after``."""
        ...

    def incremental_tail(self, context: EventContext, op: str = "r") -> bytes:
        """Everything behind ``after`` of a row of an incremental snapshot, which has no position of its own."""
        ...


class SourceBlock(Protocol):
    """A database's ``source``."""

    @property
    def schema(self) -> ConnectSchema:
        """Its schema in the envelope."""
        ...

    def writer(
        self,
        table: Table,
        options: ConversionOptions,
        codec: Codec,
        fragments: tuple[bytes, ...],
        suffix: bytes,
    ) -> SourceWriter:
        """The writer for a relation version.

        Args:
            table: the relation version.
            options: the connector's options.
            codec: the value converter's codec.
            fragments: the constant bytes around the envelope's fields.
            suffix: what the converter puts behind a value.
        """
        ...
