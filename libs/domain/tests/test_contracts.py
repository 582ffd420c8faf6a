"""Contracts are checked as they are read, compared in words, and become classes."""

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_domain.contracts.codegen import generate
from tidings_domain.contracts.compatibility import incompatibilities
from tidings_domain.contracts.contracts import Contracts, parse_contracts, read_contracts
from tidings_domain.errors import ContractError

MakeContract = Callable[..., tuple[str, str]]
PATH = "depot/thing-made/v1.avsc"
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "ThingMade",
    "namespace": "depot.thing_made.v1",
    "doc": "A thing was made.",
    "fields": [
        {"name": "id", "type": "long", "doc": "Its number."},
        {"name": "price", "type": MONEY, "doc": "What it costs."},
        {"name": "note", "type": ["null", "string"], "default": None, "doc": "A remark, if there is one."},
        {
            "name": "parts",
            "doc": "What it is made of.",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Part",
                    "doc": "A part.",
                    "fields": [
                        {"name": "no", "type": "int", "doc": "Its number."},
                        {
                            "name": "kind",
                            "doc": "Its kind.",
                            "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
                        },
                    ],
                },
            },
        },
    ],
}


def parse(schema: Any, path: str = PATH) -> Contracts:
    return parse_contracts({path: schema if isinstance(schema, str) else json.dumps(schema)}, "schemas")


def changed(*path: Any, to: Any = None, without: str | None = None) -> dict[str, Any]:
    """The schema with one place changed, or one key taken away."""
    schema = copy.deepcopy(SCHEMA)
    place: Any = schema
    for step in path if without else path[:-1]:
        place = place[step]
    if without:
        del place[without]
    else:
        place[path[-1]] = to
    return schema


def with_field(*place: Any, **field: Any) -> dict[str, Any]:
    schema = copy.deepcopy(SCHEMA)
    fields: Any = schema
    for step in (*place, "fields"):
        fields = fields[step]
    fields.append({"doc": "New.", **field})
    return schema


def without_field(name: str) -> dict[str, Any]:
    schema = copy.deepcopy(SCHEMA)
    schema["fields"] = [field for field in schema["fields"] if field["name"] != name]
    return schema


PART = ("fields", 3, "type", "items")


def test_a_contract_knows_its_topic_and_subject() -> None:
    contract = parse(SCHEMA)["depot", "thing-made", 1]
    assert (contract.topic, contract.subject) == ("depot.thing-made.v1", "depot.thing-made.v1-value")
    assert re.fullmatch("[0-9a-f]{16}", contract.fingerprint)
    assert (
        parse(changed("doc", to="Other words."))["depot", "thing-made", 1].fingerprint == contract.fingerprint
    )


@pytest.mark.parametrize(
    ("schema", "path", "says"),
    [
        (SCHEMA, "depot/thing-made/1.avsc", r"a contract is <domain>/<event>/v<major>\.avsc"),
        (SCHEMA, "depot/ThingMade/v1.avsc", r"in lower case with hyphens"),
        ("{", PATH, r"v1\.avsc:1: not JSON"),
        ('"string"', PATH, r"an event is an Avro record"),
        (changed("fields", 0, "type", to="lnog"), PATH, r"not an Avro schema: "),
        (
            changed("name", to="ThingsMade"),
            PATH,
            r"the record is called 'ThingsMade', its directory says 'ThingMade'",
        ),
        (changed("namespace", to="depot"), PATH, r"the namespace must be 'depot\.thing_made\.v1'"),
        (SCHEMA, "depot/thing-made/v2.avsc", r"the namespace must be 'depot\.thing_made\.v2'"),
        (changed(without="doc"), PATH, r"record 'ThingMade' has no doc"),
        (changed("fields", 1, without="doc"), PATH, r"field 'price' has no doc"),
        (changed(*PART, "fields", 0, without="doc"), PATH, r"field 'parts\[\]\.no' has no doc"),
        (
            changed("fields", 2, "type", to=["null", "int", "string"]),
            PATH,
            r"field 'note': a union may only be null and one",
        ),
        (
            changed("fields", 0, "type", to=["long"]),
            PATH,
            r"field 'id': a union may only be null and one",
        ),
        (
            changed(
                "fields",
                0,
                "type",
                to=["null", {"type": "enum", "name": "S", "symbols": ["new", "in progress"]}],
            ),
            PATH,
            r"v1\.avsc: field 'id': 'in progress' is not an Avro enum's symbol: letters",
        ),
        (
            changed(*PART, "fields", 0, "type", to={"type": "enum", "name": "S", "symbols": ["2nd"]}),
            PATH,
            r"field 'parts\[\]\.no': '2nd' is not an Avro enum's symbol",
        ),
        (
            changed("fields", 0, "type", to={"type": "long", "logicalType": "timestamp-nanos"}),
            PATH,
            r"field 'id': logical type 'timestamp-nanos' of long is not supported",
        ),
    ],
)
def test_what_is_wrong_with_a_contract_is_told(schema: Any, path: str, says: str) -> None:
    with pytest.raises(ContractError, match=says):
        parse(schema, path)


def test_all_problems_are_told_at_once() -> None:
    schema = changed("namespace", to="x")
    del schema["doc"]
    with pytest.raises(ContractError) as caught:
        parse_contracts({PATH: json.dumps(schema), "a.avsc": "{}"}, "schemas")
    assert len(str(caught.value).splitlines()) == 3


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="is not a directory"):
        read_contracts(tmp_path / "none")


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        changed("doc", to="Other words."),
        changed("fields", to=list(reversed(SCHEMA["fields"]))),
        without_field("note"),
        with_field(name="colour", type=["null", "string"], default=None),
        with_field(name="count", type="int", default=0),
        with_field(*PART, name="size", type="int", default=1),
        changed("fields", 0, "type", to={"type": "long"}),
        changed("fields", 2, "default", to=None),
    ],
)
def test_what_may_change_within_a_major_version(schema: Any) -> None:
    assert incompatibilities(parse(SCHEMA), parse(schema)) == []


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (
            without_field("id"),
            "field 'id' was removed and has no default: whoever reads with the earlier contract cannot",
        ),
        (
            with_field(name="colour", type="string"),
            "field 'colour' was added without a default: whoever reads with the new",
        ),
        (with_field(*PART, name="size", type="int"), "field 'parts[].size' was added without a default"),
        (
            changed("fields", 0, "type", to="int"),
            "field 'id' was long and is int: make it a new major version",
        ),
        (changed("fields", 0, "type", to=["null", "long"]), "field 'id' was long and is null or long"),
        (changed("fields", 0, "name", to="number"), "field 'id' was removed"),
        (changed("fields", 1, "type", "scale", to=3), "field 'price' was decimal(10,2) and is decimal(10,3)"),
        (changed("fields", 1, "type", to="bytes"), "field 'price' was decimal(10,2) and is bytes"),
        (changed("fields", 2, "type", to=["null", "long"]), "field 'note' was string and is long"),
        (
            changed("fields", 3, "type", to={"type": "map", "values": "int"}),
            "field 'parts' was array and is map",
        ),
        (
            changed(*PART, "name", to="Piece"),
            "field 'parts[]': the record was called Part and is called Piece",
        ),
        (
            changed(*PART, "fields", 1, "type", "symbols", to=["A"]),
            "the symbols B were removed from an enum without a default",
        ),
        (
            changed(*PART, "fields", 1, "type", "symbols", to=["A", "B", "C"]),
            "the symbols C were added to an enum without",
        ),
    ],
)
def test_what_may_not_change_is_said_in_words(schema: Any, says: str) -> None:
    told = incompatibilities(parse(SCHEMA), parse(schema))
    assert any(says in sentence for sentence in told), told
    assert all(sentence.startswith("depot.thing-made.v1: ") for sentence in told)


def kinds(*symbols: str, **more: Any) -> dict[str, Any]:
    return changed(
        *PART, "fields", 1, "type", to={"type": "enum", "name": "Kind", "symbols": symbols, **more}
    )


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        (kinds("A", "B", default="A"), kinds("A", "B", "C", default="A"), 0),
        (kinds("A", "B"), kinds("A", "B", "C", default="A"), 1),
        (kinds("A", "B"), kinds("A", default="A"), 0),
        (kinds("A", "B", default="A"), kinds("A"), 1),
    ],
)
def test_an_enum_needs_a_default_where_the_symbol_is_unknown(old: Any, new: Any, count: int) -> None:
    assert len(incompatibilities(parse(old), parse(new))) == count


def test_a_removed_contract_is_told() -> None:
    assert incompatibilities(parse(SCHEMA), {}) == [
        "depot.thing-made.v1: the contract was removed; its topic still has readers and retained events"
    ]


def test_generated_classes(make_contract: MakeContract) -> None:
    files = dict(
        [
            (PATH, json.dumps(SCHEMA)),
            make_contract(
                "thing-made",
                2,
                {"name": "class", "type": "string", "default": 'a "b"\\c'},
                {"name": "count", "type": "int", "default": 7},
                {"name": "ready", "type": "boolean", "default": False},
                {"name": "words", "type": {"type": "array", "items": "string"}, "default": []},
            ),
        ]
    )
    text = generate("depot", parse_contracts(files, "schemas"))
    space: dict[str, Any] = {"__name__": "generated"}
    exec(compile(text, "generated.py", "exec"), space)
    assert space["ThingMade"] is space["ThingMadeV2"]
    made = space["ThingMade"]()
    assert (made.class_, made.count, made.ready, made.words) == ('a "b"\\c', 7, False, ())
    thing = space["ThingMadeV1"](id=1, price=None, parts=())
    assert thing.note is None
    assert json.loads(thing.__contract__) == SCHEMA
    with pytest.raises(AttributeError):
        thing.id = 2
    assert "no: Its number." in space["ThingMadeV1Part"].__doc__
    assert text == generate("depot", parse_contracts(dict(reversed(files.items())), "elsewhere"))
