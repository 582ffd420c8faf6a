"""Connect schemas as Avro schemas, as Confluent's and Apicurio's AvroConverter derive them.

Specified by ``io.confluent.connect.avro.AvroData`` with its default settings (``connect.meta.data`` on, ``enhanced``
schemas off): what Avro lacks is kept in properties (``connect.name``, ``connect.version``, ``connect.parameters``,
``connect.default``, ``connect.type``), named structs are records with the name's last part as name, a record that
occurs again is referred to by name, and an optional schema is a union with null, which stands first unless there is a
default. The text is what Avro's Java library writes, so that registries see one schema where there is one.
"""

import re
from typing import Any, Final

from tidings_envelope.decimals import CONNECT_DECIMAL, decimal_to_bytes
from tidings_envelope.errors import SchemaError
from tidings_envelope.java.numbers import double_json, float_json
from tidings_envelope.json_codec import string_json
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType

DEFAULT_PRECISION: Final = 64
"""The precision of a Decimal that does not say ``connect.decimal.precision``."""

_PRIMITIVES: Final = {
    ConnectType.INT8: "int",
    ConnectType.INT16: "int",
    ConnectType.INT32: "int",
    ConnectType.INT64: "long",
    ConnectType.FLOAT32: "float",
    ConnectType.FLOAT64: "double",
    ConnectType.BOOLEAN: "boolean",
    ConnectType.STRING: "string",
    ConnectType.BYTES: "bytes",
}
_LOGICAL_TYPES: Final = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEFAULT_NAMESPACE: Final = "io.confluent.connect.avro"
_MAP_ENTRY: Final = f"{_DEFAULT_NAMESPACE}.MapEntry"


def avro_schema_json(schema: ConnectSchema, *, any_names: bool = False) -> str:
    """The Avro schema as text.

    Args:
        any_names: also names that Avro does not allow, as Kafka Connect's converters write them; a registry may refuse them.

    Raises:
        SchemaError: a name that Avro does not allow, or a type it cannot represent.
    """
    return _Writer(any_names=any_names).schema(schema, None).decode()


class _Writer:
    """Writes one schema and remembers which records it has already defined."""

    def __init__(self, *, any_names: bool) -> None:
        self._any_names = any_names
        self._defined: dict[str, ConnectSchema] = {}

    def schema(self, schema: ConnectSchema, namespace: str | None) -> bytes:
        base = self._base(schema, namespace)
        if not schema.optional:
            return base
        return b"[" + base + b',"null"]' if schema.default is not NO_DEFAULT else b'["null",' + base + b"]"

    def _base(self, schema: ConnectSchema, namespace: str | None) -> bytes:
        if schema.type is ConnectType.STRUCT:
            return self._record(schema, namespace)
        properties = self._properties(schema)
        if schema.type is ConnectType.ARRAY:
            head = b'"type":"array","items":' + self.schema(_required(schema.items), namespace)
        elif schema.type is ConnectType.MAP:
            if schema.keys is None or schema.keys.type is not ConnectType.STRING or schema.keys.optional:
                head = b'"type":"array","items":' + self._entry(schema, namespace)
            else:
                head = b'"type":"map","values":' + self.schema(_required(schema.items), namespace)
        elif properties:
            head = b'"type":"' + _PRIMITIVES[schema.type].encode() + b'"'
        else:
            return b'"' + _PRIMITIVES[schema.type].encode() + b'"'
        return b"{" + b",".join([head, *properties]) + b"}"

    def _record(self, schema: ConnectSchema, namespace: str | None) -> bytes:
        full_name = schema.name or f"{_DEFAULT_NAMESPACE}.ConnectDefault"
        space, _, name = full_name.rpartition(".")
        if not self._any_names:
            for part in (*space.split("."), name) if space else (name,):
                _check_name(part, f"the schema name {full_name!r}")
        if full_name in self._defined:
            return b'"' + (name if space == (namespace or "") else full_name).encode() + b'"'
        self._defined[full_name] = schema
        parts = [b'"type":"record"', b'"name":"' + name.encode() + b'"']
        if space != (namespace or ""):
            parts.append(b'"namespace":"' + space.encode() + b'"')
        fields = b",".join(self._field(field.name, field.schema, space) for field in schema.fields)
        parts.append(b'"fields":[' + fields + b"]")
        return b"{" + b",".join([*parts, *self._properties(schema)]) + b"}"

    def _entry(self, schema: ConnectSchema, namespace: str | None) -> bytes:
        """The record of key and value that a map's entries are where its keys are not strings; it has no
        ``connect.name``."""
        space, _, name = _MAP_ENTRY.rpartition(".")
        head = b'"type":"record","name":"' + name.encode() + b'"'
        if space != (namespace or ""):
            head += b',"namespace":"' + space.encode() + b'"'
        key = self._field("key", _required(schema.keys), space)
        value = self._field("value", _required(schema.items), space)
        return b"{" + head + b',"fields":[' + key + b"," + value + b"]}"

    def _field(self, name: str, schema: ConnectSchema, namespace: str) -> bytes:
        if not self._any_names:
            _check_name(name, f"the field name {name!r}")
        text = b'{"name":"' + name.encode() + b'","type":' + self.schema(schema, namespace)
        if schema.default is not NO_DEFAULT:
            text += b',"default":' + _default(schema, schema.default)
        elif schema.optional:
            text += b',"default":null'
        return text + b"}"

    def _properties(self, schema: ConnectSchema) -> list[bytes]:
        """Everything beside the type, in the order in which AvroData adds it."""
        is_decimal = schema.name == CONNECT_DECIMAL
        properties = []
        if is_decimal:
            precision = int(schema.parameters.get("connect.decimal.precision", DEFAULT_PRECISION))
            properties += [b'"scale":%d' % int(schema.parameters["scale"]), b'"precision":%d' % precision]
        if schema.doc is not None:
            properties.append(b'"connect.doc":' + string_json(schema.doc))
        if schema.version is not None:
            properties.append(b'"connect.version":%d' % schema.version)
        if schema.parameters:
            parameters = b",".join(
                string_json(k) + b":" + string_json(v) for k, v in schema.parameters.items()
            )
            properties.append(b'"connect.parameters":{' + parameters + b"}")
        if schema.default is not NO_DEFAULT:
            properties.append(b'"connect.default":' + _default(schema, schema.default))
        if schema.name is not None:
            properties.append(b'"connect.name":' + string_json(schema.name))
        if schema.type in (ConnectType.INT8, ConnectType.INT16):
            properties.append(b'"connect.type":"' + schema.type.value.encode() + b'"')
        if is_decimal:
            properties.append(b'"logicalType":"decimal"')
        elif schema.name in _LOGICAL_TYPES:
            properties.append(b'"logicalType":"' + _LOGICAL_TYPES[schema.name].encode() + b'"')
        return properties


def _default(schema: ConnectSchema, value: Any) -> bytes:
    """A default value in a schema's JSON; bytes are text of one character per byte."""
    if schema.name == CONNECT_DECIMAL:
        return string_json(decimal_to_bytes(value, int(schema.parameters["scale"])).decode("latin-1"))
    if schema.type is ConnectType.BYTES:
        return string_json(value.decode("latin-1"))
    if schema.type is ConnectType.STRING:
        return string_json(value)
    if schema.type is ConnectType.BOOLEAN:
        return b"true" if value else b"false"
    if schema.type is ConnectType.FLOAT64:
        return double_json(value)
    if schema.type is ConnectType.FLOAT32:
        return float_json(value)
    if schema.type is ConnectType.ARRAY:
        return b"[" + b",".join(_default(_required(schema.items), item) for item in value) + b"]"
    if schema.type in _PRIMITIVES:
        return b"%d" % value
    raise SchemaError(f"a default value of type {schema.type} is not supported in Avro")


def _required(schema: ConnectSchema | None) -> ConnectSchema:
    if schema is None:
        raise SchemaError("an array or map needs the schema of its items")
    return schema


def _check_name(name: str, what: str) -> None:
    if not _NAME.match(name):
        raise SchemaError(
            f"{what} is not allowed in Avro: names are letters, digits and underscores",
            hint="set schema.name.adjustment.mode and field.name.adjustment.mode to avro, leave the column or table out"
            " (column.exclude.list, table.exclude.list), or use the JSON converter",
        )
