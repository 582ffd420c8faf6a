"""Schemas of several versions become one reader that loses nothing of any of them."""

import pytest

from tidings_lakehouse.formats.avro_nodes import (
    Node,
    UnsupportedSchemaError,
    group_by_reader,
    merge_nodes,
    parse_schema,
    reader_schema,
)


def record(*fields: tuple[str, object], name: str = "a.R") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def test_names_are_resolved_in_their_namespace() -> None:
    schema = {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.orders",
        "fields": [
            {"name": "before", "type": ["null", record(("id", "long"), name="Value")]},
            {"name": "after", "type": ["null", "Value"]},
        ],
    }
    node = parse_schema(schema)
    assert node.name == "shop.orders.Envelope"
    assert node.field("before") == node.field("after")
    assert node.field("after") == Node("record", name="shop.orders.Value", fields=(("id", Node("long")),))


def test_logical_types_by_either_name() -> None:
    node = parse_schema(
        record(
            ("d", {"type": "int", "connect.name": "io.debezium.time.Date"}),
            ("t", {"type": "long", "logicalType": "timestamp-micros"}),
            (
                "n",
                {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": 10,
                    "scale": 2,
                    "connect.name": "x.Decimal",
                },
            ),
        )
    )
    assert [(n.logical, n.precision, n.scale) for _, n in node.fields] == [
        ("io.debezium.time.Date", 0, 0),
        ("timestamp-micros", 0, 0),
        ("decimal", 10, 2),
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (["int", "string"], "union of several"),
        (record(("next", ["null", "a.R"])), "recursive"),
        (record(("x", "a.Missing")), "undefined"),
    ],
)
def test_what_no_column_can_hold_is_refused(schema: object, message: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=message):
        parse_schema(schema)


def test_versions_that_agree_share_a_reader_with_the_fields_of_all() -> None:
    old = parse_schema(record(("id", "int"), ("dropped", "string")))
    new = parse_schema(record(("id", "long"), ("added", "string")))
    groups = group_by_reader(new, {1: old, 2: new})
    assert [ids for _, ids in groups] == [(2, 1)]
    assert groups[0][0].fields == (
        ("id", Node("long")),
        ("added", Node("string")),
        ("dropped", Node("string")),
    )


def test_a_retyped_column_gets_a_reader_of_its_own() -> None:
    old = parse_schema(record(("id", "long"), ("price", "int")))
    new = parse_schema(record(("id", "long"), ("price", "string")))
    assert [(reader, ids) for reader, ids in group_by_reader(new, {1: old, 2: new})] == [
        (new, (2,)),
        (old, (1,)),
    ]


def test_decimals_of_another_scale_are_not_the_same() -> None:
    """Avro would read one's digits with the other's scale, without an error."""

    def decimal(precision: int, scale: int) -> Node:
        return Node("bytes", logical="decimal", precision=precision, scale=scale)

    assert merge_nodes(decimal(10, 2), decimal(10, 3)) is None
    assert merge_nodes(decimal(10, 2), decimal(12, 2)) == decimal(12, 2)


def test_the_readers_fields_may_all_be_null_and_are_limited() -> None:
    source = record(("lsn", "long"), ("version", "string"), name="a.Source")
    schema = reader_schema(
        parse_schema(record(("source", source), ("again", ["null", "a.Source"]))), keep={"source": ["lsn"]}
    )
    assert schema["fields"][0] == {
        "name": "source",
        "type": [
            "null",
            {
                "type": "record",
                "name": "a.Source",
                "fields": [{"name": "lsn", "type": ["null", {"type": "long"}], "default": None}],
            },
        ],
        "default": None,
    }
    assert schema["fields"][1]["type"] == ["null", "a.Source"]
    assert schema["fields"][-1] == {"name": "tidings_decoded", "type": "boolean", "default": True}
