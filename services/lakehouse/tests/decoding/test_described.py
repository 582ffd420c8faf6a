"""What schemas say of fields beside their types."""

from __future__ import annotations

from typing import Any

import pytest
from lakelab.json_topics import ROW, envelope
from lakelab.schemas import ORDERS, envelope_schema, key_schema

from tidings_lakehouse.decoding.described import Described, described
from tidings_lakehouse.formats.connect_schemas import avro_of


def test_the_row_of_an_envelope_is_described() -> None:
    schema = envelope_schema("shop.public.orders", [{**ORDERS[0], "doc": "the number"}, *ORDERS[1:]])
    schema["fields"][0]["type"][1]["doc"] = "what customers have bought"
    assert described(schema, 1) == Described(
        "what customers have bought", {"id": "the number"}, frozenset({"id"})
    )
    assert described(key_schema("shop.public.orders", ORDERS), 1).required == {"id"}


@pytest.mark.parametrize(
    ("field", "comment"),
    [
        ({"type": "int", "doc": "a"}, "a"),
        ({"type": {"type": "int", "connect.doc": "a"}}, "a"),
        ({"type": ["null", {"type": "int", "connect.doc": "a"}]}, "a"),
        ({"type": ["null", {"type": "int", "connect.doc": ""}]}, None),
        ({"type": ["null", {"type": "int", "doc": {}}]}, None),
        (
            {"type": {"type": "record", "name": "V", "fields": [], "connect.doc": "Variable scaled decimal"}},
            None,
        ),
    ],
)
def test_a_field_has_the_comment_of_its_type(field: dict[str, Any], comment: str | None) -> None:
    record = {"type": "record", "name": "Key", "fields": [{"name": "n", **field}]}
    assert described(record, 1).comments.get("n") == comment


def test_comments_of_json_are_those_of_connect_and_nothing_in_its_rows_is_required() -> None:
    schema = avro_of(envelope("shop.public.orders", [{**ROW[0], "doc": "the number"}, *ROW[1:]]))
    assert described(schema, -5) == Described("", {"id": "the number"}, frozenset())


@pytest.mark.parametrize("schema", ["string", {"type": "array", "items": "int"}, None])
def test_what_is_no_record_says_nothing(schema: Any) -> None:
    assert described(schema, 1) == Described()
