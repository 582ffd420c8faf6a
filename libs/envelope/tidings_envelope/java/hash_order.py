"""The order in which a ``java.util.HashMap`` of strings is walked.

Debezium counts a transaction's events in such a map, and its END markers list the tables in that order; markers that
are equal to the byte need it. The order follows from ``String.hashCode``, the map's growth (it doubles when it is three
quarters full) and insertion order within a bucket. Buckets of eight and more keys become trees in Java, whose order is
not reproduced.
"""

from collections.abc import Sequence

_INITIAL_BUCKETS = 16


def java_hash_order(keys: Sequence[str]) -> list[str]:
    """The keys, given in insertion order, in the order of a HashMap."""
    buckets = _INITIAL_BUCKETS
    while len(keys) > buckets * 3 // 4:
        buckets *= 2
    return sorted(keys, key=lambda key: _spread(_string_hash(key)) & (buckets - 1))


def java_map_order(keys: Sequence[int]) -> list[int]:
    """Numbers of 16 bits, their own hash codes, in the order of a HashMap made for as many as there are."""
    buckets = 1
    while buckets < len(keys) or len(keys) * 4 > buckets * 3:
        buckets *= 2
    return sorted(keys, key=lambda key: key & (buckets - 1))


def _string_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, in 32 bits."""
    units = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value


def _spread(value: int) -> int:
    """What HashMap does with a hash code."""
    return value ^ value >> 16


def copied_map_order(copied: Sequence[str], added: Sequence[str]) -> list[str]:
    """The order of a HashMap that was made from a map of `copied` and then got the keys `added`.

    Such a map begins with the smallest power of two that holds what is copied (``HashMap.putMapEntries``).
    """
    buckets = _INITIAL_BUCKETS
    if copied:
        buckets = 1
        while buckets < int(len(copied) / 0.75 + 1):
            buckets *= 2
    keys = [*copied, *added]
    while len(keys) > int(buckets * 0.75):
        buckets *= 2
    return sorted(keys, key=lambda key: _spread(_string_hash(key)) & (buckets - 1))
