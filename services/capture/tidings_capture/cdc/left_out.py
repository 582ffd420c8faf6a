"""What of a transaction has been counted but does not come out on its table's topic.

END markers count every event of a transaction, as Debezium's do, also those that a transform dropped or failed on. Who
waits for a whole transaction must know how many will never come: the END record says it in a header, by table, and has
none where everything came out. A record that a transform sends to another topic counts as filtered: it is not where
its table's records are looked for. A transaction that is resumed goes on with the counts of its offset, because what
was sent before the restart is not transformed again.
"""

from collections.abc import Mapping
from typing import Final

import orjson

HEADER: Final = "tidings.left.out"
"""Of END records: ``{"filtered": {"public.orders": 2}, "failed": {"public.orders": 1}}``; only keys with counts."""

_KINDS: Final = ("filtered", "failed")

Stored = tuple[tuple[str, int], ...]
"""As a source offset keeps it: counts by kind and ``schema.table``, which are one text: ``filtered_public.orders``."""


class LeftOut:
    """Events of the transaction in progress that were left out, by ``schema.table``; one for each task."""

    __slots__ = ("failed", "filtered")

    def __init__(self) -> None:
        self.filtered: dict[str, int] = {}
        """Dropped by a transform, or sent to another topic."""
        self.failed: dict[str, int] = {}
        """Not converted, or failed on by a transform, with ``errors.tolerance=all``."""

    def begin(self, stored: Stored = ()) -> None:
        """A transaction begins, or goes on after a restart with what was stored."""
        self.filtered, self.failed = {}, {}
        for name, count in stored:
            kind, _, table = name.partition("_")
            if kind in _KINDS:
                self._by_kind(kind)[table] = count

    def filter(self, table: str) -> None:
        """An event of `table` was dropped, or went elsewhere."""
        self.filtered[table] = self.filtered.get(table, 0) + 1

    def fail(self, table: str) -> None:
        """An event of `table` could not be made."""
        self.failed[table] = self.failed.get(table, 0) + 1

    def stored(self) -> Stored:
        """What a source offset within the transaction keeps."""
        return tuple(
            (f"{kind}_{table}", count) for kind in _KINDS for table, count in self._by_kind(kind).items()
        )

    def headers(self) -> list[tuple[str, bytes]] | None:
        """The END record's headers."""
        told: Mapping[str, dict[str, int]] = {
            kind: counts for kind in _KINDS if (counts := self._by_kind(kind))
        }
        return [(HEADER, orjson.dumps(told))] if told else None

    def _by_kind(self, kind: str) -> dict[str, int]:
        return self.filtered if kind == "filtered" else self.failed
