"""Changes of schemas as records of ``<prefix>.schema-changes``: our own topic, which Debezium's connector does not have.

Two origins. ``trigger``: the messages of `ddl_trigger`, which tell the statement and the table before and after.
``relation``: a Relation message that differs from the one before it of the same table; it tells names, types and the
replica identity's columns, and only what changed while this task ran. A difference that a message has told already is
not told again.
"""

from collections.abc import Callable
from typing import Any, Final

import orjson

from tidings_capture.cdc.event_context import EventContext
from tidings_capture.postgres.encoding.source_block import source_of
from tidings_capture.postgres.settings.config import ConnectorConfig
from tidings_capture.postgres.wire.messages import LogicalMessage, Relation
from tidings_connect.converters.encoding import Converter
from tidings_connect.data.records import Record
from tidings_envelope import semantic
from tidings_envelope.position import lsn_to_text
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_service import get_logger

_log = get_logger(__name__)

FormatTypes = Callable[[list[tuple[int, int]]], list[str]]
"""Type oids and modifiers to SQL names, such as ``numeric(10,2)``."""

_NAME: Final = "tidings.capture.SchemaChange"
_COLUMN: Final = semantic.struct(
    f"{_NAME}.Column",
    (
        ("name", semantic.STRING),
        ("type", semantic.STRING),
        ("nullable", ConnectSchema(ConnectType.BOOLEAN, optional=True)),
        ("default", semantic.OPTIONAL_STRING),
    ),
)
_TABLE: Final = semantic.struct(
    f"{_NAME}.Table",
    (
        ("schema", semantic.STRING),
        ("name", semantic.STRING),
        ("columns", semantic.array(_COLUMN)),
        ("key", semantic.array(semantic.STRING)),
    ),
).as_optional()
_KEY: Final = semantic.struct(
    f"{_NAME}Key",
    (
        ("database", semantic.STRING),
        ("schema", semantic.OPTIONAL_STRING),
        ("table", semantic.OPTIONAL_STRING),
    ),
    version=1,
)
_VALUE: Final = semantic.struct(
    _NAME,
    (
        ("origin", semantic.STRING),
        ("command", semantic.OPTIONAL_STRING),
        ("object_type", semantic.STRING),
        ("object", semantic.STRING),
        ("schema", semantic.OPTIONAL_STRING),
        ("table", semantic.OPTIONAL_STRING),
        ("statement", semantic.OPTIONAL_STRING),
        ("before", _TABLE),
        ("after", _TABLE),
        ("source", semantic.POSTGRES_SOURCE),
        ("ts_ms", semantic.OPTIONAL_INT64),
        ("ts_us", semantic.OPTIONAL_INT64),
        ("ts_ns", semantic.OPTIONAL_INT64),
    ),
    version=1,
)


class SchemaChangePlan:
    """Encodes changes of schemas; topic and schemas are made with the first one.

    Changes are counted in no transaction: ``source.txId`` tells to which one they belong.
    """

    def __init__(
        self,
        config: ConnectorConfig,
        converters: tuple[Converter, Converter],
        ensure_topic: Callable[[str], None],
        format_types: FormatTypes,
    ) -> None:
        self.topic = f"{config.topic_prefix}.schema-changes"
        self._options = config.conversion
        self._tables = config.tables
        self._converters = converters
        self._ensure_topic = ensure_topic
        self._format_types = format_types
        self._relations: dict[int, Relation] = {}
        self._told: set[int] = set()
        """Relations of which a message has told the next difference."""
        self._encoders: tuple[Callable[[Any], bytes], Callable[[Any], bytes]] | None = None

    def of_message(self, message: LogicalMessage, context: EventContext) -> list[Record]:
        """The record of a message of the trigger's; none of a message of that prefix that somebody else wrote.

        Every role may write logical messages: one of another shape is left out with a warning, since otherwise whoever
        can connect to the database could stop the connector.
        """
        try:
            change, oid = _told(message.content)
        except _ForeignMessageError as error:
            _log.warning(
                "a logical message of the DDL trigger's prefix is none of the trigger's, and is left out",
                prefix=message.prefix,
                lsn=lsn_to_text(message.lsn),
                reason=str(error),
            )
            return []
        if oid is not None:
            self._told.add(oid)
        names = {(table["schema"], table["name"]) for table in (change["before"], change["after"]) if table}
        if change["table"] is not None:
            names.add((change["schema"], change["table"]))
        if names and not any(self._tables.captures(*name) for name in names):
            return []
        return [self._record({"origin": "trigger", **change}, context)]

    def of_relation(self, relation: Relation, context: EventContext) -> list[Record]:
        """The record of a Relation message that differs from the one before it; of the first one none."""
        former = self._relations.get(relation.oid)
        self._relations[relation.oid] = relation
        told = relation.oid in self._told
        self._told.discard(relation.oid)
        schema = relation.schema or "pg_catalog"
        if former is None or told:
            return []
        if not any(self._tables.captures(r.schema or "pg_catalog", r.name) for r in (former, relation)):
            return []
        if (former.schema, former.name, former.columns) == (relation.schema, relation.name, relation.columns):
            return []
        return [
            self._record(
                {
                    "origin": "relation",
                    "command": None,
                    "object_type": "table",
                    "object": f"{schema}.{relation.name}",
                    "schema": schema,
                    "table": relation.name,
                    "statement": None,
                    "before": self._table(former),
                    "after": self._table(relation),
                },
                context,
            )
        ]

    def _table(self, relation: Relation) -> dict[str, Any]:
        types = self._format_types([(column.type_oid, column.typmod) for column in relation.columns])
        return {
            "schema": relation.schema or "pg_catalog",
            "name": relation.name,
            "columns": [
                {"name": column.name, "type": name, "nullable": None, "default": None}
                for column, name in zip(relation.columns, types, strict=True)
            ],
            "key": [column.name for column in relation.columns if column.is_key],
        }

    def _record(self, change: dict[str, Any], context: EventContext) -> Record:
        if self._encoders is None:
            self._ensure_topic(self.topic)
            key, value = self._converters
            self._encoders = key.encoder(self.topic, _KEY), value.encoder(self.topic, _VALUE)
        encode_key, encode_value = self._encoders
        schema, table = change["schema"], change["table"]
        source = source_of(context, self._options, schema or "", table or "")
        now_us = context.now_ns // 1_000
        times = {"ts_ms": now_us // 1_000, "ts_us": now_us, "ts_ns": context.now_ns}
        key_value = {"database": self._options.database, "schema": schema, "table": table}
        return encode_key(key_value), encode_value({**change, "source": source, **times}), None


class _ForeignMessageError(Exception):
    """A message of the trigger's prefix is not the trigger's; says why without any value of it."""


def _told(content: bytes) -> tuple[dict[str, Any], int | None]:
    """What a message of the trigger's tells, and the table's oid.

    Raises:
        _ForeignMessageError: it is not the trigger's; without any value of the message.
    """
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise _ForeignMessageError("it is not JSON") from None  # its words quote the message
    if not isinstance(told, dict):
        raise _ForeignMessageError("it is not an object")
    texts = ("command", "object_type", "object", "schema", "table", "statement")
    for name in texts:
        if not isinstance(told.get(name), str if name in texts[:3] else str | None):
            raise _ForeignMessageError(f"{name} is not text")
    for name in ("before", "after"):
        if not _is_table(told.get(name)):
            raise _ForeignMessageError(f"{name} is not a table")
    oid = told.get("oid")
    if not isinstance(oid, int | None) or (
        told.get("table") is not None and (oid is None or told.get("schema") is None)
    ):
        raise _ForeignMessageError("the table has no oid or no schema")
    return {name: told.get(name) for name in (*texts, "before", "after")}, oid


def _is_table(table: Any) -> bool:
    if table is None:
        return True
    return (
        isinstance(table, dict)
        and table.keys() == {"schema", "name", "columns", "key"}
        and isinstance(table["schema"], str)
        and isinstance(table["name"], str)
        and isinstance(table["key"], list)
        and all(isinstance(name, str) for name in table["key"])
        and isinstance(table["columns"], list)
        and all(_is_column(column) for column in table["columns"])
    )


def _is_column(column: Any) -> bool:
    return (
        isinstance(column, dict)
        and column.keys() == {"name", "type", "nullable", "default"}
        and isinstance(column["name"], str)
        and isinstance(column["type"], str)
        and isinstance(column["nullable"], bool | None)
        and isinstance(column["default"], str | None)
    )
