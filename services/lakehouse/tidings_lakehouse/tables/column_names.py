"""What columns may not be called; needs no Spark. No I/O."""

from __future__ import annotations

RESERVED = frozenset(
    {"_partition", "_pos", "_file", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number"}
)
"""Iceberg's metadata columns (MetadataColumns.java)."""
INFINITE = "__infinite"
"""How the name of a column ends that says whether another is infinite, see `decoding.infinite`."""


def safe_name(name: str) -> str:
    """A top-level column's name that Iceberg does not reserve and the job does not use itself (``__...``)."""
    return f"{name}_column" if name in RESERVED or name.startswith("__") else name
