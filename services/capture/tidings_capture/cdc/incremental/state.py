"""Which tables an incremental snapshot has yet to read, and how far it is with the first of them.

Stored in the connector's offset under Debezium's names (``incremental_snapshot_collections``,
``incremental_snapshot_correlation_id``). The keys are not: Debezium stores them as serialized Java objects. They are in
a field of ours instead, and whoever reads only his own fields begins the first table anew, which repeats rows and loses
none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tidings_capture.cdc.signals.channels import table_pattern

Key = list[str | None]
"""A row's key as PostgreSQL writes it."""

_COLLECTIONS: Final = "incremental_snapshot_collections"
_CORRELATION: Final = "incremental_snapshot_correlation_id"
_DELETED: Final = "tidings_deleted_rows"
_GIVEN: Final = "tidings_given_keys"
_KEYS: Final = "tidings_incremental_snapshot_keys"
FIELDS: Final = (_COLLECTIONS, _CORRELATION, _KEYS)


@dataclass(frozen=True, slots=True)
class Collection:
    """A table that is to be read."""

    name: str
    """``schema.table``"""
    condition: str = ""
    """SQL that its rows must fulfil."""
    surrogate_key: str = ""
    """The column that chunks go by instead of the key."""
    correlation_id: str | None = None
    """The signal that asked for it."""
    deleted: bool = False
    """Not the rows that are there are wanted, but those that are gone (`deleted_rows`)."""
    keys: tuple[Mapping[str, str], ...] = ()
    """Only these keys are wanted, by column: rows that are there, and the deletes of those that are not (`given_keys`)."""

    @property
    def tables(self) -> list[tuple[str, str]]:
        """What schema and table the name may be: either may hold a dot, and a database may stand before them."""
        parts = self.name.split(".")
        found = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
        return [*found, *((".".join(parts[1:i]), ".".join(parts[i:])) for i in range(2, len(parts)))]


@dataclass(slots=True)
class IncrementalState:
    """The state of a connector's incremental snapshots."""

    collections: list[Collection] = field(default_factory=list)
    correlation_id: str | None = None
    """The last signal that asked for one."""
    last_sent: Key | None = None
    """Of the last row of the current table that was sent."""
    maximum: Key | None = None
    """The largest key of the current table when its snapshot began."""
    chunk_end: Key | None = None
    """Of the last row that was read."""
    paused: bool = False
    stopping: list[str] = field(default_factory=list)
    """Tables that are to be left out from the next chunk on."""

    @property
    def running(self) -> bool:
        return bool(self.collections)

    def names(self) -> str:
        """The tables, as notifications and logs list them."""
        return ",".join(collection.name for collection in self.collections)

    def next_table(self) -> None:
        """The current table is done."""
        self.collections = self.collections[1:]
        self.last_sent = self.maximum = self.chunk_end = None

    def stored(self) -> dict[str, Any] | None:
        """The fields that go into the offset; None while nothing is to be read."""
        if not self.collections:
            return None
        collections = [
            {
                f"{_COLLECTIONS}_id": c.name,
                f"{_COLLECTIONS}_additional_condition": c.condition or None,
                f"{_COLLECTIONS}_surrogate_key": c.surrogate_key or None,
                f"{_COLLECTIONS}_correlation_id": c.correlation_id,
                # Whoever does not know these reads the table's rows, which repeats them and loses none.
                **({_DELETED: True} if c.deleted else {}),
                **({_GIVEN: c.keys} if c.keys else {}),
            }
            for c in self.collections
        ]
        return {
            _COLLECTIONS: orjson.dumps(collections).decode(),
            _CORRELATION: self.correlation_id,
            # As text: Kafka Connect discards an offset with a value that is not a primitive.
            _KEYS: orjson.dumps({"last": self.last_sent, "maximum": self.maximum}).decode(),
        }


def expanded(names: Sequence[str], captured: Iterable[tuple[str, str]]) -> list[str]:
    """Names of tables; each may be a regular expression of captured ones (schema, name). What matches none stays.

    Raises:
        ConnectError: one is not a regular expression.
    """
    known = [f"{schema}.{table}" for schema, table in captured]
    found: dict[str, None] = {}
    for name in names:
        matching = list(filter(table_pattern(name).fullmatch, known))
        found |= dict.fromkeys(matching or [name.replace('"', "")])
    return list(found)


def restored_state(fields: Mapping[str, Any] | None) -> IncrementalState:
    """The state that an offset holds, ours or Debezium's."""
    if not fields or not fields.get(_COLLECTIONS):
        return IncrementalState()
    prefix = f"{_COLLECTIONS}_"
    collections = [
        Collection(
            item[f"{prefix}id"].replace('"', ""),
            item.get(f"{prefix}additional_condition") or "",
            item.get(f"{prefix}surrogate_key") or "",
            item.get(f"{prefix}correlation_id"),
            deleted=bool(item.get(_DELETED)),
            keys=tuple(item.get(_GIVEN) or ()),
        )
        for item in orjson.loads(fields[_COLLECTIONS])
    ]
    keys = fields.get(_KEYS) or {}
    if isinstance(keys, str):
        keys = orjson.loads(keys)
    last, maximum = keys.get("last"), keys.get("maximum")
    return IncrementalState(collections, fields.get(_CORRELATION), last, maximum, last)
