"""Which Avro logical types are to be read as such.

Connect's Date, Time and Timestamp carry Avro's logical types, which fastavro reads as Python objects with their own
ranges and time zones. Technical events keep Debezium's representation, the integer, so these logical types are taken
out of a schema before it is read with. Decimals stay.
"""

from typing import Any

import fastavro

_KEPT = frozenset(("decimal",))


def without_temporal_types(schema: Any) -> Any:
    """A parsed schema without the logical types of dates and times."""
    return fastavro.parse_schema(_strip(schema))


def _strip(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strip(branch) for branch in schema]
    if isinstance(schema, dict):
        return {
            key: _strip(value) if key in ("type", "items", "values", "fields") else value
            for key, value in schema.items()
            if not (key == "logicalType" and value not in _KEPT) and not key.startswith("__")
        }
    return schema
