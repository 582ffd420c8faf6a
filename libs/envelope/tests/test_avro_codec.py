"""The Avro codec: what it writes is read by fastavro, and the schemas are those AvroData derives."""

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope import semantic
from tidings_envelope.avro.codec import AvroCodec, long_avro
from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.errors import SchemaError
from tidings_envelope.schema import ConnectSchema, ConnectType

INT64 = ConnectSchema(ConnectType.INT64)
STRING = ConnectSchema(ConnectType.STRING)

ROW = semantic.struct(
    "shop.public.t.Value",
    [
        ("id", INT64),
        ("small", ConnectSchema(ConnectType.INT16, optional=True)),
        ("single", ConnectSchema(ConnectType.FLOAT32)),
        ("double", ConnectSchema(ConnectType.FLOAT64)),
        ("flag", ConnectSchema(ConnectType.BOOLEAN)),
        ("name", STRING.as_optional()),
        ("raw", ConnectSchema(ConnectType.BYTES)),
        ("price", semantic.decimal(2, 10).as_optional()),
        ("any", semantic.VARIABLE_SCALE_DECIMAL.as_optional()),
        ("more", semantic.VARIABLE_SCALE_DECIMAL.as_optional()),
        ("tags", semantic.array(STRING.as_optional()).as_optional()),
        ("n", ConnectSchema(ConnectType.INT32, optional=True, default=7)),
        ("by_name", ConnectSchema(ConnectType.MAP, keys=STRING, items=INT64)),
    ],
).as_optional()


def read(schema: ConnectSchema, encoded: bytes) -> Any:
    """What fastavro reads, after it has read all."""
    stream = io.BytesIO(encoded)
    value = fastavro.schemaless_reader(
        stream, fastavro.parse_schema(json.loads(avro_schema_json(schema))), None
    )
    assert stream.read() == b""
    return value


rows = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-(2**15), 2**15 - 1),
        "single": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "flag": st.booleans(),
        "name": st.none() | st.text(),
        "raw": st.binary(),
        "price": st.none() | st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
        "any": st.none()
        | st.fixed_dictionaries({"scale": st.integers(0, 1000), "value": st.binary(min_size=1)}),
        "more": st.none(),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=100), max_size=100),
        "n": st.integers(-(2**31), 2**31 - 1),
        "by_name": st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1)),
    }
)


@given(st.none() | rows)
def test_what_is_encoded_is_what_fastavro_reads(row: dict[str, Any] | None) -> None:
    assert read(ROW, AvroCodec().encoder(ROW)(row)) == row


@given(rows)
def test_fields_spliced_with_fragments_are_the_struct(row: dict[str, Any]) -> None:
    codec = AvroCodec()
    first, *others = codec.struct_fragments(ROW)
    fields = [codec.encoder(field.schema)(row[field.name]) for field in ROW.fields]
    spliced = first + b"".join(field + behind for field, behind in zip(fields, others, strict=True))
    assert spliced == codec.encoder(ROW)(row)


def test_a_null_becomes_the_default() -> None:
    schema = semantic.struct("s", [("n", ConnectSchema(ConnectType.INT32, optional=True, default=7))])
    assert read(schema, AvroCodec().encoder(schema)({"n": None})) == {"n": 7}


def test_a_null_stays_one_where_it_is_to() -> None:
    """Of a field that may not be null it is the default all the same."""
    field = ConnectSchema(ConnectType.INT32, optional=True, default=7)
    schema = semantic.struct("s", [("n", field), ("required", replace(field, optional=False))])
    codec = AvroCodec(replace_null_with_default=False)
    assert read(schema, codec.encoder(schema)({"n": None, "required": None})) == {"n": None, "required": 7}
    assert read(schema, codec.encoder(schema)({"n": 7, "required": 8})) == {"n": 7, "required": 8}


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (-1, b"\1"), (63, b"~"), (64, b"\x80\1"), (-65, b"\x81\1")]
)
def test_integers_are_zigzag_varints(value: int, encoded: bytes) -> None:
    assert long_avro(value) == encoded


def test_a_key_schema() -> None:
    schema = semantic.struct("shop.public.orders.Key", [("id", INT64)])
    assert avro_schema_json(schema) == (
        '{"type":"record","name":"Key","namespace":"shop.public.orders","fields":[{"name":"id","type":"long"}],'
        '"connect.name":"shop.public.orders.Key"}'
    )


def test_an_envelopes_schema_defines_the_row_once_and_refers_to_it_by_its_short_name() -> None:
    row = semantic.struct(
        "shop.public.t.Value",
        [("price", semantic.decimal(2, 10)), ("day", semantic.CONNECT_DATE.as_optional())],
    ).as_optional()
    text = avro_schema_json(semantic.envelope("shop.public.t.Envelope", row))
    assert text.startswith(
        '{"type":"record","name":"Envelope","namespace":"shop.public.t","fields":[{"name":"before","type":["null",'
        '{"type":"record","name":"Value","fields":[{"name":"price","type":{"type":"bytes","scale":2,"precision":10,'
        '"connect.version":1,"connect.parameters":{"scale":"2","connect.decimal.precision":"10"},'
        '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}},{"name":"day","type":["null",'
        '{"type":"int","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Date","logicalType":"date"}],'
        '"default":null}],"connect.name":"shop.public.t.Value"}],"default":null},'
        '{"name":"after","type":["null","Value"],"default":null},'
        '{"name":"source","type":{"type":"record","name":"Source","namespace":"io.debezium.connector.postgresql",'
    )
    assert text.endswith(
        '{"name":"ts_ns","type":["null","long"],"default":null}],"connect.version":2,'
        '"connect.name":"shop.public.t.Envelope"}'
    )
    fastavro.parse_schema(json.loads(text))


@pytest.mark.parametrize("name", ["Id col", "1st", "täxt", "a.b", ""])
def test_a_name_that_avro_does_not_allow_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="not allowed in Avro"):
        avro_schema_json(semantic.struct("shop.public.t.Key", [(name, INT64)]))


def test_a_name_or_namespace_with_a_dash_is_refused_with_the_option_that_helps() -> None:
    for name in ("my-shop.public.t.Key", "shop.public.my-key"):
        with pytest.raises(SchemaError, match="not allowed in Avro") as raised:
            avro_schema_json(semantic.struct(name, [("id", INT64)]))
        assert "schema.name.adjustment.mode" in str(raised.value.hint)
