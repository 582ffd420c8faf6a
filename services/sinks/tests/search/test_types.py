"""What becomes of Connect's and Debezium's types: the documents, the mappings, and that searches find them as what they are."""

import base64
import json
from typing import Any

import pytest
from object_parts import field, struct
from search_parts import ON_BOTH, TOLERANT, Search, with_schema
from semantic_fields import ADDRESS, CONNECT, DAY, MICROS, VARIABLE, decimal, semantic, unscaled

from tidings_sinks.search.bulk import merged

COLUMNS: list[tuple[dict[str, Any], Any, Any, Any]] = [
    (field("tiny", "int8"), -1, -1, {"type": "byte"}),
    (field("small", "int16"), 300, 300, {"type": "short"}),
    (field("whole", "int32"), 2**31 - 1, 2**31 - 1, {"type": "integer"}),
    (field("big", "int64"), 2**63 - 1, 2**63 - 1, {"type": "long"}),
    (field("ratio", "float"), 1.5, 1.5, {"type": "float"}),
    (field("exact", "double"), 1e-300, 1e-300, {"type": "double"}),
    (field("yes", "boolean"), True, True, {"type": "boolean"}),
    (field("data", "bytes"), "AP8=", "AP8=", {"type": "binary"}),
    (decimal("amount", 2), unscaled(-1234), -12.34, {"type": "double"}),
    (VARIABLE, {"scale": 3, "value": unscaled(1500)}, 1.5, {"type": "double"}),
    (semantic("day", "int32", "Date"), DAY, "2026-01-02", "date"),
    (semantic("day_c", "int32", f"{CONNECT}.Date"), -1, "1969-12-31", "date"),
    (semantic("clock", "int64", "MicroTime"), 36_672_500_000, "10:11:12.500000", {"type": "keyword"}),
    (semantic("clock_c", "int32", f"{CONNECT}.Time"), 36_672_500, "10:11:12.500000", {"type": "keyword"}),
    (semantic("at", "int64", "MicroTimestamp"), MICROS, "2026-01-02T03:04:05.678901", "date"),
    (semantic("at_ms", "int64", "Timestamp"), -1, "1969-12-31T23:59:59.999000", "date"),
    (semantic("at_ns", "int64", "NanoTimestamp"), MICROS * 1000 + 7, "2026-01-02T03:04:05.678901007", "date"),
    (semantic("at_c", "int64", f"{CONNECT}.Timestamp"), MICROS // 1000, "2026-01-02T03:04:05.678000Z", "date"),
    (semantic("zoned", "string", "ZonedTimestamp"), "2026-01-02T03:04:05.6Z", "2026-01-02T03:04:05.6Z", "date"),
    (semantic("endless", "int64", "MicroTimestamp"), 2**63 - 1, "infinity", "date"),
    (semantic("ancient", "int32", "Date"), -735_160, "0044-03-15 BC", "date"),
    (semantic("mark", "string", "io.debezium.data.Uuid"), "b68a", "b68a", {"type": "keyword"}),
    (semantic("mood", "string", "io.debezium.data.Enum"), "ok", "ok", {"type": "keyword"}),
    (semantic("bits", "bytes", "io.debezium.data.Bits"), base64.b64encode(b"\x16").decode(), "10110", {"type": "keyword"}),
    (semantic("doc", "string", "io.debezium.data.Json"), '{"a":\n [1, 2], "b": {"c": null}}', {"a": [1, 2], "b": {"c": None}}, None),
    ({"field": "tags", "type": "array", "optional": True, "items": {"type": "string", "optional": True}}, ["a", None], ["a", None], "text"),
    ({"field": "days", "type": "array", "optional": True, "items": {"type": "int32", "optional": True, "name": "io.debezium.time.Date"}}, [DAY, None], ["2026-01-02", None], "date"),
    ({**ADDRESS, "field": "home", "optional": True}, {"city": "Oslo", "since": DAY}, {"city": "Oslo", "since": "2026-01-02"}, None),
    ({"field": "lines", "type": "array", "optional": True, "items": ADDRESS}, [{"city": None, "since": DAY}], [{"city": None, "since": "2026-01-02"}], None),
    ({"field": "counts", "type": "map", "optional": True, "keys": {"type": "string"}, "values": {"type": "int32"}}, {"x": 1}, {"x": 1}, None),
    ({"field": "pairs", "type": "map", "optional": True, "keys": {"type": "int32"}, "values": {"type": "int32", "name": "io.debezium.time.Date"}}, [[7, DAY]], [{"key": 7, "value": "2026-01-02"}], None),
]  # fmt: skip
ROW = struct(field("name", "string"), *(column for column, *_ in COLUMNS))
VALUES = {"name": "n\u00f6me", **{column["field"]: value for column, value, *_ in COLUMNS}}
SCHEMAS = {"value.converter.schemas.enable": "true"}


@pytest.fixture
def typed(search: Search) -> Search:
    search.config |= SCHEMAS | TOLERANT
    return search


@ON_BOTH
def test_values_stay_what_they_are(typed: Search) -> None:
    typed.run()
    typed.put("full", with_schema(ROW, VALUES))
    typed.put("empty", with_schema(ROW, dict.fromkeys(VALUES)))
    typed.wait()
    assert typed.letters() == []
    documents = typed.documents()
    assert documents["full"] == {"name": "n\u00f6me"} | {c["field"]: shown for c, _, shown, _ in COLUMNS}
    assert documents["empty"] == dict.fromkeys(VALUES)
    mapping = typed.mapping()
    for column, _, _, wanted in COLUMNS:
        found = mapping.get(column["field"])
        if isinstance(wanted, str):
            assert found["type"] == wanted, column["field"]
        elif wanted is not None:
            assert found == wanted, column["field"]
    assert mapping["home"]["properties"]["since"]["type"] == "date"
    assert mapping["lines"]["properties"]["city"]["type"] == "text"
    assert mapping["pairs"]["properties"]["value"]["type"] == "date"
    queries: list[dict[str, Any]] = [
        {"range": {"at": {"gte": "2026-01-02T03:04:05", "lt": "2026-01-02T03:04:06"}}},
        {"range": {"day": {"gte": "2026-01-01", "lte": "2026-01-03"}}},
        {"range": {"at_ms": {"gte": "1969-12-31", "lt": "1970-01-01"}}},
        {"range": {"clock": {"gt": "10:11:12", "lt": "10:11:13"}}},
        {"term": {"amount": -12.34}},
        {"term": {"name.keyword": "n\u00f6me"}},
        {"term": {"mood": "ok"}},
        {"term": {"counts.x": 1}},
    ]
    for query in queries:
        assert [hit["_id"] for hit in typed.hits(query=query)] == ["full"], query


def test_numbers_keep_their_digits_in_the_document(typed: Search) -> None:
    typed.run()
    schema = struct(decimal("amount", 20), decimal("more", 2))
    row = {"amount": unscaled(12345678901234567890123456789012345), "more": unscaled(1250)}
    typed.put("a", with_schema(schema, row))
    typed.wait()
    text = typed.hits_text()
    assert '"amount":123456789012345.67890123456789012345' in text
    assert '"more":12.50' in text


def test_a_new_field_is_mapped_and_one_that_is_there_stays_as_it_is(typed: Search) -> None:
    inner = struct(field("x", "int32"))
    typed.ask("PUT", f"/{typed.topic}", {"mappings": {"properties": {"id": {"type": "keyword"}}}})
    typed.run()
    typed.put(
        "1",
        with_schema(struct(field("id", "int32"), {**inner, "field": "inner"}), {"id": 1, "inner": {"x": 1}}),
    )
    deeper = struct(
        field("x", "int32"), field("small", "int16")
    )  # of which the server itself would make a long
    more = struct(field("id", "int32"), {**deeper, "field": "inner"}, field("tiny", "int8"))
    typed.put("2", with_schema(more, {"id": 2, "inner": {"x": 2, "small": 2}, "tiny": 2}))
    typed.wait()
    mapping = typed.mapping()
    assert mapping["id"] == {"type": "keyword"}
    assert mapping["tiny"]["type"] == "byte"
    assert mapping["inner"]["properties"]["small"]["type"] == "short"
    assert mapping["inner"]["properties"]["x"]["type"] == "integer"
    assert len(typed.documents()) == 2


def test_a_mapping_can_be_left_to_the_server(typed: Search) -> None:
    typed.run(topic_schema_ignore=typed.topic)
    typed.put(
        "1",
        with_schema(struct(field("number", "int32"), field("mark", "string")), {"number": 1, "mark": "a"}),
    )
    typed.wait()
    assert typed.mapping()["number"] == {"type": "long"}


def test_maps_as_lists_of_pairs(typed: Search) -> None:
    typed.run(compact_map_entries="false")
    counts = {"field": "counts", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}
    typed.put("1", with_schema(struct(counts), {"counts": {"x": 1}}))
    typed.wait()
    assert typed.documents() == {"1": {"counts": [{"key": "x", "value": 1}]}}
    assert typed.mapping()["counts"]["properties"]["value"] == {"type": "integer"}


def test_values_without_a_form_in_json_become_letters(typed: Search) -> None:
    typed.run()
    number = struct(field("x", "double"))
    bad = json.dumps(with_schema(number, {"x": "NAN"})).replace('"NAN"', "NaN")
    typed.worker.kafka.inputs.produce(typed.topic, b'"nan"', bad.encode())
    typed.put("json", with_schema(struct(semantic("x", "string", "io.debezium.data.Json")), {"x": "{bad"}))
    typed.put("good", with_schema(number, {"x": 1.0}))
    typed.wait()
    assert list(typed.documents()) == ["good"]
    assert len(typed.letters()) == 2


@pytest.mark.parametrize(
    ("there", "new", "wanted"),
    [
        ('{"a":1.10,"b":{"x":1,"y":2}}', '{"b":{"y":3},"c":[1]}', '{"a":1.10,"b":{"x":1,"y":3},"c":[1]}'),
        ('{"a":{"x":1}}', '{"a":null}', '{"a":null}'),
        ('{"a":[{"x":1}]}', '{"a":[{"y":1}]}', '{"a":[{"y":1}]}'),
        ("{}", "{}", "{}"),
    ],
)
def test_documents_that_are_put_over_others(there: str, new: str, wanted: str) -> None:
    assert merged(there.encode(), new.encode()).decode() == wanted
