"""What the table plan asks of a database: what its types become (`TypeMap`), and how its rows are read (`RowFormat`).

A plan (`plan`) knows the schemas, the envelope and the key; how bytes of a change become cells, and cells values, is the
database's. All of it is pure: bytes in, values or encoded bytes out.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.options import ConversionOptions
from tidings_capture.cdc.plan_code import ColumnCode, EncodedRow, RowLayout
from tidings_capture.cdc.row_change import RowChange
from tidings_capture.cdc.snippets import Shape, Snippet
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


class RowReader(Protocol):
    """Reads the rows of one relation version."""

    @property
    def read(self) -> Callable[[bytes, int], EncodedRow]:
        """From a buffer that ends with an insert or a plain update, and where that starts, to the encoded row and key.

        Raises:
            Exception: one of `plan_code.IRREGULAR`; the plan then asks `decode`.
        """
        ...

    @property
    def encode(self) -> Callable[[Cells], EncodedRow]:
        """From cells to the encoded row and key; raises one of `plan_code.IRREGULAR`."""
        ...

    @property
    def lines(self) -> Callable[[Sequence[bytes], Callable[[EncodedRow], None]], None]:
        """From rows of a snapshot to the encoded row and key of each, handed on one by one: what is handed on before an
        exception stays good."""
        ...


class RowFormat(Protocol):
    """How a database sends rows."""

    @property
    def insert(self) -> int:
        """The first byte of an inserted row; what `RowReader.read` takes beside it is an update."""
        ...

    def reader(self, columns: Sequence[ColumnCode], layout: RowLayout, *, checked_only: bool) -> RowReader:
        """What reads the rows of a relation version.

        Args:
            columns: what becomes of each column.
            layout: where the encoded cells go.
            checked_only: takes nothing, so that every row goes the checked way; for tests.
        """
        ...

    def decode(self, data: bytes, start: int) -> RowChange:
        """A change, taken apart.

        Raises:
            DecodeError: the bytes are malformed.
            ConversionError: they are no change of a row.
        """
        ...

    def operation(self, data: bytes, start: int) -> str | None:
        """``c``, ``u`` or ``d``, told from a change's first bytes; None: an update that may have changed the key."""
        ...

    def cells(self, line: bytes) -> Cells:
        """The cells of a row of a snapshot."""
        ...
