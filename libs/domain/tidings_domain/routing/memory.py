"""What the sequencer remembers of rows: which root a child belongs to, rows that others refer to, and, during a snapshot,
rows that refer to one which was not read yet.

Every change is kept until `take_changes`, which gives it as changelog records; `load` takes them back after a restart.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import msgspec

from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_domain.routing.row_bytes import row_bytes

_Row = dict[str, Any]
_MOST_WAITING = 500_000
"""Rows of a snapshot that wait for one that they refer to: some 300 MB. Those beyond get it with their next change."""

_WIDE_BYTES = MAX_VALUE_BYTES // 8
"""Of a row in memory, about: one that takes more is encoded to see whether it fits into a record."""


class Waiting(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row of a snapshot, with its key, and the aggregate that it was told to."""

    aggregate: str
    root: str
    table: str
    key: str
    row: _Row


class Memory:
    """Held in memory; keys and values on the changelog are msgpack.

    A row that was taken back stays as the bytes it was until somebody asks for it: a restart costs no decoding of a
    million rows that nobody refers to any more, and bytes take a quarter of the room.
    """

    def __init__(self) -> None:
        self._roots: dict[tuple[str, str], dict[str, str]] = {}
        self._rows: dict[str, dict[str, _Row | bytes]] = {}
        self._waiting: dict[tuple[str, str], dict[str, bytes]] = {}
        self._rows_waiting = 0
        self._dirty: set[tuple[str, ...]] = set()
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode_key = msgspec.msgpack.Decoder(tuple[Literal["c", "r", "w"], str, str, str]).decode
        self._decode_row = msgspec.msgpack.Decoder(_Row).decode
        self._decode_root = msgspec.msgpack.Decoder(str).decode
        self._decode_waiting = msgspec.msgpack.Decoder(Waiting).decode

    def __len__(self) -> int:
        roots = sum(map(len, self._roots.values()))
        return roots + sum(map(len, self._rows.values())) + self._rows_waiting

    def root(self, aggregate: str, table: str, key: str) -> str | None:
        """The id of the aggregate that a child row belongs to, if it was seen."""
        roots = self._roots.get((aggregate, table))
        return None if roots is None else roots.get(key)

    def set_root(self, aggregate: str, table: str, key: str, root: str | None) -> None:
        """Remember, or with None forget, where a child row belongs."""
        roots = self._roots.setdefault((aggregate, table), {})
        if roots.get(key) == root:
            return
        if root is None:
            del roots[key]
        else:
            roots[key] = root
        self._dirty.add((aggregate, table, key))

    def row(self, table: str, key: str) -> _Row | None:
        """A referenced row as of the last commit."""
        rows = self._rows.get(table)
        row = None if rows is None else rows.get(key)
        if type(row) is bytes:
            assert rows is not None
            row = rows[key] = self._decode_row(row)
        return cast("_Row | None", row)

    def rows(self, table: str) -> Iterator[tuple[str, _Row]]:
        """Key and row of all that is remembered of a table."""
        for key, row in self._rows.get(table, {}).items():
            yield key, self._decode_row(row) if isinstance(row, bytes) else row

    def set_row(self, table: str, key: str, row: _Row | None) -> None:
        """Remember, or with None forget, a row."""
        if self.row(table, key) == row:
            return
        rows = self._rows.setdefault(table, {})
        if row is None:
            del rows[key]
        else:
            rows[key] = row
        self._dirty.add((table, key))

    def too_large(self, row: _Row) -> int | None:
        """The size in bytes of a row that fits into no record of the changelog; None for one that can be remembered."""
        if row_bytes(row) <= _WIDE_BYTES:
            return None
        size = len(self._encode(row))
        return size if size > MAX_VALUE_BYTES else None

    @property
    def awaits(self) -> bool:
        """Whether any row waits for one that it refers to."""
        return bool(self._waiting)

    def wait(self, table: str, key: str, row: "Waiting") -> bool:
        """Keep a row until that with this key comes; False when too many are kept already, or it fits into no record."""
        name = f"{row.aggregate}/{row.root}/{row.table}/{row.key}"
        if self._rows_waiting >= _MOST_WAITING and name not in self._waiting.get((table, key), ()):
            return False
        if row_bytes(row.row) > _WIDE_BYTES and len(self._encode(row)) > MAX_VALUE_BYTES:
            return False
        rows = self._waiting.setdefault((table, key), {})
        self._rows_waiting += name not in rows
        rows[name] = self._encode(row)
        self._dirty.add(("w", table, key, name))
        return True

    def take_waiting(self, table: str, key: str) -> list["Waiting"]:
        """The rows that waited for one, which are then forgotten."""
        found = self._waiting.pop((table, key), {})
        self._rows_waiting -= len(found)
        self._dirty.update(("w", table, key, name) for name in found)
        return [self._decode_waiting(row) for row in found.values()]

    def forget_waiting(self) -> None:
        """The snapshot is over: what has not come is not there."""
        for table, key in list(self._waiting):
            self.take_waiting(table, key)

    def take_changes(
        self, at_most: int | None = None, most_bytes: int | None = None
    ) -> dict[bytes, bytes | None]:
        """Changelog records for what has changed and was not taken yet.

        `at_most` and `most_bytes` leave what is beyond so many, and so much, to the next call.
        """
        changes: dict[bytes, bytes | None] = {}
        if at_most is None or most_bytes is None:
            taken, self._dirty = self._dirty, set()
            changes.update(map(self._change, taken))
            return changes
        size = 0
        while self._dirty and len(changes) < at_most and size < most_bytes:
            key, value = self._change(self._dirty.pop())
            changes[key] = value
            size += len(value or b"")
        return changes

    def _change(self, place: tuple[str, ...]) -> tuple[bytes, bytes | None]:
        """The changelog record of one entry."""
        encode = self._encode
        if len(place) == 4:
            _, table, key, name = place
            return encode(place), self._waiting.get((table, key), {}).get(name)
        if len(place) == 3:
            aggregate, table, key = place
            root = self._roots[aggregate, table].get(key)
            return encode(("c", *place)), None if root is None else encode(root)
        table, key = place
        row = self._rows[table].get(key)
        return encode(("r", table, key, "")), None if row is None else encode(row)

    @property
    def changes(self) -> int:
        """How many entries have changed and were not taken yet."""
        return len(self._dirty)

    def records(
        self, has_root: Callable[[str, str], bool], has_row: Callable[[str, str], bool]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Changelog records of what is remembered, but for rows that wait within a snapshot.

        Args:
            has_root: whether children of an aggregate, by its name and id, are among them.
            has_row: whether a row that others refer to is, by its table and key.
        """
        encode = self._encode
        for (aggregate, table), roots in self._roots.items():
            for key, root in roots.items():
                if has_root(aggregate, root):
                    yield encode(("c", aggregate, table, key)), encode(root)
        for table, rows in self._rows.items():
            for key, row in rows.items():
                if has_row(table, key):
                    yield encode(("r", table, key, "")), row if isinstance(row, bytes) else encode(row)

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take back one changelog record.

        Raises:
            msgspec.DecodeError: it is not such a record.
        """
        kind, first, second, third = self._decode_key(key)
        if kind == "c":
            roots = self._roots.setdefault((first, second), {})
            if value is None:
                roots.pop(third, None)
            else:
                roots[third] = self._decode_root(value)
        elif kind == "w":
            waiting = self._waiting.setdefault((first, second), {})
            known = len(waiting)
            if value is not None:
                waiting[third] = value
            else:
                waiting.pop(third, None)
            self._rows_waiting += len(waiting) - known
            if not waiting:
                del self._waiting[first, second]
        elif value is None:
            self._rows.get(first, {}).pop(second, None)
        else:
            self._rows.setdefault(first, {})[second] = value
