"""What becomes of Connect's and Debezium's types, of text and bytes, and of what the chain does to documents."""

import base64
import json
from decimal import Decimal
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64
from bson.datetime_ms import DatetimeMS
from mongo_parts import BY_KEY, SINK, TOLERANT
from mongo_parts import Documents as Running
from object_parts import field, struct

from tidings_sinks.errors import RowError
from tidings_sinks.mongo.bson_types import decimal_of
from tidings_sinks.mongo.documents import Documents
from tidings_sinks.mongo.processors import projected, renamed, without_nulls
from tidings_sinks.mongo.settings import Projection, Values

CONNECT = "org.apache.kafka.connect.data"
TIME = "io.debezium.time"
DAY, DAY_MS = 20_455, 20_455 * 86_400_000  # 2026-01-02
MICROS = 1_767_323_045_678_901
MOMENT = DatetimeMS(1_767_323_045_678)


def unscaled(number: int) -> str:
    return base64.b64encode(number.to_bytes(16, "big", signed=True)).decode()


def decimal(name: str, scale: int) -> dict[str, Any]:
    return field(name, "bytes", name=f"{CONNECT}.Decimal", parameters={"scale": str(scale)})


VARIABLE = {
    **struct(field("scale", "int32"), field("value", "bytes"), name="io.debezium.data.VariableScaleDecimal"),
    "field": "bare",
    "optional": True,
}
ADDRESS = struct(field("city", "string"), field("since", "int32", name=f"{TIME}.Date"))
RAW = object()
"""For the reference: the value as it came."""
TEXT = "2026-01-02T03:04:05.678901"
COLUMNS: list[tuple[dict[str, Any], Any, Any, Any]] = [
    # the field, its value, what it becomes, and with tidings.values=connect (None: the same)
    (field("tiny", "int8"), -1, -1, None),
    (field("whole", "int32"), 2**31 - 1, 2**31 - 1, None),
    (field("big", "int64"), 7, Int64(7), None),
    (field("ratio", "float"), 1.5, 1.5, None),
    (field("exact", "double"), 1e-300, 1e-300, None),
    (field("yes", "boolean"), True, True, None),
    (field("data", "bytes"), "AP8=", b"\x00\xff", None),
    (decimal("amount", 2), unscaled(-110), Decimal128("-1.10"), None),
    (decimal("most", 0), unscaled(10**34 - 1), Decimal128("9" * 34), None),
    (VARIABLE, {"scale": 3, "value": unscaled(1500)}, Decimal128("1.500"), {"scale": 3, "value": (1500).to_bytes(16, "big")}),
    (field("day_c", "int32", name=f"{CONNECT}.Date"), -1, DatetimeMS(-86_400_000), None),
    (field("clock_c", "int32", name=f"{CONNECT}.Time"), 36_672_500, DatetimeMS(36_672_500), None),
    (field("at_c", "int64", name=f"{CONNECT}.Timestamp"), MICROS // 1000, MOMENT, None),
    (field("day", "int32", name=f"{TIME}.Date"), DAY, DatetimeMS(DAY_MS), RAW),
    (field("clock", "int64", name=f"{TIME}.MicroTime"), 36_672_500_000, "10:11:12.500000", RAW),
    (field("at", "int64", name=f"{TIME}.MicroTimestamp"), MICROS, MOMENT, RAW),
    (field("at_ms", "int64", name=f"{TIME}.Timestamp"), -1, DatetimeMS(-1), RAW),
    (field("at_ns", "int64", name=f"{TIME}.NanoTimestamp"), MICROS * 1000 + 7, MOMENT, RAW),
    (field("zoned", "string", name=f"{TIME}.ZonedTimestamp"), "2026-01-02T03:04:05.678901Z", MOMENT, RAW),
    (field("iso", "string", name=f"{TIME}.IsoDate"), "2026-01-02Z", DatetimeMS(DAY_MS), RAW),
    (field("endless", "int64", name=f"{TIME}.MicroTimestamp"), 2**63 - 1, "infinity", RAW),
    (field("ancient", "int32", name=f"{TIME}.Date"), -735_160, DatetimeMS(-735_160 * 86_400_000), RAW),
    (field("mark", "string", name="io.debezium.data.Uuid"), "b68a", "b68a", None),
    (field("doc", "string", name="io.debezium.data.Json"), '{"a": [1, 2.5], "b": {"c": null}}', {"a": [Int64(1), 2.5], "b": {"c": None}}, RAW),
    ({"field": "tags", "type": "array", "optional": True, "items": {"type": "string", "optional": True}}, ["a", None], ["a", None], None),
    ({"field": "sums", "type": "array", "optional": True, "items": {"type": "int64"}}, [1], [Int64(1)], None),
    ({**ADDRESS, "field": "home", "optional": True}, {"city": "Oslo", "since": DAY}, {"city": "Oslo", "since": DatetimeMS(DAY_MS)}, RAW),
    ({"field": "lines", "type": "array", "optional": True, "items": ADDRESS}, [{"city": None, "since": DAY}], [{"city": None, "since": DatetimeMS(DAY_MS)}], RAW),
    ({"field": "counts", "type": "map", "optional": True, "keys": {"type": "string"}, "values": {"type": "int32"}}, {"x": 1}, {"x": 1}, None),
    ({"field": "pairs", "type": "map", "optional": True, "keys": {"type": "int32"}, "values": {"type": "int32"}}, [[7, 8]], [{"key": 7, "value": 8}], None),
    (field("nothing", "string"), None, None, None),
]  # fmt: skip
ROW = struct(*(column for column, *_ in COLUMNS))
VALUES = {column["field"]: value for column, value, *_ in COLUMNS}


def typed(documents: Running, row: dict[str, Any], values: dict[str, Any], key: int = 1) -> None:
    """A record whose value has a schema."""
    documents.put(
        {"schema": struct(field("id", "int32")), "payload": {"id": key}}, {"schema": row, "payload": values}
    )


@pytest.fixture
def with_schemas(documents: Running) -> Running:
    sides = ("key.converter", "value.converter")
    documents.config |= BY_KEY | TOLERANT | {f"{side}.schemas.enable": "true" for side in sides}
    return documents


@pytest.mark.parametrize("values", ["bson", "connect", "text"])
def test_values_stay_what_they_are(with_schemas: Running, values: str) -> None:
    with_schemas.run(tidings_values=values)
    typed(with_schemas, ROW, VALUES)
    with_schemas.wait()
    assert with_schemas.letters() == []
    (found,) = with_schemas.found()
    for column, value, as_bson, plain in COLUMNS:
        name, wanted = column["field"], as_bson
        if values == "connect" and plain is not None:
            as_it_came = Int64(value) if column["type"] == "int64" else value
            wanted = as_it_came if plain is RAW else plain
        if values == "text":
            wanted = {"at": TEXT, "at_ns": f"{TEXT}007", "at_ms": "1969-12-31T23:59:59.999000", "day": "2026-01-02",
                      "iso": "2026-01-02", "zoned": "2026-01-02T03:04:05.678901Z", "ancient": "0044-03-15 BC",
                      "home": {"city": "Oslo", "since": "2026-01-02"},
                      "lines": [{"city": None, "since": "2026-01-02"}]}.get(name, wanted)  # fmt: skip
        assert found[name] == wanted, name
        assert type(found[name]) is type(wanted), name


def test_numbers_that_have_no_form_are_bad_records(with_schemas: Running) -> None:
    with_schemas.config["errors.deadletterqueue.context.headers.enable"] = "true"
    with_schemas.run()
    row = struct(decimal("amount", 2))
    typed(with_schemas, row, {"amount": unscaled(10**34 + 1)})
    typed(with_schemas, row, {"amount": unscaled(10**34 - 1)}, 2)
    with_schemas.wait()
    assert [each["_id"]["id"] for each in with_schemas.raw()] == [2]
    (said,) = with_schemas.reasons()
    assert "field amount" in said
    assert "34 digits" in said


@pytest.mark.parametrize("text", ["0", "-0", "1.10", "1E+10", "-9.99E-20", "123456789012345678901234567890.1234", "0E-6176", "NaN", "Infinity"])  # fmt: skip
def test_decimals(text: str) -> None:
    assert decimal_of(Decimal(text)) == Decimal128(Decimal(text))


def test_defaults_of_a_schema_stand_for_null(with_schemas: Running) -> None:
    with_schemas.run()
    typed(
        with_schemas,
        struct({**field("n", "int64"), "default": 42}, field("t", "string")),
        {"n": None, "t": None},
    )
    with_schemas.wait()
    (found,) = with_schemas.found()
    assert (found["n"], type(found["n"]), found["t"]) == (42, Int64, None)


def test_whole_numbers_without_a_schema_have_64_bits(documents: Running) -> None:
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, {"n": 1, "in": [{"m": 2}], "x": 1.5, "huge": 10**20})
    documents.wait()
    (found,) = documents.found()
    assert type(found["n"]) is Int64
    assert type(found["in"][0]["m"]) is Int64
    assert found["huge"] == Decimal128(str(10**20))


def test_text_and_bytes_are_documents() -> None:
    wanted = {"_id": 1, "at": DatetimeMS(1000), "amount": Decimal128("1.10")}
    text = json.dumps({"_id": 1, "at": {"$date": 1000}, "amount": {"$numberDecimal": "1.10"}})
    read = Documents(Values.BSON)
    assert read(None, text, "value") == wanted
    assert read(None, bson.encode(wanted), "value") == wanted
    for wrong in ("secret", "[1]", b"secret", 7, [1]):
        with pytest.raises(RowError, match="the value is not a struct") as error:
            read(None, wrong, "value")
        assert "secret" not in str(error.value)


CHAIN = {
    "id": "DocumentIdAdder", "meta": "KafkaMetaAdder", "nulls": "NullFieldValueRemover", "allow": "AllowListValueProjector",
    "block": "BlockListKeyProjector", "map": "field.renaming.RenameByMapping", "re": "field.renaming.RenameByRegExp",
}  # fmt: skip


def test_the_chain_in_its_order(documents: Running) -> None:
    documents.config |= {
        **BY_KEY,
        "key.projection.list": "secret", "value.projection.list": "keep,in.**,_id",
        "field.renamer.mapping": '[{"oldName":"value.keep","newName":"kept"},{"oldName":"key.id","newName":"number"}]',
        "field.renamer.regexp": '[{"regexp":"^value\\\\.in\\\\..*$","pattern":"[aeiou]","replace":"_"}]',
        "post.processor.chain": ",".join(f"{SINK}processor.{CHAIN[each]}" for each in ("block", "nulls", "allow", "map", "re", "id", "meta")),
    }  # fmt: skip
    documents.run()
    documents.put({"id": 1, "secret": 2}, {"keep": 1, "drop": 2, "in": {"aim": 1, "nil": None}})
    documents.wait()
    (found,) = documents.found()
    assert found.pop("CREATE_TIME") > 0
    assert found == {
        "_id": {"number": 1}, "kept": 1, "in": {"__m": 1},
        "topic-partition-offset": f"{documents.topic}-0-0",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "blocks", "wanted"),
    [
        ("name", False, {"name": "x"}),
        ("in.a", False, {"in": {"a": 1}}),
        ("in.**", False, {"in": {"a": 1, "b": {"c": 1}}}),
        ("**", False, {"name": "x", "in": {"a": 1, "b": {"c": 1}}, "list": [{"a": 1, "b": 2}]}),
        ("na*", False, {"name": "x"}),
        ("*.a", False, {"name": "x", "in": {"a": 1}, "list": [{"a": 1}]}),
        ("name", True, {"in": {"a": 1, "b": {"c": 1}}, "list": [{"a": 1, "b": 2}]}),
        ("in.b.c,list.a", True, {"name": "x", "in": {"a": 1, "b": {}}, "list": [{"b": 2}]}),
        ("in.*", True, {"name": "x", "in": {"b": {"c": 1}}, "list": [{"a": 1, "b": 2}]}),
        ("**", True, {}),
        ("l*", True, {"name": "x", "in": {"a": 1, "b": {"c": 1}}}),
    ],
)
def test_projections(fields: str, blocks: bool, wanted: dict[str, Any]) -> None:
    document = {"name": "x", "in": {"a": 1, "b": {"c": 1}}, "list": [{"a": 1, "b": 2}]}
    projected(document, Projection(frozenset(fields.split(",")), blocks))
    assert document == wanted


def test_a_new_name_that_is_taken_is_not_given() -> None:
    document = {"a": 1, "b": 2, "in": {"a": 1}}
    renamed(document, "value", lambda path, name: "b" if name == "a" else name)
    assert document == {"a": 1, "b": 2, "in": {"b": 1}}
    without_nulls(document | {"none": None})
