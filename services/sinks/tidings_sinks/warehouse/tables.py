"""Tables of the warehouse: columns that become wider, and values as Parquet takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidings_envelope.schema import ConnectType
from tidings_envelope.toast import is_unavailable
from tidings_sinks.errors import RowError
from tidings_sinks.jdbc.changes import Change
from tidings_sinks.jdbc.database import Column, Encode, TableName
from tidings_sinks.jdbc.kinds import Base
from tidings_sinks.jdbc.settings import Settings
from tidings_sinks.jdbc.tables import Part, Prepared, Tables
from tidings_sinks.warehouse.duck import DuckDatabase
from tidings_sinks.warehouse.values import Convert, Staged, StagedColumn, staged

_MAY_BE_PLACEHOLDER = frozenset({ConnectType.ARRAY, ConnectType.MAP, ConnectType.BYTES, ConnectType.STRING})


class WarehouseTables(Tables):
    """See `Tables`."""

    def __init__(self, database: DuckDatabase, settings: Settings) -> None:
        super().__init__(database, settings)
        self._duck = database

    def prepare(self, change: Change) -> Prepared:
        """See `Tables.prepare`. A key's columns hold no null: nothing is equal to it, so that the row would be doubled."""
        found = super().prepare(change)
        if found.shape is not None and None in found.values[: found.shape.write.keys]:
            raise RowError("a field of the key is null, so that no row has it")
        return found

    def _fitted(self, part: Part, column: Column) -> Column:
        return StagedColumn(column.name, column.type, column.generated, _staged_for(part, column).arrow)

    def _encoder(self, part: Part, column: Column) -> Encode | None:
        convert = _staged_for(part, column).convert
        if convert is None or part.schema is None or part.schema.type not in _MAY_BE_PLACEHOLDER:
            return convert
        return _but_placeholders(convert)

    def _with_columns(
        self, topic: str, name: TableName, keys: Sequence[Part], parts: Sequence[Part]
    ) -> Mapping[str, Column]:
        known = super()._with_columns(topic, name, keys, parts)
        if not self._settings.adds_columns:
            return known
        wider = {}
        for part in (*keys, *parts):
            column = known.get(self._column_name(part.field, known))
            if column is not None and part.schema is not None:
                wanted = self._duck.wider(column.type, staged(part.schema, part.kind).column)
                if wanted is not None:
                    wider[column.name] = wanted
        if not wider:
            return known
        self._duck.widen(name, wider)
        self._columns[name] = self._duck.columns(name)
        return self._columns[name]


def _staged_for(part: Part, column: Column) -> Staged:
    """DuckDB casts what is staged to the column's type, but no TIME to an INTERVAL."""
    if column.type == "INTERVAL" and part.kind is not None and part.kind.base is Base.TIME:
        return Staged(pa.string(), column.type, part.read)
    return staged(part.schema, part.kind)


def _but_placeholders(convert: Convert) -> Convert:
    def change(value: Any) -> Any:
        return value if is_unavailable(value) else convert(value)

    return change
