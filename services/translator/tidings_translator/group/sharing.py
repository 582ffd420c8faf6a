"""Shares partitions among the members of a consumer group, so that few of them move when a member comes or goes.

Pure; `transport` puts it into Faust's client.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

Place = tuple[str, int]
"""Topic and partition."""


def share_out(places: Sequence[Place], owned: Mapping[str, Collection[Place]]) -> dict[str, list[Place]]:
    """Every place to one member, as evenly as it goes, each staying where it is for as long as that is even.

    Args:
        places: to be shared.
        owned: what each member had up to now; claims of two to the same place are no harm.
    """
    free = set(places)
    least, more = divmod(len(free), len(owned))
    # Who has the most keeps the most: the others could only get it by a move.
    members = sorted(owned, key=lambda member: (-len(free & set(owned[member])), member))
    shares: dict[str, list[Place]] = {}
    for number, member in enumerate(members):
        shares[member] = sorted(free & set(owned[member]))[: least + (number < more)]
        free -= set(shares[member])
    left = sorted(free, reverse=True)
    for number, member in enumerate(members):
        while len(shares[member]) < least + (number < more):
            shares[member].append(left.pop())
    return shares


def encode_places(places: Collection[Place]) -> bytes:
    """What a member tells the group's leader about itself."""
    return msgspec.msgpack.encode(sorted(places))


def decode_places(told: bytes) -> list[Place]:
    """As `encode_places` wrote it; nothing for a member that tells nothing of the kind (an older version's)."""
    try:
        return msgspec.msgpack.decode(told, type=list[Place])
    except msgspec.DecodeError:
        return []
