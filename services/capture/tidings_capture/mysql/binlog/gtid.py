"""MariaDB's global transaction ids: ``domain-server-sequence``, and positions, which name the last one of each domain. Pure."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_TEXT: Final = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")


class Gtid(NamedTuple):
    """The id of a transaction."""

    domain: int
    server: int
    sequence: int

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
        return f"{self.domain}-{self.server}"

    def __str__(self) -> str:
        return f"{self.domain}-{self.server}-{self.sequence}"


def read_gtids(text: str) -> list[Gtid]:
    """From ``0-1-5,0-2-7``.

    Raises:
        ValueError: the text is not a list of GTIDs.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _TEXT.fullmatch(part)
        numbers = Gtid(*map(int, match.groups())) if match else None
        if numbers is None or numbers.domain >> 32 or numbers.server >> 32 or numbers.sequence >> 64:
            raise ValueError("a GTID position is written <domain>-<server>-<sequence>,...")
        found.append(numbers)
    return found


class GtidPosition:
    """The last transaction of each domain; immutable."""

    __slots__ = ("_last",)
    has_ids: Final = True

    def __init__(self, last: Iterable[Gtid] = ()) -> None:
        self._last = {gtid.domain: gtid for gtid in last}

    @classmethod
    def read(cls, text: str) -> "GtidPosition":
        """From ``0-1-5,1-2-7``; an empty text is the beginning.

        Raises:
            ValueError: the text is not a position.
        """
        found = read_gtids(text)
        if len({gtid.domain for gtid in found}) != len(found):
            raise ValueError("a GTID position names each domain once")
        return cls(found)

    def after(self, gtid: Gtid) -> "GtidPosition":
        """The position behind one more transaction."""
        return GtidPosition([*self._last.values(), gtid])

    def ended(self, gtid: Gtid, file: str, end: int) -> "GtidPosition":  # noqa: ARG002 - it holds in any file
        """See `LogPosition`."""
        return self.after(gtid)

    def passed(self, file: str, end: int) -> "GtidPosition":  # noqa: ARG002
        """See `LogPosition`."""
        return self

    @property
    def is_start(self) -> bool:
        """See `LogPosition`."""
        return not self._last

    @property
    def last(self) -> list[Gtid]:
        """The last transaction of each domain."""
        return list(self._last.values())

    @property
    def sequence(self) -> int | None:
        """Of the last transaction, 0 before the first; None with several domains, whose sequences do not compare."""
        if len(self._last) > 1:
            return None
        return next((gtid.sequence for gtid in self._last.values()), 0)

    def holds(self, gtid: Gtid) -> bool:
        """Whether a transaction lies before this position."""
        last = self._last.get(gtid.domain)
        return last is not None and gtid.sequence <= last.sequence

    def contains(self, other: "GtidPosition") -> bool:
        """Whether all transactions before another position lie before this one."""
        return all(self.holds(gtid) for gtid in other.last)

    def __str__(self) -> str:
        return ",".join(str(self._last[domain]) for domain in sorted(self._last))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GtidPosition) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
