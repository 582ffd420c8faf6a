"""What the table plan asks of a database beside its types (`type_map`): how its rows are read (`RowFormat`).

A plan (`plan`) knows the schemas, the envelope and the key; how bytes of a change become cells is the database's. All of it
is pure: bytes in, cells or encoded bytes out.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from tidings_capture.cdc.cells import Cells
from tidings_capture.cdc.encoding.plan_code import ColumnCode, EncodedRow, RowLayout
from tidings_capture.cdc.row_change import RowChange


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
            ConversionError: they are not a change of a row.
        """
        ...

    def operation(self, data: bytes, start: int) -> str | None:
        """``c``, ``u`` or ``d``, told from a change's first bytes; None: an update that may have changed the key."""
        ...

    def cells(self, line: bytes) -> Cells:
        """The cells of a row of a snapshot."""
        ...
