"""Markers, key headers, the order of END's tables, and converters by their properties."""

import json
from decimal import Decimal
from typing import Any

import pytest

from tidings_capture.cdc.encoding.markers import MarkerPlan, compile_markers
from tidings_capture.cdc.encoding.options import ConversionOptions
from tidings_capture.cdc.event_context import EventContext
from tidings_connect.converters.encoding import (
    APICURIO_AVRO_CONVERTER,
    CONFLUENT_AVRO_CONVERTER,
    JSON_CONVERTER,
    AvroConverter,
    JsonConverter,
    _apicurio_urls,
    make_converter,
)
from tidings_connect.converters.options import ConverterError, Options
from tidings_connect.data.text import struct_text
from tidings_envelope import semantic
from tidings_envelope.java.hash_order import java_hash_order
from tidings_envelope.schema import ConnectSchema, ConnectType

PLAIN = {
    "key.converter": JSON_CONVERTER,
    "value.converter": JSON_CONVERTER,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}


def markers(**options: Any) -> MarkerPlan:
    key, value = (make_converter(PLAIN, is_key=is_key) for is_key in (True, False))
    return compile_markers(ConversionOptions("shop", "db", **options), key, value)


def test_markers_to_the_byte() -> None:
    plan = markers(provide_transaction_metadata=True)
    context = EventContext()
    context.begin(813, 1_795_218_281_648_999, None)
    context.position = 27086176
    assert plan.begin(context) == (
        b'{"id":"813:27086176"}',
        b'{"status":"BEGIN","id":"813:27086176","event_count":null,"data_collections":null,"ts_ms":1795218281648}',
        None,
    )
    context.position, context.total_order = 27087064, 6
    context.event_counts = {
        "public.composite_key": 2,
        "public.no_key": 1,
        "public.full_identity": 1,
        "public.every_array": 1,
        "public.every_type": 1,
    }
    key, value, headers = plan.end(context)
    assert (key, headers) == (b'{"id":"813:27087064"}', None)
    assert value == (  # the order of the tables is Debezium's
        b'{"status":"END","id":"813:27087064","event_count":6,"data_collections":['
        b'{"data_collection":"public.every_array","event_count":1},{"data_collection":"public.every_type","event_count":1},'
        b'{"data_collection":"public.composite_key","event_count":2},{"data_collection":"public.no_key","event_count":1},'
        b'{"data_collection":"public.full_identity","event_count":1}],"ts_ms":1795218281648}'
    )
    assert plan.transaction_topic == "shop.transaction"


def test_a_transaction_without_captured_rows_ends_with_zero_events() -> None:
    context = EventContext()
    context.begin(1, 2_000, None)
    _, value, _ = markers(provide_transaction_metadata=True).end(context)
    assert json.loads(value or b"")["event_count"] == 0
    assert json.loads(value or b"")["data_collections"] == []


def test_a_heartbeat() -> None:
    plan = markers()
    assert plan.heartbeat_topic == "__debezium-heartbeat.shop"
    assert plan.heartbeat(5_000_999) == (b'{"serverName":"shop"}', b'{"ts_ms":5}', None)


def test_the_order_of_a_hash_map_changes_when_it_grows() -> None:
    keys = [f"public.table_{n}" for n in range(13)]
    assert sorted(java_hash_order(keys)) == sorted(keys)
    assert java_hash_order(["b", "a"]) == ["a", "b"]
    assert java_hash_order(["q", "a"]) == ["q", "a"]  # hash codes 113 and 97: one bucket of 16
    many = ["q", "a", *"bcdefghijkl"]  # 13 keys: 32 buckets
    assert java_hash_order(many).index("a") < java_hash_order(many).index("q")


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (ConnectSchema(ConnectType.INT64), 7, "7"),
        (ConnectSchema(ConnectType.BOOLEAN), True, "true"),
        (ConnectSchema(ConnectType.STRING), 'a "b" \\ \n', '"a \\"b\\" \\\\ \n"'),
        (ConnectSchema(ConnectType.BYTES), b"\0\xff", '"AP8="'),
        (ConnectSchema(ConnectType.FLOAT64), 1e10, "1.0E10"),
        (ConnectSchema(ConnectType.FLOAT32), 3.3, "3.3"),
        (semantic.decimal(2), Decimal("2.00"), "2.00"),
        (semantic.VARIABLE_SCALE_DECIMAL, {"scale": 1, "value": b"\x7d"}, '{"scale":1,"value":"fQ=="}'),
        (semantic.array(ConnectSchema(ConnectType.INT32)), [1, None], "[1,null]"),
        (semantic.CONNECT_DATE, 20454, "2026-01-01"),
        (semantic.CONNECT_TIME, 45296123, "12:34:56.123Z"),
        (semantic.CONNECT_TIMESTAMP, 1767225600500, "2026-01-01T00:00:00.500Z"),
    ],
)
def test_key_headers(schema: ConnectSchema, value: Any, text: str) -> None:
    assert struct_text([("k", schema)], [value]).decode() == f'{{"k":{text}}}'


def test_the_json_converter_is_made_from_its_properties() -> None:
    converter = make_converter({"value.converter": JSON_CONVERTER}, is_key=False)
    assert isinstance(converter, JsonConverter)
    assert converter.schemas_enable
    assert (
        converter.encoder("t", semantic.STRING)("x")
        == b'{"schema":{"type":"string","optional":false},"payload":"x"}'
    )
    numeric = make_converter(
        {
            "key.converter": JSON_CONVERTER,
            "key.converter.schemas.enable": "FALSE",
            "key.converter.decimal.format": "NUMERIC",
            "key.converter.schemas.cache.size": "5",
        },
        is_key=True,
    )
    assert numeric.encoder("t", semantic.decimal(2))(Decimal("1.50")) == b"1.50"


@pytest.mark.parametrize("class_name", [CONFLUENT_AVRO_CONVERTER, APICURIO_AVRO_CONVERTER])
def test_an_avro_converter_is_made_from_its_url(class_name: str) -> None:
    option = "schema.registry.url" if class_name == CONFLUENT_AVRO_CONVERTER else "apicurio.registry.url"
    properties = {
        "value.converter": class_name,
        f"value.converter.{option}": "http://127.0.0.1:1/apis/registry/v3",
    }
    if class_name == APICURIO_AVRO_CONVERTER:
        properties["value.converter.apicurio.registry.auto-register"] = "true"
    converter = make_converter(properties, is_key=False)
    assert isinstance(converter, AvroConverter)
    converter.close()


@pytest.mark.parametrize(
    ("given", "own"), [("registry/v3", None), ("registry/v2", "registry/v2"), ("ccompat/v7", None)]
)
def test_apicurios_own_address_is_turned_into_that_of_its_confluent_api(given: str, own: str | None) -> None:
    root = "http://r:8080/apis/"
    options = Options("value.converter", {"value.converter.apicurio.registry.url": root + given})
    assert _apicurio_urls(options) == (root + "ccompat/v7", own and root + own)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "value.converter=(not set) is not supported"),
        (
            {"value.converter": "com.example.Converter"},
            "value.converter=com.example.Converter is not supported",
        ),
        ({"value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "yes"}, "schemas.enable=yes"),
        ({"value.converter": JSON_CONVERTER, "value.converter.decimal.format": "HEX"}, "decimal.format=hex"),
        (
            {"value.converter": JSON_CONVERTER, "value.converter.no.such": "1"},
            "value.converter.no.such is not",
        ),
        ({"value.converter": CONFLUENT_AVRO_CONVERTER}, "schema.registry.url"),
        ({"value.converter": APICURIO_AVRO_CONVERTER}, "apicurio.registry.url"),
        (
            {
                "value.converter": CONFLUENT_AVRO_CONVERTER,
                "value.converter.schema.registry.url": "http://r",
                "value.converter.auto.register.schemas": "false",
            },
            "value.converter.auto.register.schemas=false is not supported",
        ),
        (
            {
                "value.converter": APICURIO_AVRO_CONVERTER,
                "value.converter.apicurio.registry.url": "http://r",
                "value.converter.apicurio.registry.headers.enabled": "true",
            },
            "value.converter.apicurio.registry.headers.enabled=true is not supported",
        ),
    ],
)
def test_what_would_change_the_bytes_and_is_not_supported_is_refused_by_name(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ConverterError) as caught:
        make_converter(properties, is_key=False)
    assert message in str(caught.value)
