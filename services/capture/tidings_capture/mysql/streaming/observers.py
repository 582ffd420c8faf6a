"""Who looks on while changes are streamed: signals that stand in a table, and windows of incremental snapshots."""

from collections.abc import Callable, Hashable, Iterable, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

from tidings_capture.cdc.database import TableId
from tidings_capture.mysql.binlog.cells import Cells
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_connect.data.records import Record
from tidings_connect.transforms.record import SourceRecord


class Streamed(NamedTuple):
    """How far a stream has shown what was committed."""

    gtids: LogPosition
    """The last transactions that it has shown, the one in the midst of which it stands among them."""
    file: str = ""
    begin: int | None = None
    """Where the last transaction begins in the server's file; None: this stream has shown none."""
    distributed: frozenset[str] = frozenset()
    """The ids of distributed transactions (XA) whose commits it has shown in the last minute."""


class SignalRows(Protocol):
    """Takes the rows of the signal table."""

    def row_inserted(self, id_: str | None, type_: str | None, data: str | None) -> None:
        """A new row, by its first three columns."""
        ...

    def row_deleted(self, id_: str | None) -> None:
        """A deleted one."""
        ...


class KeyWatch:
    """Takes the keys that change in one table out of a window, until `stop`.

    Args:
        window: rows by the values of their keys.
        encoded: the values by the encoded key, where changes are encoded without records between.
        stopped: called by `stop`.
    """

    def __init__(
        self,
        window: MutableMapping[Hashable, Any],
        encoded: MutableMapping[bytes, Hashable],
        stopped: Callable[[], None],
    ) -> None:
        self._window = window
        self._encoded = encoded
        self._stopped = stopped

    def take_encoded(self, records: Iterable[Record]) -> None:
        """Changes were written, as these records."""
        window, encoded = self._window, self._encoded
        for key, _value, _headers in records:
            if key is not None and key in encoded:
                window.pop(encoded[key], None)

    def take(self, records: Iterable[SourceRecord]) -> None:
        """Changes were written, as these records."""
        for record in records:
            if record.key is not None:
                self._window.pop(tuple(record.key.values()), None)

    def stop(self) -> None:
        """See `cdc.database.Watch`."""
        self._stopped()


class Observers:
    """Those of one task.

    Args:
        signal_table: ``signal.data.collection``, where its rows are signals.
    """

    def __init__(self, signal_table: TableId | None = None) -> None:
        self.signal_table = signal_table
        self.signals: SignalRows | None = None
        self.altered: Callable[[], None] = lambda: None
        """Called when a table was altered."""
        self._watches: dict[TableId, KeyWatch] = {}

    def watch(
        self,
        table: TableId,
        window: MutableMapping[Hashable, Any],
        encoded: MutableMapping[bytes, Hashable],
    ) -> KeyWatch:
        """From here on a change of a table takes its key out of a window."""
        made = KeyWatch(window, encoded, lambda: self._end(table, made))
        self._watches[table] = made
        return made

    def watches(self, table: TableId) -> KeyWatch | None:
        """What watches a table's changes."""
        return self._watches.get(table)

    def is_signals(self, table: TableId) -> bool:
        """Whether a table's rows are signals."""
        return self.signals is not None and table == self.signal_table

    def signal(self, op: str, cells: Cells) -> None:
        """A row of the signal table was inserted (c), changed or deleted (d)."""
        if self.signals is None:
            return
        if op == "c":
            self.signals.row_inserted(*_texts(cells[:3]))
        elif op == "d":
            self.signals.row_deleted(_texts(cells[:1])[0])

    def _end(self, table: TableId, watch: KeyWatch) -> None:
        if self._watches.get(table) is watch:
            del self._watches[table]


def _texts(cells: Sequence[Any]) -> list[str | None]:
    found = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells]
    texts = [cell if isinstance(cell, str) else None for cell in found]
    return texts + [None] * (3 - len(texts))
