"""What a table's topic holds, as far as this connector has sent it: each row's key with a checksum.

It is stored beside the table's position, so that it is as exact as that, moves with the task, and is written in one Kafka
transaction with the records where delivery is exactly once. Four kinds of entries:

- ``range-<n>``: the rows behind one key, up to the next range. About eight bytes a row.
- ``sent-<n>``: the rows that were sent since, in order. They are put into their ranges before they become many.
- ``next-<n>``: the keys of rows that are about to be sent, where delivery is at least once: it is stored before their records
  are sent, so that after a kill every key that may be in the topic is known.
- ``head``: the position that all of it stands for, how far the running comparison is, and which announced rows were sent.

At least once, a kill can come between two entries of one checkpoint. The head counts the entries that were written with it
and names the position: where either does not fit, no checksum is trusted, and the next comparison sends every row. Nothing
is emptied or made smaller in its place: an entry is emptied only after Kafka has what stands in for it, so that no key is lost.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from tidings_capture.query.packed import GONE, UNKNOWN, Key, pack, unpack

HEAD: Final = "head"
_RANGE: Final = "range-"
_SENT: Final = "sent-"
_NEXT: Final = "next-"
_SENT_ROWS: Final = 500
"""In one entry."""
_SENT_MOST: Final = 50_000
"""Rows that are in no range yet; they are in memory."""
_SENT_ENTRIES: Final = 200


@dataclass(slots=True)
class _Range:
    name: str
    after: Key | None
    """Its rows are behind this key."""
    seq: int
    """Rows that were sent before it are in it."""
    packed: Mapping[str, Any]
    sent: dict[Key, bytes] = field(default_factory=dict)
    """Rows of it that were sent since."""


@dataclass(slots=True)
class _Sent:
    name: str
    seq: int
    rows: list[tuple[Key, bytes]]


@dataclass(slots=True)
class _Next:
    name: str
    left: int
    """How many of its rows are not sent yet."""
    total: int


class SentRows:
    """The rows of one table that were sent.

    Args:
        stored: the entries, by name.
        position: the table's, as it is stored.
        range_rows: how many rows a range has, about.
        name: the table's, for errors.
    """

    def __init__(
        self,
        stored: Mapping[str, Mapping[str, Any]],
        position: Mapping[str, Any] | None,
        range_rows: int,
        name: str,
    ) -> None:
        self._range_rows = range_rows
        self._name = name
        head = stored.get(HEAD, {})
        self.trusted = _whole(stored, position)
        self.notes: dict[str, Any] = dict(head.get("notes") or {})
        """What else is to be stored with the head."""
        self._check = max((int(entry.get("check", 0)) for entry in stored.values()), default=0)
        self._seq = max((int(entry.get("seq", 0)) for entry in stored.values()), default=0) + 1
        self._free = [name for name, entry in stored.items() if name != HEAD and not entry.get("keys")]
        self._names = count(
            1 + max((int(name.rpartition("-")[2]) for name in stored if name != HEAD), default=0)
        )
        self._dirty: dict[str, dict[str, Any]] = {}
        self._empty_next: list[tuple[str, str]] = []
        """Entries, each with the one that stands in for it."""
        self._head: dict[str, Any] = {}
        self._changed = True
        self._given: list[tuple[str, Mapping[str, Any]]] = []
        self._ranges: list[_Range] = []
        self._afters: list[Key] = []
        """Of all ranges but the first."""
        self._open: _Sent | None = None
        self._sent: list[_Sent] = []
        self._next: _Next | None = None
        self._load(stored)

    def _load(self, stored: Mapping[str, Mapping[str, Any]]) -> None:
        found, stale = _current(stored)
        if not found or found[0].after is not None:
            found.insert(0, self._new_range(None, {}))
        self._ranges = found
        self._afters = [each.after for each in found if each.after is not None]
        self._sent = sorted(
            (
                _Sent(name, int(entry["seq"]), list(unpack(entry, self._name).items()))
                for name, entry in stored.items()
                if name.startswith(_SENT) and entry.get("keys")
            ),
            key=lambda each: each.seq,
        )
        unsent = self._announced(stored)
        if not self.trusted:
            self._distrust(stale, unsent)
        for old in stale:
            self._empty_next.append(
                (old.name, self._ranges[bisect_right(self._afters, old.after or ())].name)
            )
        for sent in self._sent:
            for key, checksum in sent.rows:
                where = self._range(key)
                if sent.seq > where.seq:
                    where.sent[key] = checksum
        if self.trusted:
            for key in unsent:
                self.send(key, UNKNOWN)
        self._retire(name for name in stored if name.startswith(_NEXT) and stored[name].get("keys"))

    def _announced(self, stored: Mapping[str, Mapping[str, Any]]) -> dict[Key, bytes]:
        """The keys that may have been sent since the last checkpoint."""
        sent = stored.get(HEAD, {}).get("next", {})
        found: dict[Key, bytes] = {}
        for name, entry in stored.items():
            if not name.startswith(_NEXT) or not entry.get("keys"):
                continue
            rows = list(unpack(entry, self._name).items())
            if not self.trusted:
                found.update(rows)
            elif name in sent:
                found.update(rows[int(sent[name]) :])
        return found

    def _distrust(self, stale: list[_Range], unsent: dict[Key, bytes]) -> None:
        """Keys stay, whatever became of their rows."""
        ranges = [*self._ranges]
        kept = [unsent, *(unpack(each.packed, self._name) for each in (*ranges, *stale))]
        for each in ranges:
            self._replace(each, {})
        for key in (key for rows in (*kept, *(dict(sent.rows) for sent in self._sent)) for key in rows):
            self._range(key).sent[key] = UNKNOWN
        self._fold()

    def announce(self, keys: Iterable[Key]) -> None:
        """Rows are to be sent, in this order; none may be until the entries are stored."""
        self.withdraw()
        packed = pack((key, UNKNOWN) for key in keys)
        count = len({*keys})
        name = self._take_name(_NEXT)
        self._next = _Next(name, count, count)
        self._dirty[name] = dict(packed)
        self._changed = True

    def withdraw(self) -> None:
        """Of what was announced, nothing is to be sent any more."""
        announced, self._next = self._next, None
        if announced is not None:
            self._retire([announced.name])

    def _retire(self, names: Iterable[str]) -> None:
        """These are emptied when the rows that were sent are stored."""
        instead = self._sent[-1].name if self._sent else self._ranges[0].name
        self._empty_next += [(name, instead) for name in names]
        self._changed = True

    def send(self, key: Key, checksum: bytes) -> None:
        """A row is sent; `GONE`: its tombstone is."""
        if self._next is not None:
            self._next.left -= 1
        if self._open is None or len(self._open.rows) >= _SENT_ROWS:
            if sum(len(each.rows) for each in self._sent) >= _SENT_MOST or len(self._sent) >= _SENT_ENTRIES:
                self._fold()
            self._seq += 1
            self._open = _Sent(self._take_name(_SENT), self._seq, [])
            self._sent.append(self._open)
        self._open.rows.append((key, checksum))
        self._range(key).sent[key] = checksum
        self._dirty[self._open.name] = {}  # made when it is asked for
        self._changed = True

    def until(self, after: Key | None) -> Key | None:
        """Where the range behind a key ends; None: it is the last."""
        place = 0 if after is None else bisect_right(self._afters, after)
        return self._afters[place] if place < len(self._afters) else None

    def known(self, after: Key | None, until: Key | None) -> dict[Key, bytes]:
        """The rows behind one key, up to another in the same range; deleted ones are left out."""
        rows = self._rows(
            self._ranges[0] if after is None else self._ranges[bisect_right(self._afters, after)]
        )
        return {
            key: found
            for key, found in rows.items()
            if (after is None or key > after) and (until is None or key <= until)
        }

    def compared(self, after: Key | None, until: Key | None) -> None:
        """The rows between two keys are as `send` has said: the range is written if they are others than before, and ends at
        `until`."""
        where = self._ranges[0] if after is None else self._ranges[bisect_right(self._afters, after)]
        if until is not None and until != self.until(after):
            rows = self._rows(where)
            behind = {key: found for key, found in rows.items() if key > until}
            place = bisect_right(self._afters, until)
            new = self._new_range(until, behind)
            self._ranges.insert(place + 1, new)
            self._afters.insert(place, until)
            self._replace(where, {key: found for key, found in rows.items() if key <= until})
        elif where.sent:
            self._replace(where, self._rows(where))
        self._drop_empty(where)

    def _drop_empty(self, where: _Range) -> None:
        """A range of the middle without rows is part of the one before it."""
        place = next(place for place, each in enumerate(self._ranges) if each is where)
        if 0 < place < len(self._ranges) - 1 and not where.sent and not self._rows(where):
            before = self._ranges[place - 1]
            del self._ranges[place], self._afters[place - 1]
            self._empty_next.append((where.name, before.name))
            self._changed = True

    def entries(self, position: Mapping[str, Any] | None) -> list[tuple[str, Mapping[str, Any]]]:
        """What is to be stored with a position, by name."""
        if self._changed or self._head.get("position") != position or self._head.get("notes") != self.notes:
            self._changed = False
            self._check += 1
            for sent in self._sent:
                if sent.name in self._dirty:
                    self._dirty[sent.name] = _packed(sent)
            announced = self._next
            self._dirty = {name: {**entry, "check": self._check} for name, entry in self._dirty.items()}
            self._head = {
                "check": self._check,
                "entries": len(self._dirty),
                "position": None if position is None else dict(position),
                "notes": dict(self.notes),
                "next": {} if announced is None else {announced.name: announced.total - announced.left},
            }
            self._given = [*self._dirty.items(), (HEAD, self._head)]
        return self._given

    def stored(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Kafka has these."""
        for name, entry in entries.items():
            if self._dirty.get(name) == entry:
                del self._dirty[name]
                if not entry.get("keys"):
                    self._free.append(name)
        # All entries of a range at once: none of an older one may count again.
        ready = [pair for pair in self._empty_next if not self._dirty.keys() & {*pair}]
        if ready:
            self._empty_next = [pair for pair in self._empty_next if pair not in ready]
            for name, _instead in ready:
                self._dirty[name] = {}
            self._changed = True

    def _range(self, key: Key) -> _Range:
        return self._ranges[bisect_left(self._afters, key)]

    def _rows(self, where: _Range) -> dict[Key, bytes]:
        rows = unpack(where.packed, self._name)
        rows.update(where.sent)
        return {key: found for key, found in rows.items() if found != GONE}

    def _fold(self) -> None:
        """Put what was sent into its ranges."""
        instead = HEAD
        for where in [each for each in self._ranges if each.sent]:
            rows = sorted(self._rows(where).items())
            parts = [dict(part) for part in _parts(rows, self._range_rows)]
            for number in range(len(parts) - 1, 0, -1):  # each ends where the next begins
                part, after = parts[number], max(parts[number - 1])
                place = bisect_right(self._afters, after)
                self._ranges.insert(place + 1, self._new_range(after, part))
                self._afters.insert(place, after)
            self._replace(where, parts[0])
            instead = where.name
        for sent in self._sent:
            if sent.name in self._dirty:
                self._dirty[sent.name] = _packed(sent)
            self._empty_next.append((sent.name, instead))
        self._sent, self._open = [], None
        self._changed = True

    def _new_range(self, after: Key | None, rows: Mapping[Key, bytes]) -> _Range:
        made = _Range(self._take_name(_RANGE), after, self._seq, {})
        self._write(made, rows)
        return made

    def _replace(self, where: _Range, rows: Mapping[Key, bytes]) -> None:
        self._empty_next.append((where.name, name := self._take_name(_RANGE)))
        where.name = name
        self._write(where, rows)

    def _write(self, where: _Range, rows: Mapping[Key, bytes]) -> None:
        self._seq += 1
        where.seq, where.sent = self._seq, {}
        until = self.until(where.after)
        where.packed = {
            "after": None if where.after is None else list(where.after),
            "until": None if until is None else list(until),
            "seq": where.seq,
            **pack(sorted(rows.items())),
        }
        self._dirty[where.name] = dict(where.packed)
        self._changed = True
        self._open = None  # rows that are sent from now on are behind it

    def _take_name(self, prefix: str) -> str:
        for place, name in enumerate(self._free):
            if name.startswith(prefix):
                return self._free.pop(place)
        return f"{prefix}{next(self._names)}"


def _whole(stored: Mapping[str, Mapping[str, Any]], position: Mapping[str, Any] | None) -> bool:
    """Whether all entries of the last checkpoint are there, and the position is that of the head."""
    if not stored:
        return position is None
    head = stored.get(HEAD)
    if head is None or head.get("position") != position:
        return False
    checks = [int(entry.get("check", 0)) for name, entry in stored.items() if name != HEAD]
    last = int(head.get("check", 0))
    return checks.count(last) == head.get("entries") and all(check <= last for check in checks)


def _current(stored: Mapping[str, Mapping[str, Any]]) -> tuple[list[_Range], list[_Range]]:
    """The ranges in order, and those that others stand in for."""
    every = [
        _Range(
            name, None if entry["after"] is None else tuple(entry["after"]), int(entry["seq"]), dict(entry)
        )
        for name, entry in stored.items()
        if name.startswith(_RANGE) and entry.get("keys")
    ]
    ranges: list[_Range] = []
    stale: list[_Range] = []
    for each in sorted(every, key=lambda each: (each.after is not None, each.after or (), -each.seq)):
        before = ranges[-1] if ranges else None
        until = None if before is None or before.packed["until"] is None else tuple(before.packed["until"])
        covered = before is not None and (until is None or each.after is None or each.after < until)
        if before is not None and (each.after == before.after or (covered and each.seq < before.seq)):
            stale.append(each)
        else:
            ranges.append(each)
    return ranges, stale


def _packed(sent: _Sent) -> dict[str, Any]:
    return {"seq": sent.seq, **pack(dict(sent.rows).items())}


def _parts(rows: list[tuple[Key, bytes]], size: int) -> Iterator[list[tuple[Key, bytes]]]:
    if len(rows) <= 2 * size:
        yield rows
        return
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
