"""What a record asks of an index: Debezium's envelopes, flat records, business events, tombstones. Pure.

A document's version is the offset of its record, so that the server itself refuses what is older than what it has: all records
of a key stand in one partition, and their offsets grow. The place among the source's commits would be two numbers (the commit
and the change in it), and a version is one.
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import orjson

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema
from tidings_envelope.toast import UNAVAILABLE, UNAVAILABLE_UUID, is_unavailable
from tidings_sinks.converting import Convert
from tidings_sinks.documents import Mapped, encoded, field_of
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.search import options as names
from tidings_sinks.search.settings import Nulls, Settings, Strategy

_ENVELOPE: Final = frozenset({"before", "after", "op", "source"})
_MOST_ID_BYTES: Final = 512
_MOST_SHAPES: Final = 1000
_TEXT, _BASE64, _UUID, _NUMBERS = (
    UNAVAILABLE.encode(),
    b64encode(UNAVAILABLE.encode()).rstrip(b"="),
    UNAVAILABLE_UUID.encode(),
    b",".join(str(byte).encode() for byte in UNAVAILABLE.encode()),
)
"""One of them is in a document that has a placeholder."""
_MISFITS: Final = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, OverflowError)


class Act(StrEnum):
    """What is done, by the name of the bulk API."""

    INDEX = "index"
    CREATE = "create"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a schema makes of its values."""

    schema: ConnectSchema | None
    """Held, as it is found by its identity."""
    mapping: Mapped | None
    """The properties of documents; None where the server decides."""
    convert: Convert | None


@dataclass(slots=True)
class Operation:
    """One operation of a bulk request."""

    record: SinkRecord
    act: Act
    target: str
    """The name of the index or of the data stream."""
    shape: Shape
    id: str | None = None
    """None: the server makes one."""
    version: int | None = None
    routing: str | None = None
    document: bytes = field(default=b"", repr=False)
    missing: tuple[str, ...] = ()
    """Fields whose values were not sent: they stay as they are."""
    merges: bool = False
    """Whether the document is put over the one that is there."""
    unique: bool = False
    """Whether no other record has its id, but one that says the same."""

    @property
    def needs_present(self) -> bool:
        """Whether the document that is there has to be known."""
        return self.merges or bool(self.missing)

    @property
    def place(self) -> tuple[str, str | None]:
        """What tells the document from others."""
        return self.target, self.id

    def lines(self) -> bytes:
        """Its part of a request's body."""
        action: dict[str, Any] = {"_index": self.target}
        if self.id is not None:
            action["_id"] = self.id
        if self.routing is not None:
            action["routing"] = self.routing
        if self.version is not None:
            action["version"], action["version_type"] = self.version, "external"
        head = orjson.dumps({self.act.value: action})
        return head + b"\n" if self.act is Act.DELETE else b"%b\n%b\n" % (head, self.document)


class Operations:
    """Reads records."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._shapes: dict[int, Shape] = {}
        self._topics: dict[str, tuple[str, Strategy]] = {}
        self._times = settings.streams and settings.stream_time == "@timestamp"
        self._adds = self._times or bool(settings.headers)
        self._routes = settings.routes_by_key or settings.routing_path is not None
        self._act = Act.CREATE if settings.streams else Act.INDEX

    def read(self, record: SinkRecord) -> Operation | None:
        """What a record asks for; None: nothing.

        Raises:
            RowError: it is none that an index can take.
            TargetError: its topic has no target.
        """
        row, schema = record.value, record.value_schema
        if self._settings.envelopes and isinstance(row, Mapping) and _ENVELOPE.issubset(row):
            row, schema, wanted = _of_envelope(row, schema)
            if not wanted:
                return None
        if row is None:
            return self._delete(record)
        if not isinstance(row, Mapping):
            raise RowError("the value is not a struct, so that it has no fields")
        return self._write(record, row, schema)

    def _delete(self, record: SinkRecord) -> Operation | None:
        settings = self._settings
        if settings.nulls is Nulls.FAIL:
            raise RowError(f"the record has no value, and {names.NULLS} is fail")
        target, strategy = self._topic(record.topic)
        if settings.nulls is Nulls.IGNORE or strategy is not Strategy.KEY or record.key is None:
            return None  # of another id than the key's there is nothing to delete
        routing = self._key_text(record) if settings.routes_by_key else None
        return Operation(record, Act.DELETE, target, _NOTHING, self._key_text(record), record.offset, routing)

    def _write(self, record: SinkRecord, row: Mapping[str, Any], schema: ConnectSchema | None) -> Operation:
        shape = self._shape(schema)
        try:
            converted = row if shape.convert is None else shape.convert(row)
        except _MISFITS as error:
            raise RowError(f"a value does not fit its schema ({type(error).__name__})") from None
        document = encoded(converted)
        missing: tuple[str, ...] = ()
        if _TEXT in document or _BASE64 in document or _UUID in document or _NUMBERS in document:
            missing = tuple(name for name, value in row.items() if is_unavailable(value))
        more = self._added(record, converted) if self._adds else {}
        if missing or more:
            document = encoded(
                {name: value for name, value in converted.items() if name not in missing} | more
            )
        target, strategy = self._topic(record.topic)
        found = self._key_text(record) if strategy is Strategy.KEY else self._id(record, strategy)
        versioned = found is not None and self._act is Act.INDEX
        return Operation(
            record,
            self._act,
            target,
            shape,
            found,
            record.offset if versioned else None,
            self._routing(record, converted) if self._routes else None,
            document,
            missing if versioned else (),
            merges=self._settings.upserts and versioned,
            unique=strategy is not Strategy.KEY,
        )

    # The document

    def _shape(self, schema: ConnectSchema | None) -> Shape:
        if schema is None:
            return _NOTHING
        known = self._shapes.get(id(schema))
        if known is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            mapped, convert = field_of(schema, compact=self._settings.compact)
            known = self._shapes[id(schema)] = Shape(schema, mapped, convert)
        return known

    def _added(self, record: SinkRecord, document: Mapping[str, Any]) -> dict[str, Any]:
        """Fields beside those of the value."""
        settings = self._settings
        found: dict[str, Any] = {}
        if settings.headers:
            values = {header.key: header.value for header in record.headers}
            found = {name: values[name] for name in settings.headers if name in values}
        if self._times and "@timestamp" not in document:
            if record.timestamp is None:
                raise RowError("the record has no time, and its value no @timestamp")
            found["@timestamp"] = record.timestamp
        return found

    # Where it goes

    def _topic(self, topic: str) -> tuple[str, Strategy]:
        """A topic's target, and what identifies its documents."""
        known = self._topics.get(topic)
        if known is None:
            named = self._settings.target(topic)
            if not named:
                raise TargetError(f"topic {topic} has no target", hint=f"name one in {names.RESOURCES}")
            known = self._topics[topic] = named, self._settings.strategy_of(topic)
        return known

    def _id(self, record: SinkRecord, strategy: Strategy) -> str | None:
        match strategy:
            case Strategy.NONE:
                return None
            case Strategy.PLACE:
                return f"{record.topic}+{record.original.partition}+{record.offset}"
            case _:
                wanted = self._settings.id_header
                value = next((header.value for header in record.headers if header.key == wanted), None)
                if value is None:
                    raise RowError(f"the record has no header {wanted}, which {names.ID_HEADER} names")
                return _id_of(value, f"the header {wanted}")

    def _key_text(self, record: SinkRecord) -> str:
        if record.key is None:
            raise RowError(
                f"the record has no key; {names.KEY_IGNORE}=true identifies documents by the offset"
            )
        return _id_of(record.key, "the key")

    def _routing(self, record: SinkRecord, document: Mapping[str, Any]) -> str | None:
        if self._settings.routes_by_key:
            return self._key_text(record)
        if self._settings.routing_path is None:
            return None
        found: Any = document
        for step in self._settings.routing_path:
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            elif isinstance(found, Mapping) and step in found:
                found = found[step]
            else:
                raise RowError(f"the value has no field that {names.ROUTING_PATH} names")
        if isinstance(found, bool) or not isinstance(found, str | int | float | Decimal) or found == "":
            raise RowError(f"the field that {names.ROUTING_PATH} names is not a text or a number")
        return format(found, "f") if isinstance(found, Decimal) else str(found)


_NOTHING: Final = Shape(None, None, None)


def _of_envelope(
    value: Mapping[str, Any], schema: ConnectSchema | None
) -> tuple[Mapping[str, Any] | None, ConnectSchema | None, bool]:
    """The row after a change, None of a delete, its schema, and whether there is a change of a row at all."""
    op = value["op"]
    if op == "d":
        return None, None, True
    if op == "m":
        return None, None, False
    if op == "t":
        raise RowError("the envelope is a TRUNCATE, which is not done to an index")
    if op not in ("c", "r", "u") or not isinstance(value["after"], Mapping):
        raise RowError("the envelope has no op of a row, or no row after it")
    if schema is None:
        return value["after"], None, True
    return value["after"], next(field.schema for field in schema.fields if field.name == "after"), True


def _id_of(value: Any, where: str) -> str:
    """A document's id: text and numbers as they are, a struct's one field, or the list of a struct's fields in JSON."""
    if isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()
    if type(value) is int:
        return str(value)
    if isinstance(value, str):
        text = value
    elif isinstance(value, int | Decimal):
        text = _json_text(value)
    elif isinstance(value, Mapping) and value:
        text = _json_text(list(value.values()))
    else:
        raise RowError(
            f"{where} is not a text, a whole number or a struct of such, so that it identifies no document"
        )
    if not 0 < len(text.encode()) <= _MOST_ID_BYTES:
        raise RowError(f"{where} is empty, or longer than the {_MOST_ID_BYTES} bytes that an id has")
    return text


def _json_text(value: Any) -> str:
    """A value as JSON."""
    return encoded(value).decode()
