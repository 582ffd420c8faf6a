"""Records as they are handed to a producer."""

from typing import TypeAlias

Header: TypeAlias = tuple[str, bytes]
Record: TypeAlias = tuple[bytes | None, bytes | None, list[Header] | None]
"""An encoded record: key, value (None: a tombstone) and headers."""
