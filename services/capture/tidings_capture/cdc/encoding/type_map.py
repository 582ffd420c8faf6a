"""What the table plan asks of a database about its types: what cells become. Pure."""

from typing import Any, Protocol

from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.encoding.snippets import Shape, Snippet
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.cdc.types.conversion import Conversion
from tidings_envelope.codec import Codec
from tidings_envelope.schema import ConnectSchema


class TypeMap(Protocol):
    """What a database's types become."""

    def conversion(self, column: Column, options: ConversionOptions) -> Conversion | None:
        """How a column's cells become values; None where Debezium leaves columns of the type out."""
        ...

    def default(self, column: Column, conversion: Conversion, options: ConversionOptions) -> Any:
        """The column's default as a value; `NO_DEFAULT` where it has none that a schema could say."""
        ...

    def source_type(self, table: Table, column: Column, options: ConversionOptions) -> dict[str, str]:
        """The schema parameters of ``*.propagate.source.type``."""
        ...

    def direct_ways(
        self, conversion: Conversion, schema: ConnectSchema, codec: Codec, name: str
    ) -> tuple[Snippet | None, Shape | None]:
        """The direct ways from a column's cells to the codec's bytes, where there are such.

        Args:
            name: a unique identifier for names of this column's own.
        """
        ...
