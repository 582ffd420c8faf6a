"""One change event and one marker, as each converter writes them."""

import json
from decimal import Decimal
from typing import Any

from tidings_envelope import semantic
from tidings_envelope.avro.codec import AvroCodec
from tidings_envelope.avro.schema import avro_schema_json
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.schema import ConnectSchema, ConnectType
from tidings_envelope.wire import frame

ROW = semantic.struct(
    "shop.public.t.Value",
    [
        ("id", ConnectSchema(ConnectType.INT64)),
        ("price", semantic.decimal(2, 10).as_optional()),
        ("weight", semantic.VARIABLE_SCALE_DECIMAL.as_optional()),
        ("prices", semantic.array(semantic.decimal(1).as_optional()).as_optional()),
        ("day", semantic.CONNECT_DATE.as_optional()),
    ],
).as_optional()
ENVELOPE = semantic.envelope("shop.public.t.Envelope", ROW)
EVENT = {
    "before": None,
    "after": {
        "id": 1,
        "price": Decimal("12.30"),
        "weight": {"scale": 3, "value": b"\x05\xdc"},
        "prices": [Decimal("0.5"), None],
        "day": 20000,
    },
    "source": {
        "version": "3.7.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 5,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["1","2"]',
        "ts_us": 5000,
        "ts_ns": 5000000,
        "schema": "public",
        "table": "t",
        "txId": 7,
        "lsn": 2,
    },
    "transaction": {"id": "7:2", "total_order": 1, "data_collection_order": 1},
    "op": "c",
    "ts_ms": 6,
    "ts_us": 6000,
    "ts_ns": 6000000,
}
MARKER = {
    "status": "END",
    "id": "7:9",
    "event_count": 1,
    "data_collections": [{"data_collection": "public.t", "event_count": 1}],
    "ts_ms": 5,
}


class OneSchemaRegistry:
    """A registry in which every id is one schema."""

    def __init__(self, schema: ConnectSchema) -> None:
        self.schema = json.loads(avro_schema_json(schema))

    def schema_by_id(self, schema_id: int) -> Any:
        assert schema_id == 42
        return self.schema


def json_with_schema(schema: ConnectSchema, value: Any) -> bytes:
    codec = JsonCodec()
    prefix, suffix = codec.frame(schema, schemas_enable=True)
    return prefix + codec.encoder(schema)(value) + suffix


def avro(schema: ConnectSchema, value: Any) -> tuple[EnvelopeDecoder, bytes]:
    decoder = EnvelopeDecoder(OneSchemaRegistry(schema))  # type: ignore[arg-type]  # it has all that is called
    return decoder, frame(42, AvroCodec().encoder(schema)(value))
