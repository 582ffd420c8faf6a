"""Change sets whose rows could not be applied and that were left out: as long as one may be replayed, its aggregate is
remembered, also when it is deleted.

The state of a deleted aggregate is deleted with it. The topic of the change sets, its offsets and the states move in one
Kafka transaction, and the sequencer writes what a transaction did to an aggregate once, in commit order; so nothing older
comes behind a deletion, but for one thing: a change set that was left out, and that a person replays. While there is such a
one, the deleted aggregate keeps its commit position, and the replay is refused as one that comes too late.

Each is an entry of its own in the state's changelog; its key begins with ``\\0left-out\\0`` and the offset in twenty digits.
"""

from collections import defaultdict

from tidings_translator.base.records import Partition
from tidings_translator.translation.publishing import BatchResult

PREFIX = b"\0left-out\0"
SINCE_KEY = b"\0left-out-since"
"""Holds the offset from which on these entries are kept; letters from before it are not among them."""
_OFFSET_DIGITS = 20


class LeftOut:
    """Those of one partition.

    Args:
        changelog: where entries go.
        next_offset: of the partition; where no `SINCE_KEY` is stored, entries are kept from here on.
    """

    def __init__(self, changelog: Partition, next_offset: int) -> None:
        self._changelog = changelog
        self._offsets: defaultdict[bytes, set[int]] = defaultdict(set)
        self._since = next_offset
        self._since_is_stored = False

    def load(self, stored_key: bytes, stored: bytes) -> bool:
        """Take in an entry of the changelog; False when it is something else's."""
        if stored_key == SINCE_KEY:
            self._since, self._since_is_stored = int(stored), True
        elif stored_key.startswith(PREFIX):
            digits = stored_key[len(PREFIX) : len(PREFIX) + _OFFSET_DIGITS]
            self._offsets[stored_key[len(PREFIX) + _OFFSET_DIGITS + 1 :]].add(int(digits))
        else:
            return False
        return True

    def keep_from_here(self, result: BatchResult) -> None:
        """Store from which offset on entries are kept, once."""
        if not self._since_is_stored:
            result.state[self._changelog, SINCE_KEY] = b"%d" % self._since
            self._since_is_stored = True

    def __contains__(self, key: bytes) -> bool:
        return key in self._offsets

    def is_before(self, offset: int) -> bool:
        """Whether a letter is from before these entries were kept, so that its aggregate may have come and gone since."""
        return offset < self._since

    def add(self, key: bytes, offset: int, result: BatchResult) -> None:
        """A change set of an aggregate was left out."""
        self._offsets[key].add(offset)
        result.state[self._changelog, _stored_key(key, offset)] = b"\1"

    def settle(self, key: bytes, offset: int, result: BatchResult) -> None:
        """It was replayed or discarded."""
        if key not in self or offset not in self._offsets[key]:
            return
        self._offsets[key].discard(offset)
        if not self._offsets[key]:
            del self._offsets[key]
        result.state[self._changelog, _stored_key(key, offset)] = None


def _stored_key(key: bytes, offset: int) -> bytes:
    return PREFIX + b"%020d\0" % offset + key
