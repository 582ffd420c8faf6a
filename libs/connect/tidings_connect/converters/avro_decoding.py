"""Avro schemas as Connect schemas, and values read by fastavro as Connect's: what ``AvroData.toConnectData`` does.

Specified by ``io.confluent.connect.avro.AvroData`` with its default settings; the other way: `tidings_envelope.avro.schema`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from tidings_connect.converters.avro_reading import MISREAD, Reader, compile_reader
from tidings_connect.converters.decoding import Decoded, text_parameters
from tidings_connect.data.columns import MOST_BYTES, StructColumn
from tidings_connect.data.errors import DataError
from tidings_envelope.avro.shape import check_bounded
from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_from_bytes
from tidings_envelope.errors import DecodeError, UnknownSchemaError
from tidings_envelope.registry import RegistryClient
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_envelope.wire import HEADER_BYTES, header, split

if TYPE_CHECKING:
    from tidings_connect.converters.avro_batches import BatchReader

_Convert = Callable[[Any], Any]
_TYPES: Final = {
    "boolean": ConnectType.BOOLEAN,
    "int": ConnectType.INT32,
    "long": ConnectType.INT64,
    "float": ConnectType.FLOAT32,
    "double": ConnectType.FLOAT64,
    "bytes": ConnectType.BYTES,
    "fixed": ConnectType.BYTES,
    "string": ConnectType.STRING,
    "enum": ConnectType.STRING,
    "array": ConnectType.ARRAY,
    "map": ConnectType.MAP,
    "record": ConnectType.STRUCT,
}
_LOGICAL: Final = {
    ("int", "date"): "org.apache.kafka.connect.data.Date",
    ("int", "time-millis"): "org.apache.kafka.connect.data.Time",
    ("long", "timestamp-millis"): "org.apache.kafka.connect.data.Timestamp",
}
_ENUM: Final = "io.confluent.connect.avro.Enum"
_FEWEST: Final = 64
"""Messages of one schema that are read at once: fewer take longer so than one by one."""
_MOST_BYTES: Final = 1 << 20
"""Of messages whose values are made at once, for which some ten times as much memory is needed."""
_MAP_ENTRY: Final = "io.confluent.connect.avro.MapEntry"
_NO_SCHEMA: Final = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


def _same(value: Any) -> Any:
    return value


@dataclass(slots=True)
class _Known:
    """A schema, and what reads its messages."""

    parsed: Any
    schema: ConnectSchema
    reader: Reader
    convert: _Convert | None
    many: "dict[frozenset[str] | None, BatchReader]"
    """What reads many of them, by the fields that are wanted; made when there are many."""


class AvroDecoder:
    """Decodes Confluent's wire format."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._known: dict[bytes, _Known] = {}
        """By the bytes before the body."""

    def __call__(self, data: bytes | None) -> Decoded:
        """Schema and value; neither of null.

        Raises:
            DataError: the bytes are not in that format, or their schema is none of Connect's.
            RegistryError: the registry could not be asked.
        """
        if data is None:
            return None, None
        known = self._known.get(data[:HEADER_BYTES]) or self._looked_up(data)
        try:
            value, end = known.reader(data, HEADER_BYTES)
            if end != len(data):
                raise DataError(_misfit(data, end))
            return known.schema, value if known.convert is None else known.convert(value)
        except (*MISREAD, DecodeError):
            raise DataError(_misfit(data)) from None

    def many(
        self, messages: Sequence[bytes | None], reads: frozenset[str] | None = None
    ) -> list[Decoded] | None:
        """The same of many; None where one of them has to be named that cannot be decoded.

        Args:
            reads: the fields of envelopes that are wanted, such as ``after`` and ``source.ts_us``; values may lack the others.
                None: all.

        Raises:
            DataError, RegistryError: as above.
        """
        groups: dict[bytes, list[bytes]] = {}
        for message in messages:
            if message is not None:
                groups.setdefault(message[:HEADER_BYTES], []).append(message)
        try:
            found = {start: self._of_schema(start, group, reads) for start, group in groups.items()}
            if len(found) == 1 and sum(map(len, groups.values())) == len(messages):
                return list(*found.values())
            return [
                (None, None) if message is None else next(found[message[:HEADER_BYTES]])
                for message in messages
            ]
        except (*MISREAD, DecodeError):
            return None

    def structs(
        self, messages: Sequence[bytes], reads: frozenset[str] | None = None
    ) -> tuple[ConnectSchema, StructColumn] | None:
        """The same of structs of one schema, field by field; None where they are of several, few, or too many at once.

        Raises:
            DataError, RegistryError: as above.
        """
        if len(messages) < _FEWEST or sum(map(len, messages)) > MOST_BYTES:
            return None
        start = messages[0][:HEADER_BYTES]
        if not all(message.startswith(start) for message in messages):
            return None
        known = self._known.get(start) or self._looked_up(messages[0])
        if known.convert is not None:
            return None
        try:
            found = self._reader_of_many(known, reads).column(messages, HEADER_BYTES)
        except MISREAD:
            return None
        return (known.schema, found) if isinstance(found, StructColumn) else None

    def _of_schema(
        self, start: bytes, messages: Sequence[bytes], reads: frozenset[str] | None
    ) -> Iterator[Decoded]:
        """Those of messages of one schema."""
        known = self._known.get(start) or self._looked_up(messages[0])
        for some in _parts(messages):
            if len(some) < _FEWEST:
                yield from map(self, some)
                continue
            values = self._reader_of_many(known, reads)(some, HEADER_BYTES)
            if known.convert is not None:
                values = [known.convert(value) for value in values]
            yield from zip(repeat(known.schema, len(some)), values, strict=True)

    def _reader_of_many(self, known: _Known, reads: frozenset[str] | None) -> "BatchReader":
        many = known.many.get(reads)
        if many is None:
            from tidings_connect.converters.avro_batches import BatchReader  # noqa: PLC0415 - numpy takes memory

            many = known.many[reads] = BatchReader(known.parsed, reads if known.convert is None else None)
        return many

    def _looked_up(self, data: bytes) -> _Known:
        try:
            schema_id, _ = split(data[:HEADER_BYTES])
            found = self._known[header(schema_id)] = self._made(schema_id)
        except (DecodeError, UnknownSchemaError) as error:
            raise DataError(str(error)) from None
        return found

    def _made(self, schema_id: int) -> _Known:
        what = f"schema {schema_id}"
        parsed = self._registry.schema_by_id(schema_id)
        try:
            check_bounded(parsed, what)
            schema, convert = _Reader().read(parsed)
            return _Known(parsed, schema, compile_reader(parsed), None if convert is _same else convert, {})
        except _NO_SCHEMA:
            raise DataError(f"{what} is none of Connect's") from None


def _parts(messages: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Parts of so many bytes as are read at once."""
    if sum(map(len, messages)) <= _MOST_BYTES:
        yield messages
        return
    start = size = 0
    for place, message in enumerate(messages):
        if size and size + len(message) > _MOST_BYTES:
            yield messages[start:place]
            start, size = place, 0
        size += len(message)
    yield messages[start:]


def _misfit(data: bytes, end: int = 0) -> str:
    """What is wrong with a body; where it has more bytes than a value, how many."""
    schema_id, _ = split(data[:HEADER_BYTES])
    if 0 < end < len(data):
        return f"{len(data) - end} bytes too many for schema {schema_id}"
    return f"the body does not follow schema {schema_id}"


class _Reader:
    """Walks one schema, whose named types may be referred to."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[ConnectSchema, _Convert]] = {}

    def read(self, avro: Any) -> tuple[ConnectSchema, _Convert]:
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            known = self._named.get(avro)
            return known if known is not None else (ConnectSchema(_TYPES[avro]), _same)
        if isinstance(avro["type"], dict | list):
            return self.read(avro["type"])
        schema, convert = self._base(avro)
        schema = _described(schema, avro)
        if avro["type"] in {"record", "enum", "fixed"}:
            self._named[avro["name"]] = schema, convert
        default = avro.get("connect.default")
        return (schema if default is None else replace(schema, default=_default(schema, default))), convert

    def _union(self, branches: list[Any]) -> tuple[ConnectSchema, _Convert]:
        present = [branch for branch in branches if branch != "null"]
        if len(present) != 1:
            raise DataError("a union of several types has no counterpart here")
        schema, convert = self.read(present[0])
        if len(branches) == 1:
            return schema, convert
        if convert is _same:
            return schema.as_optional(), _same
        return schema.as_optional(), lambda value: None if value is None else convert(value)

    def _base(self, avro: Mapping[str, Any]) -> tuple[ConnectSchema, _Convert]:
        kind = avro["type"]
        match kind:
            case "record":
                return self._record(avro)
            case "array":
                return self._array(avro)
            case "map":
                item, convert = self.read(avro["values"])
                made = ConnectSchema(ConnectType.MAP, keys=ConnectSchema(ConnectType.STRING), items=item)
                if convert is _same:
                    return made, _same
                return made, lambda value: {key: convert(each) for key, each in value.items()}
            case "enum":
                symbols = {f"{_ENUM}.{symbol}": symbol for symbol in avro["symbols"]}
                return ConnectSchema(ConnectType.STRING, parameters={_ENUM: avro["name"], **symbols}), _same
        logical = avro.get("logicalType")
        if logical == "decimal":
            scale = str(avro.get("scale", 0))
            precision = avro.get("precision")
            parameters = {"scale": scale}
            if precision is not None and precision != 64:
                parameters["connect.decimal.precision"] = str(precision)
            return ConnectSchema(
                ConnectType.BYTES, name=CONNECT_DECIMAL, version=1, parameters=parameters
            ), _same
        name = _LOGICAL.get((kind, str(logical)))
        narrow = avro.get("connect.type")
        return ConnectSchema(
            ConnectType(narrow) if kind == "int" and narrow in {"int8", "int16"} else _TYPES[kind],
            name=name,
            version=None if name is None else 1,
        ), _same

    def _array(self, avro: Mapping[str, Any]) -> tuple[ConnectSchema, _Convert]:
        item, convert = self.read(avro["items"])
        named = avro["items"].get("name") if isinstance(avro["items"], dict) else avro["items"]
        if named == _MAP_ENTRY:
            key, value = (field.schema for field in item.fields)
            return ConnectSchema(ConnectType.MAP, keys=key, items=value), lambda entries: {
                entry["key"]: entry["value"] for entry in map(convert, entries)
            }
        made = ConnectSchema(ConnectType.ARRAY, items=item)
        return made, _same if convert is _same else lambda items: [convert(each) for each in items]

    def _record(self, avro: Mapping[str, Any]) -> tuple[ConnectSchema, _Convert]:
        fields, converts = [], []
        for field in avro["fields"]:
            schema, convert = self.read(field["type"])
            default = field.get("default")
            if default is not None and "connect.default" not in (
                field["type"] if isinstance(field["type"], dict) else {}
            ):
                schema = replace(schema, default=_default(schema, default))
            if schema.doc is None and isinstance(field.get("doc"), str):
                schema = replace(schema, doc=field["doc"])
            fields.append(Field(field["name"], schema))
            converts.append((field["name"], convert))
        made = ConnectSchema(ConnectType.STRUCT, name=avro["name"], fields=tuple(fields))
        if all(convert is _same for _, convert in converts):
            return made, _same
        return made, lambda value: {name: convert(value[name]) for name, convert in converts}


def _described(schema: ConnectSchema, avro: Mapping[str, Any]) -> ConnectSchema:
    """With what an Avro schema says of Connect's."""
    version = avro.get("connect.version")
    doc = avro.get("connect.doc", avro.get("doc"))
    return replace(
        schema,
        name=avro.get("connect.name", schema.name),
        version=version if isinstance(version, int) else schema.version,
        doc=doc if isinstance(doc, str) else None,
        parameters={**schema.parameters, **text_parameters(avro.get("connect.parameters"))},
    )


def _default(schema: ConnectSchema, value: Any) -> Any:
    if schema.name == CONNECT_DECIMAL and isinstance(value, str):
        return decimal_from_bytes(value.encode("latin-1"), int(schema.parameters["scale"]))
    if schema.type is ConnectType.BYTES and isinstance(value, str):
        return value.encode("latin-1")
    if schema.type in (ConnectType.FLOAT32, ConnectType.FLOAT64):
        return float(value)
    if schema.type is ConnectType.STRUCT and isinstance(value, dict):
        return {
            field.name: None if (item := value.get(field.name)) is None else _default(field.schema, item)
            for field in schema.fields
        }
    return value
