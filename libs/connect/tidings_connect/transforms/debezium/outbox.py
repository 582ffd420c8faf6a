"""The outbox EventRouter: rows of an outbox table become events on topics of their own."""

from typing import Any, Final

from tidings_connect.data.schemas import field_of, get_by_name, is_envelope, require_struct, same_text
from tidings_connect.java.regex import TopicRewriter, regex_problem
from tidings_connect.transforms.config import ConfigSpec, Setting, SettingError, Settings
from tidings_connect.transforms.debezium.outbox_json import JsonExpansion, NotExpandable
from tidings_connect.transforms.record import DataError, Header, SourceRecord, Transform
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_service import get_logger

_PLACEMENTS: Final = ("header", "envelope", "partition")
_PER_MS: Final = {
    semantic.TIMESTAMP.name: 1,
    semantic.MICRO_TIMESTAMP.name: 1_000,
    "io.debezium.time.NanoTimestamp": 1_000_000,
}
_log = get_logger(__name__)


def _placements(items: list[str]) -> str | None:
    for item in items:
        parts = item.split(":")
        if len(parts) not in (2, 3):
            return f"A comma-separated list of valid String pairs or trios is expected but got: {','.join(items)}"
        if parts[1].strip().lower() not in _PLACEMENTS:
            return f"{parts[1].strip()} is none of {', '.join(_PLACEMENTS)}"
    return None


class EventRouter(Transform):
    """See the module."""

    CONFIG = ConfigSpec(
        Setting("table.field.event.id", default="id"),
        Setting("table.field.event.key", default="aggregateid"),
        Setting("table.field.event.type", default="type"),
        Setting("table.field.event.payload", default="payload"),
        Setting("table.field.event.timestamp"),
        Setting("table.fields.additional.placement", "list", check=_placements),
        Setting("table.field.additional.missing", default="error", values=("error", "ignore")),
        Setting("table.field.event.schema.version"),
        Setting("route.by.field", default="aggregatetype"),
        Setting("route.topic.regex", default="(?<routedByValue>.*)", check=regex_problem),
        Setting("route.topic.replacement", default="outbox.event.${routedByValue}"),
        Setting("route.tombstone.on.empty.payload", "boolean", default="false"),
        Setting("table.op.invalid.behavior", default="warn", values=("warn", "error", "fatal")),
        Setting("table.expand.json.payload", "boolean", default="false"),
        Setting("table.json.payload.null.behavior", default="ignore", values=("ignore", "optional_bytes")),
        Setting("table.json.payload.empty.array.behavior", default="ignore", values=("ignore", "optional_string")),
        Setting("tracing.span.context.field", default="tracingspancontext"),
        Setting("tracing.operation.name", default="debezium-read"),
        Setting("tracing.with.context.field.only", "boolean", default="false"),
    )  # fmt: skip

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._id = settings.text("table.field.event.id")
        self._key = settings.text("table.field.event.key")
        self._payload = settings.text("table.field.event.payload")
        self._timestamp = settings.optional("table.field.event.timestamp")
        self._version = settings.optional("table.field.event.schema.version")
        self._route_by = settings.text("route.by.field")
        try:
            self._topic = TopicRewriter(
                settings.text("route.topic.regex"), settings.text("route.topic.replacement")
            )
        except ValueError as error:
            raise SettingError(
                "route.topic.replacement", f"{settings.text('route.topic.replacement')}\0{error}"
            ) from error
        self._tombstones = settings.flag("route.tombstone.on.empty.payload")
        self._on_update = settings.text("table.op.invalid.behavior").lower()
        self._ignore_missing = settings.text("table.field.additional.missing").lower() == "ignore"
        self._expansion: JsonExpansion | None = None
        if settings.flag("table.expand.json.payload"):
            self._expansion = JsonExpansion(
                null_as_bytes=settings.text("table.json.payload.null.behavior").lower() == "optional_bytes",
                empty_as_strings=settings.text("table.json.payload.empty.array.behavior").lower()
                == "optional_string",
            )
        self._additional = [
            (
                parts[1].strip().lower(),
                parts[0].strip(),
                parts[-1].strip() if len(parts) == 3 else parts[0].strip(),
            )
            for parts in (item.split(":") for item in settings.items_of("table.fields.additional.placement"))
        ]
        self._in_envelope = [
            (field, alias) for where, field, alias in self._additional if where == "envelope"
        ]
        self._schemas: dict[Any, ConnectSchema] = {}

    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """See `Transform.apply`."""
        if record.value is None:
            return None
        envelope = record.value_schema
        if envelope is None or not is_envelope(envelope):
            return record
        op = record.value.get("op")
        if op == "d":
            return None
        if op == "u":
            self._report_update(record)
            return None
        after = field_of(envelope, "after")
        if after is None:
            raise DataError("Unknown field: after")
        row = require_struct(after.schema, record.value.get("after"), "Read Outbox Event")
        return self._event(record, after.schema, row)

    def _report_update(self, record: SourceRecord) -> None:
        if self._on_update == "fatal":
            raise DataError("Unexpected update message received, fail.")
        report = _log.warning if self._on_update == "warn" else _log.error
        report("an update of the outbox table was ignored", topic=record.topic)

    def _event(self, record: SourceRecord, schema: ConnectSchema, row: dict[str, Any]) -> SourceRecord:
        payload_field = _field(schema, self._payload, "payload field")
        id_field = _field(schema, self._id, "event-id field")
        timestamp = self._time(record.value, schema, row)
        payload_schema, payload = payload_field.schema, get_by_name(schema, row, self._payload)
        headers = record.headers
        headers.append(Header("id", id_field.schema, get_by_name(schema, row, self._id)))
        if self._expansion is not None and isinstance(payload, str) and payload:
            try:
                payload_schema, payload = self._expansion.expand(self._payload, payload)
            except NotExpandable:
                _log.warning("JSON expansion failed", topic=record.topic)
        route = get_by_name(schema, row, self._route_by)
        if not isinstance(route, str):
            raise DataError(f"field {self._route_by} holds no text to route by")
        value_schema: ConnectSchema | None = payload_schema
        value: Any = payload
        if self._in_envelope:
            value_schema = self._value_schema(payload_schema, schema, row, route)
            value = {"payload": payload}
        partition = self._place(schema, row, headers, value)
        empty = payload is None or (not isinstance(payload, (dict, list, bytes)) and not str(payload).strip())
        if empty and self._tombstones:
            value_schema = value = None
        key_field = field_of(schema, self._key)
        key_schema = key_field.schema if key_field is not None else semantic.STRING
        key = get_by_name(schema, row, self._key)
        topic = self._topic(route)
        return SourceRecord(
            route if topic is None else topic,
            partition,
            key_schema,
            key,
            value_schema,
            value,
            timestamp,
            headers,
        )

    def _place(
        self, schema: ConnectSchema, row: dict[str, Any], headers: list[Header], value: dict[str, Any]
    ) -> int | None:
        """Puts the additional fields where they belong; the partition."""
        partition: int | None = None
        for where, name, alias in self._additional:
            field = field_of(schema, name)
            if field is None and self._ignore_missing:
                continue
            found = get_by_name(schema, row, name)
            assert field is not None
            match where:
                case "envelope":
                    value[alias] = found
                case "header":
                    headers.append(Header(alias, field.schema, found))
                case _:
                    if field.schema.type is not ConnectType.INT32:
                        raise DataError(f"Field '{name}' is not of type INT32")
                    partition = found
        return partition

    def _time(self, envelope: dict[str, Any], schema: ConnectSchema, row: dict[str, Any]) -> int | None:
        """The record's timestamp in milliseconds."""
        now = envelope.get("ts_ms")
        if self._timestamp is None:
            return now
        field = _field(schema, self._timestamp, "timestamp field")
        if field.schema.type is not ConnectType.INT64 or field.schema.name == semantic.CONNECT_TIMESTAMP.name:
            raise DataError(f"Field '{self._timestamp}' is not of type INT64")
        found = get_by_name(schema, row, self._timestamp)
        if found is None:
            return now
        if field.schema.name not in _PER_MS:
            raise DataError(
                f"Unsupported field type {field.schema.name or field.schema.type} for event timestamp"
            )
        per = _PER_MS[field.schema.name]
        return int(found) // per if found >= 0 else -(-int(found) // per)

    def _value_schema(
        self, payload: ConnectSchema, schema: ConnectSchema, row: dict[str, Any], route: str
    ) -> ConnectSchema:
        """The schema of payload and additional fields.

        As in Debezium one is made per payload schema, or per version, and keeps the name of the first topic.
        """
        version = None if self._version is None else get_by_name(schema, row, self._version)
        key = same_text(payload) if self._version is None else version
        known = self._schemas.get(key)
        if known is not None:
            return known
        fields = [Field("payload", payload)]
        for name, alias in self._in_envelope:
            field = field_of(schema, name)
            if field is not None:
                fields.append(Field(alias, field.schema))
            elif not self._ignore_missing:
                raise DataError(f"Unable to find field {name} in event")
        if len(self._schemas) > 10_000:
            self._schemas.clear()
        known = self._schemas[key] = ConnectSchema(
            ConnectType.STRUCT, name=_schema_name(schema.name, route), version=version, fields=tuple(fields)
        )
        return known


def _field(schema: ConnectSchema, name: str, what: str) -> Field:
    field = field_of(schema, name)
    if field is None:
        raise DataError(f"Unable to find {what} {name} in event")
    return field


def _schema_name(original: str | None, route: str) -> str:
    if original is None:
        return route
    head, dot, tail = original.rpartition(".")
    return f"{head}{dot}{route}.{tail}"
