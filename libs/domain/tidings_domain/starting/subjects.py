"""Reads tables from the schemas that a connector with the Avro converter has registered: columns and keys, no foreign keys.

Where a column is called like a table and its key (``order_id`` and ``orders.id``), that is taken as a foreign key, and
said to be a guess.
"""

from typing import Any

from tidings_domain.contracts.registration import OpenRegistry
from tidings_domain.errors import TranslatorError
from tidings_domain.starting import tables as known
from tidings_domain.starting.naming import singular
from tidings_domain.starting.tables import Column, ForeignKey, Kind, Table
from tidings_envelope.errors import RegistryError

_SEMANTIC: dict[str, Kind] = {
    "io.debezium.time.Date": known.DATE,
    "io.debezium.time.Timestamp": known.TIMESTAMP_MS,
    "io.debezium.time.Time": known.TIME_MS,
    "io.debezium.time.MicroTimestamp": known.TIMESTAMP,
    "io.debezium.time.MicroTime": known.TIME,
    "io.debezium.time.ZonedTimestamp": known.TIMESTAMPTZ,
    "io.debezium.time.ZonedTime": known.ZONED_TIME,
    "io.debezium.time.MicroDuration": known.INTERVAL,
    "io.debezium.data.Uuid": known.UUID,
    "io.debezium.data.Json": known.JSON,
    "io.debezium.data.Bits": known.BYTES,
    "io.debezium.data.VariableScaleDecimal": known.decimal(None, None),
}
_PRIMITIVE: dict[str, Kind] = {
    **dict.fromkeys(("int", "long"), known.INTEGER),
    **dict.fromkeys(("float", "double"), known.FLOAT),
    "boolean": known.BOOLEAN,
    "string": known.TEXT,
    "bytes": known.BYTES,
}


def read_registry(registry: OpenRegistry, source: str, names: list[str]) -> list[Table]:
    """The tables of a source.

    Args:
        source: Debezium's topic.prefix.
        names: ``schema.table`` of each.

    Raises:
        TranslatorError: a table has no schema in the registry, or one that is not an envelope's.
    """
    found = []
    for name in names:
        try:
            value = registry.latest(f"{source}.{name}-value")[1]
        except RegistryError as error:
            raise TranslatorError(str(error), hint="is its topic written with the Avro converter?") from error
        try:
            key = registry.latest(f"{source}.{name}-key")[1]
        except RegistryError:
            key = {"fields": []}
        found.append(_table(name, value, [field["name"] for field in key["fields"]]))
    return [_with_guesses(table, found) for table in found]


def _table(name: str, value: Any, key: list[str]) -> Table:
    types = {field["name"]: field["type"] for field in value.get("fields", ())}
    row = next(
        (one for side in ("before", "after") for one in types.get(side, ()) if isinstance(one, dict)), None
    )
    if row is None:
        raise TranslatorError(
            f"the schema of {name} is not that of a change event", hint="is it a topic of Debezium's format?"
        )
    columns, notes = [], []
    for field in row["fields"]:
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        kind = _kind(next(branch for branch in branches if branch != "null"))
        column = field["name"]
        if kind is None:
            notes.append(f"column {column} has a type that is not known here")
        else:
            columns.append(Column(column, kind, "null" in branches))
    return Table(name, tuple(columns), tuple(key), notes=tuple(notes))


def _kind(schema: Any) -> Kind | None:
    if isinstance(schema, str):
        return _PRIMITIVE.get(schema) or _SEMANTIC.get(schema)  # a type that was defined further up
    semantic = str(schema.get("connect.name") or schema.get("name") or "")
    if semantic in _SEMANTIC:
        return _SEMANTIC[semantic]
    if schema.get("logicalType") == "decimal":
        return known.decimal(schema["precision"], schema.get("scale", 0))
    if semantic == "io.debezium.data.Enum":
        allowed = schema.get("connect.parameters", {}).get("allowed", "")
        return known.enum(allowed.split(",") if allowed else [])
    if schema["type"] == "array":
        items = schema["items"]
        branches = items if isinstance(items, list) else [items]
        element = _kind(next(branch for branch in branches if branch != "null"))
        return None if element is None else known.array(element)
    if schema["type"] in ("record", "map"):
        return known.STRUCTURE
    return _PRIMITIVE.get(schema["type"])


def _with_guesses(table: Table, tables: list[Table]) -> Table:
    guesses = []
    for column in table.columns:
        for other in tables:
            if len(other.key) != 1 or (other is table and column.name in table.key):
                continue
            wanted = f"{singular(other.name.partition('.')[2])}_{other.key[0]}"
            same = other.column(other.key[0]).kind.python == column.kind.python
            if column.name == wanted and same:
                guesses.append(ForeignKey((column.name,), other.name, guessed=True))
    return Table(table.name, table.columns, table.key, tuple(guesses), table.notes)
