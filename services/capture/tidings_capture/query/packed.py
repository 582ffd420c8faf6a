"""Keys and checksums of rows, as they are kept: about eight bytes a row. Pure."""

import base64
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from tidings_connect.errors import OffsetError

Key = tuple[int | str, ...]
"""A primary key; Python orders such keys as the database does, or the table is refused."""
CHECKSUM_BYTES: Final = 5
"""A changed row is overlooked once in 10^12 times."""
UNKNOWN: Final = bytes(CHECKSUM_BYTES)
"""The checksum of a row that was sent, nobody knows in which state."""
GONE: Final = b"\xff" * CHECKSUM_BYTES
"""In place of a checksum: that the row was deleted was sent."""


def checksum(names: Sequence[str], cells: Sequence[Any]) -> bytes:
    """Of a row, by its columns' names: a new column that is null everywhere changes none."""
    found = [(name, cell) for name, cell in zip(names, cells, strict=True) if cell is not None]
    made = hashlib.blake2b(repr(found).encode(), digest_size=CHECKSUM_BYTES).digest()
    return b"\x01" * CHECKSUM_BYTES if made in (UNKNOWN, GONE) else made


def pack(rows: Iterable[tuple[Key, bytes]]) -> dict[str, str]:
    """Rows as two texts; in order of their keys they are shortest."""
    keys: list[Any] = []
    checksums = bytearray()
    last = 0
    for key, found in rows:
        if len(key) == 1 and isinstance(key[0], int):
            keys.append(key[0] - last)  # differences are short
            last = key[0]
        else:
            keys.append(key)
        checksums += found
    return {
        "keys": base64.b85encode(
            zlib.compress(orjson.dumps(keys, option=orjson.OPT_NON_STR_KEYS), 6)
        ).decode(),
        "checksums": base64.b85encode(bytes(checksums)).decode(),
    }


def unpack(stored: Mapping[str, Any], name: str) -> dict[Key, bytes]:
    """What `pack` made.

    Raises:
        OffsetError: it is not of that form.
    """
    try:
        keys = orjson.loads(zlib.decompress(base64.b85decode(stored["keys"])))
        checksums = base64.b85decode(stored["checksums"])
        found: dict[Key, bytes] = {}
        last = 0
        for number, key in enumerate(keys):
            at = number * CHECKSUM_BYTES
            if isinstance(key, int):
                last += key
                found[(last,)] = checksums[at : at + CHECKSUM_BYTES]
            else:
                found[tuple(key)] = checksums[at : at + CHECKSUM_BYTES]
    except (KeyError, TypeError, ValueError, zlib.error):
        raise OffsetError(
            f"what reconciliation has stored of {name} cannot be read",
            hint="delete the connector's offsets; then every row is sent again",
        ) from None
    return found
