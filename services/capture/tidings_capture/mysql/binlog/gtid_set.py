"""MySQL's global transaction ids, ``uuid:number`` or ``uuid:tag:number``, and sets of them. Pure.

Format: MySQL documentation, "GTID Format and Storage"; ``Gtid_set::encode`` in ``sql/rpl_gtid_set.cc``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

Interval = tuple[int, int]
"""The first number and the last."""
Source = tuple[str, str]
"""The server's UUID, and the tag or an empty text."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.IGNORECASE)
_INTERVAL: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")
_MOST: Final = 1 << 63
_TAGGED: Final = 1
"""The format of a set of which one has a tag."""


class MySqlGtid(NamedTuple):
    """The id of a transaction."""

    server: str
    """Its UUID, in small letters."""
    tag: str
    """Empty: none."""
    number: int

    @property
    def shown(self) -> str:
        """``source.gtid``."""
        return str(self)

    @property
    def name(self) -> str:
        """``transaction.id``."""
        return str(self)

    @property
    def origin(self) -> str:
        """See `TransactionId`."""
        return self.server

    @property
    def source(self) -> Source:
        """What numbers it."""
        return self.server, self.tag

    def __str__(self) -> str:
        return f"{self.server}:{self.tag}:{self.number}" if self.tag else f"{self.server}:{self.number}"


def read_gtid(text: str) -> MySqlGtid:
    """From its text.

    Raises:
        ValueError: it is not a GTID.
    """
    ids = GtidSet.read(text).ids
    if len(ids) != 1:
        raise ValueError("a GTID is written <server uuid>:<number>")
    (((server, tag), intervals),) = ids.items()
    if len(intervals) != 1 or intervals[0][0] != intervals[0][1]:
        raise ValueError("a GTID is written <server uuid>:<number>")
    return MySqlGtid(server, tag, intervals[0][0])


class GtidSet:
    """A set of transactions; immutable. A place in a log that names them: all of the set lie before it."""

    __slots__ = ("ids",)
    has_ids: Final = True

    def __init__(self, ids: Mapping[Source, tuple[Interval, ...]] | None = None) -> None:
        self.ids: Mapping[Source, tuple[Interval, ...]] = ids or {}

    @classmethod
    def read(cls, text: str) -> "GtidSet":
        """From ``uuid:1-5:7:tag:1-3,uuid:...``; an empty text is the empty set.

        Raises:
            ValueError: the text is not a set.
        """
        found: dict[Source, list[Interval]] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            server, *rest = (word.strip() for word in part.split(":"))
            if not _UUID.fullmatch(server) or not rest:
                raise _wrong()
            source = (str(UUID(server)), "")
            for word in rest:
                match = _INTERVAL.fullmatch(word)
                if match is None:
                    if not _TAG.fullmatch(word):
                        raise _wrong()
                    source = (source[0], word.lower())
                    continue
                first, last = int(match[1]), int(match[2] or match[1])
                if not 0 < first <= last < _MOST:
                    raise _wrong()
                found.setdefault(source, []).append((first, last))
        return cls({source: _joined(intervals) for source, intervals in sorted(found.items())})

    @property
    def is_start(self) -> bool:
        """See `LogPosition`."""
        return not self.ids

    @property
    def sequence(self) -> int | None:
        """See `LogPosition`: each server counts by itself."""
        return None

    def after(self, gtid: MySqlGtid) -> "GtidSet":
        """See `LogPosition`."""
        intervals, number = self.ids.get(gtid.source, ()), gtid.number
        if intervals and intervals[-1][1] + 1 == number:
            joined = (*intervals[:-1], (intervals[-1][0], number))
        else:
            joined = _joined([*intervals, (number, number)])
        return GtidSet({**self.ids, gtid.source: joined})

    def ended(self, gtid: MySqlGtid, file: str, end: int) -> "GtidSet":  # noqa: ARG002 - it holds in any file
        """See `LogPosition`."""
        return self.after(gtid)

    def passed(self, file: str, end: int) -> "GtidSet":  # noqa: ARG002
        """See `LogPosition`."""
        return self

    def holds(self, gtid: MySqlGtid) -> bool:
        """See `LogPosition`."""
        return any(first <= gtid.number <= last for first, last in self.ids.get(gtid.source, ()))

    def contains(self, other: "GtidSet") -> bool:
        """See `LogPosition`."""
        return all(
            any(low <= first and last <= high for low, high in self.ids.get(source, ()))
            for source, intervals in other.ids.items()
            for first, last in intervals
        )

    def of(self, is_meant: Callable[[str], bool]) -> "GtidSet":
        """Those of some servers, by their UUIDs."""
        return GtidSet({source: intervals for source, intervals in self.ids.items() if is_meant(source[0])})

    def joined(self, other: "GtidSet") -> "GtidSet":
        """Those of either."""
        found = {source: [*intervals] for source, intervals in self.ids.items()}
        for source, intervals in other.ids.items():
            found.setdefault(source, []).extend(intervals)
        return GtidSet({source: _joined(intervals) for source, intervals in found.items()})

    def without(self, other: "GtidSet") -> "GtidSet":
        """What the other does not have."""
        found: dict[Source, tuple[Interval, ...]] = {}
        for source, intervals in self.ids.items():
            left = [*intervals]
            for low, high in other.ids.get(source, ()):
                left = [piece for one in left for piece in _cut(one, low, high)]
            if left:
                found[source] = tuple(left)
        return GtidSet(found)

    def encoded(self) -> bytes:
        """As a request for the log has it."""
        tagged = any(tag for _, tag in self.ids)
        head = len(self.ids)
        if tagged:
            head = head << 8 | _TAGGED << 56 | _TAGGED
        parts = [head.to_bytes(8, "little")]
        for (server, tag), intervals in sorted(self.ids.items()):
            parts.append(UUID(server).bytes)
            if tagged:
                parts.append(bytes([len(tag) << 1]) + tag.encode())
            parts.append(len(intervals).to_bytes(8, "little"))
            parts += [
                first.to_bytes(8, "little") + (last + 1).to_bytes(8, "little") for first, last in intervals
            ]
        return b"".join(parts)

    def __str__(self) -> str:
        by_server: dict[str, str] = {}
        for (server, tag), intervals in sorted(self.ids.items()):
            text = "".join(f":{first}" if first == last else f":{first}-{last}" for first, last in intervals)
            by_server[server] = by_server.get(server, server) + (f":{tag}{text}" if tag else text)
        return ",".join(by_server.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidSet) and self.ids == other.ids

    def __hash__(self) -> int:
        return hash(str(self))


def _joined(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _cut(interval: Interval, low: int, high: int) -> list[Interval]:
    first, last = interval
    pieces = ((first, min(last, low - 1)), (max(first, high + 1), last))
    return [piece for piece in pieces if piece[0] <= piece[1]]


def _wrong() -> ValueError:
    return ValueError("a set of GTIDs is written <server uuid>:<first>-<last>,...")
