"""What converters read: the other way round from what they write, and nothing that they do not write."""

import json
from decimal import Decimal
from typing import Any

import pytest

from tidings_connect.converters.avro_decoding import AvroDecoder
from tidings_connect.converters.encoding import AvroConverter, converter_table, make_converter
from tidings_connect.converters.options import ConverterError
from tidings_connect.data.errors import DataError
from tidings_connect.testing.memory_registry import MemoryRegistry
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_envelope.wire import header

JSON = "org.apache.kafka.connect.json.JsonConverter"
STORAGE, CONVERTERS = "org.apache.kafka.connect.storage.", "org.apache.kafka.connect.converters."
INT, TEXT = ConnectSchema(ConnectType.INT32), ConnectSchema(ConnectType.STRING)
INNER = ConnectSchema(
    ConnectType.STRUCT, name="a.Inner", fields=(Field("n", ConnectSchema(ConnectType.INT16)),)
)
SCHEMA = ConnectSchema(
    ConnectType.STRUCT,
    name="a.Row",
    version=3,
    doc="a row",
    parameters={"p": "1"},
    fields=(
        Field("tiny", ConnectSchema(ConnectType.INT8)),
        Field("big", ConnectSchema(ConnectType.INT64, optional=True)),
        Field("float", ConnectSchema(ConnectType.FLOAT32)),
        Field("double", ConnectSchema(ConnectType.FLOAT64, optional=True, default=1.5)),
        Field("flag", ConnectSchema(ConnectType.BOOLEAN)),
        Field("text", ConnectSchema(ConnectType.STRING, default="x")),
        Field("bytes", ConnectSchema(ConnectType.BYTES, optional=True)),
        Field(
            "money",
            ConnectSchema(ConnectType.BYTES, name=CONNECT_DECIMAL, version=1, parameters={"scale": "2"}),
        ),
        Field("day", ConnectSchema(ConnectType.INT32, name="org.apache.kafka.connect.data.Date", version=1)),
        Field("list", ConnectSchema(ConnectType.ARRAY, items=TEXT.as_optional(), optional=True)),
        Field("map", ConnectSchema(ConnectType.MAP, keys=TEXT, items=INT)),
        Field("numbers", ConnectSchema(ConnectType.MAP, keys=INT, items=TEXT)),
        Field("inner", INNER.as_optional()),
        Field("again", INNER),
    ),
)
VALUE: dict[str, Any] = {
    "tiny": -128,
    "big": None,
    "float": 0.5,
    "double": 2.25,
    "flag": True,
    "text": "ä\0\U0001f600",
    "bytes": b"\x00\xff",
    "money": Decimal("-12345678901234567890.12"),
    "day": 19000,
    "list": ["a", None],
    "map": {"k": 1},
    "numbers": {7: "seven"},
    "inner": None,
    "again": {"n": 5},
}


def converter(class_name: str, **options: str) -> Any:
    given = {f"value.converter.{name.replace('_', '.')}": value for name, value in options.items()}
    return make_converter({"value.converter": class_name, **given}, is_key=False)


@pytest.mark.parametrize(
    "made",
    [
        converter(JSON),
        converter(JSON, decimal_format="NUMERIC"),
        AvroConverter(MemoryRegistry(), is_key=False),  # type: ignore[arg-type]
    ],
    ids=["json", "numeric", "avro"],
)
def test_what_is_written_with_a_schema_is_read_back(made: Any) -> None:
    data = made.encoder("t", SCHEMA)(VALUE)
    schema, value = made.decode("t", data)
    assert value == VALUE
    assert schema == SCHEMA
    assert made.decode("t", None) == (None, None)


def test_json_without_schemas_is_read_as_it_stands() -> None:
    made = converter(JSON, schemas_enable="false")
    assert made.decode("t", b'{"a":[1,2.5,"x",null,true],"b":123456789012345678901}') == (
        None,
        {"a": [1, 2.5, "x", None, True], "b": 123456789012345678901},
    )


@pytest.mark.parametrize(
    ("class_name", "value", "data"),
    [
        (f"{STORAGE}StringConverter", "ä", "ä".encode()),
        (f"{CONVERTERS}ByteArrayConverter", b"\xff", b"\xff"),
        (f"{CONVERTERS}LongConverter", -2, b"\xff" * 7 + b"\xfe"),
        (f"{CONVERTERS}IntegerConverter", 1, b"\0\0\0\x01"),
        (f"{CONVERTERS}ShortConverter", 1, b"\0\x01"),
        (f"{CONVERTERS}DoubleConverter", 1.0, b"\x3f\xf0" + b"\0" * 6),
        (f"{CONVERTERS}FloatConverter", 1.0, b"\x3f\x80\0\0"),
        (f"{CONVERTERS}BooleanConverter", True, b"\x01"),
    ],
)
def test_plain_converters(class_name: str, value: object, data: bytes) -> None:
    assert class_name in converter_table()
    made = converter(class_name)
    schema, found = made.decode("t", data)
    assert (found, type(found)) == (value, type(value))
    assert schema is not None
    assert schema.optional
    assert made.encoder("t", schema)(value) == data
    assert made.decode("t", None) == (schema, None)
    with pytest.raises(ConverterError, match="cannot write rows"):
        made.frame("t", SCHEMA)


def test_text_of_structs_is_javas() -> None:
    made = converter(f"{STORAGE}StringConverter")
    text = made.encoder("t", SCHEMA)({**VALUE, "text": "x", "bytes": None}).decode()
    assert text == (
        "Struct{tiny=-128,float=0.5,double=2.25,flag=true,text=x,money=-12345678901234567890.12,day=2022-01-08,"
        "list=[a, null],map={k=1},numbers={7=seven},again=Struct{n=5}}"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"{secret",
        b'{"schema":null}',
        b'{"schema":null,"payload":1,"more":2}',
        b'{"schema":{"type":"secret"},"payload":1}',
        b'{"schema":{"type":"int32"},"payload":"secret"}',
        b'{"schema":{"type":"int8"},"payload":200}',
        b'{"schema":{"type":"struct","fields":[{"type":"int32","field":"secret_name"}]},"payload":{}}',
        b'{"schema":{"type":"array"},"payload":[]}',
        b"\xff",
    ],
)
def test_what_json_cannot_be_is_refused_without_its_values(data: bytes) -> None:
    with pytest.raises(DataError) as caught:
        converter(JSON).decode("t", data)
    assert "secret" not in str(caught.value).replace("secret_name", "")


@pytest.mark.parametrize(
    "data", [b"", b"\0\0", b"{}{}{}", header(1) + b"\x01secret", header(1) + b"\x02" * 20]
)
def test_what_avro_cannot_be_is_refused_without_its_values(data: bytes) -> None:
    registry = MemoryRegistry()
    registry.register("t-value", '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}')
    with pytest.raises(DataError) as caught:
        AvroDecoder(registry)(data)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


def test_schemas_that_others_have_written() -> None:
    registry = MemoryRegistry()
    registry.register(
        "t-value",
        json.dumps(
            {
                "type": "record",
                "name": "shop.Order",
                "doc": "an order",
                "fields": [
                    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "note", "type": ["null", "string"], "default": None},
                    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
                ],
            }
        ),
    )
    schema, value = AvroDecoder(registry)(header(1) + b"\x02" + b"\x04" + b"\x00" + b"ab")  # type: ignore[arg-type]
    assert value == {"state": "DONE", "at": 2, "note": None, "hash": b"ab"}
    assert schema is not None
    assert (schema.name, schema.doc) == ("shop.Order", "an order")
    assert schema.fields[1].schema.name == "org.apache.kafka.connect.data.Timestamp"
    assert schema.fields[2].schema.optional


def test_a_schema_that_comes_again_is_known_and_what_follows_it_is_still_looked_at() -> None:
    made = converter(JSON)
    begins = b'{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"}]},"payload":'
    for number in (1, 2):
        assert made.decode("t", begins + b'{"a":%d}}' % number)[1] == {"a": number}
    for ends in (
        b'{"a":1}',
        b'{"a":1]',
        b'{"a":1}]',
        b'{"a":1}},',
        b'{"a":1},"more":1}',
        b'{"a":"x"}}',
        b'{"a":1.5}}',
        b"}",
        b"null}",
    ):
        with pytest.raises(DataError):
            made.decode("t", begins + ends)
    assert made.decode("t", begins + b' {"a":3} } ')[1] == {"a": 3}
    assert made.decode("t", b'{"payload":null,"schema":null}') == (None, None)
    schema, value = made.decode("t", b'{"payload":null,"schema":{"type":"int32","optional":true}}')
    assert (schema, value) == (ConnectSchema(ConnectType.INT32, optional=True), None)
    turned = b'{"payload":{"a":4},"schema":{"type":"struct","fields":[{"type":"int64","field":"a"}]}}'
    for _ in range(2):
        schema, value = made.decode("t", turned)
        assert value == {"a": 4}
        assert schema is not None
        assert schema.fields[0].schema.type is ConnectType.INT64


def test_decimals_as_numbers_keep_all_their_digits() -> None:
    made = converter(JSON)
    schema = b'{"type":"bytes","name":"%b","parameters":{"scale":"20"}}' % CONNECT_DECIMAL.encode()
    for text in ("12345678901234567890.12345678901234567890", "1e-7", "12345678901234567890123"):
        data = b'{"schema":%b,"payload":%b}' % (schema, text.encode())
        assert str(made.decode("t", data)[1]) == str(Decimal(text))
