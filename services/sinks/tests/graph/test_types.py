"""What becomes of Connect's and Debezium's types: properties, and what the server says that they are."""

from typing import Any

import pytest
from graph_parts import TOLERANT, Graph, envelope
from object_parts import field, struct
from search_parts import with_schema
from semantic_fields import ADDRESS, CONNECT, DAY, MICROS, VARIABLE, decimal, semantic, unscaled

POINT = {
    **struct(field("x", "double"), field("y", "double"), name="io.debezium.data.geometry.Point"),
    "optional": True,
}
TEXT, TIME, MOMENT, ZONED = "STRING", "LOCAL TIME", "LOCAL DATETIME", "ZONED DATETIME"


def array(title: str, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "field": title,
        "type": "array",
        "optional": True,
        "items": {"type": kind, "optional": True, **more},
    }


COLUMNS: list[tuple[dict[str, Any], Any, Any, str]] = [
    (field("small", "int16"), -300, -300, "INTEGER"),
    (field("big", "int64"), 2**63 - 1, 2**63 - 1, "INTEGER"),
    (field("ratio", "float"), 1.5, 1.5, "FLOAT"),
    (field("yes", "boolean"), True, True, "BOOLEAN"),
    (field("data", "bytes"), "AP8=", b"\x00\xff", "LIST<INTEGER NOT NULL>"),
    (decimal("amount", 2), unscaled(-1230), "-12.30", TEXT),
    (VARIABLE, {"scale": 3, "value": unscaled(1500)}, "1.500", TEXT),
    (semantic("day", "int32", "Date"), DAY, "2026-01-02", "DATE"),
    (semantic("day_c", "int32", f"{CONNECT}.Date"), -1, "1969-12-31", "DATE"),
    (semantic("ancient", "int32", "Date"), -735_160, "0044-03-15 BC", TEXT),
    (semantic("clock", "int64", "MicroTime"), 36_672_500_000, "10:11:12.500000000", TIME),
    (semantic("clock_ns", "int64", "NanoTime"), 36_672_500_000_007, "10:11:12.500000007", TIME),
    (semantic("clock_c", "int32", f"{CONNECT}.Time"), 36_672_500, "10:11:12.500000000", TIME),
    (semantic("midnight", "int64", "MicroTime"), 86_400_000_000, "24:00:00.000000", TEXT),
    (semantic("at", "int64", "MicroTimestamp"), MICROS, "2026-01-02T03:04:05.678901000", MOMENT),
    (semantic("at_ms", "int64", "Timestamp"), -1, "1969-12-31T23:59:59.999000000", MOMENT),
    (semantic("at_ns", "int64", "NanoTimestamp"), MICROS * 1000 + 7, "2026-01-02T03:04:05.678901007", MOMENT),
    (semantic("at_c", "int64", f"{CONNECT}.Timestamp"), MICROS // 1000, "2026-01-02T03:04:05.678000000", MOMENT),
    (semantic("at_iso", "string", "IsoTimestamp"), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000000", MOMENT),
    (semantic("endless", "int64", "MicroTimestamp"), 2**63 - 1, "infinity", TEXT),
    (semantic("zoned", "string", "ZonedTimestamp"), "2026-01-02T03:04:05.6+01:00", "2026-01-02T03:04:05.600000000+01:00", ZONED),
    (semantic("zoned_clock", "string", "ZonedTime"), "10:11:12Z", "10:11:12.000000000+00:00", "ZONED TIME"),
    (semantic("mark", "string", "io.debezium.data.Uuid"), "b68a", "b68a", TEXT),
    (semantic("bits", "bytes", "io.debezium.data.Bits"), "Fg==", "10110", TEXT),
    (semantic("doc", "string", "io.debezium.data.Json"), '{"a": [1]}', '{"a": [1]}', TEXT),
    (array("tags", "string"), ["a", "b"], ["a", "b"], "LIST<STRING NOT NULL>"),
    (array("holes", "string"), ["a", None], '["a",null]', TEXT),
    (array("days", "int32", name="io.debezium.time.Date"), [DAY], ["2026-01-02"], "LIST<DATE NOT NULL>"),
    ({**ADDRESS, "field": "home", "optional": True}, {"city": "Oslo", "since": DAY}, '{"city":"Oslo","since":"2026-01-02"}', TEXT),
    ({**POINT, "field": "place"}, {"x": 1.5, "y": 2.5}, (1.5, 2.5), "POINT"),
]  # fmt: skip
ROW = struct(field("id", "int32"), *(column for column, *_ in COLUMNS))
VALUES = {"id": 1, **{column["field"]: value for column, value, *_ in COLUMNS}}
SCHEMAS = {"value.converter.schemas.enable": "true"}
NODE = {"tidings.row.topic.t": "(:T {!id, *})"}


@pytest.fixture
def typed(graph: Graph) -> Graph:
    graph.config |= SCHEMAS | TOLERANT
    return graph


def shown(value: Any) -> Any:
    if isinstance(value, list):
        return [shown(item) for item in value]
    return (
        value.iso_format()
        if hasattr(value, "iso_format")
        else tuple(value)
        if hasattr(value, "srid")
        else value
    )


def properties(graph: Graph) -> dict[str, tuple[Any, str]]:
    rows = graph.ask("MATCH (n:T) UNWIND keys(n) AS k RETURN k, n[k], valueType(n[k])")
    return {name: (shown(value), kind.removesuffix(" NOT NULL")) for name, value, kind in rows}


def test_values_are_neo4j_s_types(typed: Graph) -> None:
    typed.run(NODE)
    typed.send("t", 1, with_schema(ROW, VALUES))
    typed.wait()
    assert typed.letters() == []
    found = properties(typed)
    assert found.pop("id") == (1, "INTEGER")
    assert found == {column["field"]: (value, kind) for column, _, value, kind in COLUMNS}
    typed.send("t", 1, with_schema(ROW, {**dict.fromkeys(VALUES), "id": 1}))
    typed.wait()
    assert list(properties(typed)) == ["id"], "a null is no property"


def test_decimals_as_floating_point_numbers(typed: Graph) -> None:
    typed.run(NODE, tidings_decimals="float")
    row = struct(field("id", "int32"), decimal("amount", 2), VARIABLE)
    typed.send(
        "t",
        1,
        with_schema(row, {"id": 1, "amount": unscaled(-1230), "bare": {"scale": 3, "value": unscaled(1500)}}),
    )
    typed.wait()
    assert properties(typed) == {"id": (1, "INTEGER"), "amount": (-12.3, "FLOAT"), "bare": (1.5, "FLOAT")}


def test_objects_taken_apart(typed: Graph) -> None:
    typed.run(NODE, tidings_documents="flatten")
    doc = semantic("doc", "string", "io.debezium.data.Json")
    row = struct(field("id", "int32"), doc, {**ADDRESS, "field": "home", "optional": True})

    def send(text: str | None, home: Any) -> None:
        typed.send("t", 1, with_schema(row, {"id": 1, "doc": text, "home": home}))

    send('{"a": {"b": [1, 2]}, "c": "x"}', {"city": "Oslo", "since": DAY})
    typed.wait()
    found = {name: value for name, (value, _) in properties(typed).items()}
    assert found == {
        "id": 1,
        "doc.a.b": [1, 2],
        "doc.c": "x",
        "home.city": "Oslo",
        "home.since": "2026-01-02",
    }
    send('{"c": "y"}', None)
    send("{bad", None)
    typed.wait()
    assert properties(typed) == {"id": (1, "INTEGER"), "doc.c": ("y", TEXT)}
    send("[1]", None)
    typed.wait()
    assert properties(typed) == {"id": (1, "INTEGER"), "doc": ([1], "LIST<INTEGER NOT NULL>")}
    assert len(typed.letters()) == 1


def test_values_without_a_schema(graph: Graph) -> None:
    graph.run(NODE, **{name.replace(".", "_"): text for name, text in TOLERANT.items()})
    row = {"id": 1, "n": 1.5, "list": [1, 2], "mixed": [1, "a", None], "object": {"a": 1}, "none": None}
    graph.send("t", {"id": 1}, envelope("c", row))
    graph.send("t", {"id": 2}, envelope("c", {"id": 2, "text": "\ud800"}))
    graph.wait()
    found = {name: value for name, (value, _) in properties(graph).items()}
    assert found == {"id": 1, "n": 1.5, "list": [1, 2], "mixed": '[1,"a",null]', "object": '{"a":1}'}
    assert len(graph.letters()) == 1


def test_statements_get_what_neo4j_s_own_connector_gives_them(typed: Graph) -> None:
    """Debezium's own types stay as they are encoded, unless they are asked for."""
    text = "MERGE (n:T {id: event.id}) SET n.day = event.day, n.day_c = event.day_c, n.amount = event.amount"
    row = struct(
        field("id", "int32"),
        semantic("day", "int32", "Date"),
        semantic("day_c", "int32", f"{CONNECT}.Date"),
        decimal("amount", 2),
    )
    value = with_schema(row, {"id": 1, "day": DAY, "day_c": DAY, "amount": unscaled(1230)})
    typed.run({"neo4j.cypher.topic.t": text})
    typed.send("t", 1, value)
    typed.wait()
    found = {"id": (1, "INTEGER"), "day_c": ("2026-01-02", "DATE"), "amount": ("12.30", TEXT)}
    assert properties(typed) == {**found, "day": (DAY, "INTEGER")}
    typed.start("t", tidings_semantic_types="true")
    typed.send("t", 1, value)
    typed.wait()
    assert properties(typed) == {**found, "day": ("2026-01-02", "DATE")}
