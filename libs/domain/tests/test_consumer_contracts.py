"""What a downstream team reads is checked against what is published, and said in words; fastavro is the judge."""

import io
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import fastavro
import pytest

from tidings_domain.contracts.cli import main
from tidings_domain.contracts.consumers import parse_consumer_contracts, problems
from tidings_domain.contracts.contracts import parse_contracts
from tidings_domain.errors import ContractError

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
LINE = {
    "type": "record", "name": "Line", "doc": "d",
    "fields": [
        {"name": "no", "type": "int", "doc": "d"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "doc": "d"},
    ],
}  # fmt: skip
WRITER: dict[str, Any] = {
    "type": "record", "name": "ThingMade", "namespace": "depot.thing_made.v1", "doc": "d",
    "fields": [
        {"name": "id", "type": "int", "doc": "d"},
        {"name": "price", "type": MONEY, "doc": "d"},
        {"name": "note", "type": ["null", "string"], "default": None, "doc": "d"},
        {"name": "lines", "type": {"type": "array", "items": LINE}, "doc": "d"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "doc": "d"},
    ],
}  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {
        "id": 7,
        "price": b"\x01",
        "note": None,
        "lines": [{"no": 1, "kind": "A"}, {"no": 2, "kind": "B"}],
        "at": 5,
    },
    {"id": 8, "price": b"\x02", "note": "n", "lines": [], "at": 6},
]


def reader(*fields: Any, name: str = "ThingMade", **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [dict(zip(("name", "type"), f, strict=False)) | d for *f, d in fields],
        **more,
    }


def field(name: str, kind: Any, **more: Any) -> Any:
    return (name, kind, more)


def lines(*fields: Any) -> Any:
    return field("lines", {"type": "array", "items": reader(*fields, name="Line")})


def kind(*symbols: str, **more: Any) -> Any:
    return field("kind", {"type": "enum", "name": "Kind", "symbols": list(symbols), **more})


def told(schema: dict[str, Any], path: str = "consumers/billing/depot.thing-made.v1.avsc") -> list[str]:
    contracts = parse_contracts({"depot/thing-made/v1.avsc": json.dumps(WRITER)}, "schemas")
    return problems(parse_consumer_contracts({path: json.dumps(schema)}, "schemas"), contracts)


def plain(schema: Any) -> Any:
    """Without logical types, which fastavro would check against Python values."""
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "logicalType"}
    return [plain(one) for one in schema] if isinstance(schema, list) else schema


def fastavro_reads(schema: dict[str, Any]) -> bool:
    writer, wanted = (fastavro.parse_schema(plain(deepcopy(one))) for one in (WRITER, schema))
    for event in EVENTS:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, writer, event)
        out.seek(0)
        try:
            fastavro.schemaless_reader(out, writer, wanted)
        except Exception:  # noqa: BLE001 - whatever it raises, it cannot read
            return False
    return True


@pytest.mark.parametrize(
    "schema",
    [
        {key: value for key, value in WRITER.items() if key != "namespace"},
        reader(field("id", "int")),
        reader(field("id", "long")),
        reader(field("id", "double")),
        reader(field("id", ["null", "long"])),
        reader(field("number", "int", aliases=["id"])),
        reader(field("id", "int"), field("colour", "string", default="red")),
        reader(field("price", MONEY | {"precision": 12})),
        reader(field("price", "bytes")),
        reader(field("at", "long")),
        reader(field("note", ["string", "null"])),
        reader(lines(field("no", "long"))),
        reader(lines(kind("B", "C", "A"))),
        reader(lines(kind("A", "Z", default="Z"))),
        reader(field("id", "int"), name="Thing", aliases=["ThingMade"]),
    ],
)
def test_what_a_team_can_read(schema: dict[str, Any]) -> None:
    assert told(schema) == []
    assert fastavro_reads(schema)


@pytest.mark.parametrize(
    ("schema", "says", "by_value"),
    [
        (reader(field("colour", "string")), "they need field 'colour', which is not in the contract; known are: at, id", False),
        (reader(field("prise", MONEY)), "they need field 'prise', which is not in the contract; did you mean 'price'?", False),
        (reader(field("id", "string")), "field 'id' is int, they read string", False),
        (reader(field("at", "int")), "field 'at' is timestamp-micros, they read int", False),
        (reader(field("note", "string")), "field 'note' may be missing (null), and they read string", False),
        (reader(field("note", ["null", "long"])), "field 'note' is string, they read null or long", False),
        (reader(lines(field("size", "int"))), "they need field 'lines[].size', which is not in the contract", False),
        (reader(lines(kind("A"))), "field 'lines[].kind' may be B, which they do not know, and their enum has no", False),
        (reader(field("lines", {"type": "map", "values": "int"})), "field 'lines' is array, they read map", False),
        # Avro would give them a number, and not the one that was meant.
        (reader(field("price", MONEY | {"scale": 3})), "field 'price' is decimal(10,2), they read decimal(10,3): same scale", True),
        (reader(field("price", MONEY | {"precision": 8})), "field 'price' is decimal(10,2), they read decimal(8,2)", True),
        (reader(field("at", {"type": "long", "logicalType": "timestamp-millis"})), "field 'at' is timestamp-micros, they read", True),
        (reader(field("id", "int"), name="Other"), "the event: the record is called ThingMade, in their schema Other", True),
    ],
)  # fmt: skip
def test_what_a_team_cannot_read_is_said_in_words(schema: dict[str, Any], says: str, by_value: bool) -> None:
    [sentence] = told(schema)
    assert sentence.startswith(
        "team billing reads depot.thing-made.v1 (schemas/consumers/billing/depot.thing-made.v1.avsc): "
    )
    assert says in sentence
    assert by_value or not fastavro_reads(schema)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "consumers/billing/depot.thing-made.v2.avsc",
            "that version is not published (live: v1): keep it until",
        ),
        ("consumers/billing/depot.thing-maid.v1.avsc", "not published; did you mean 'depot.thing-made'?"),
    ],
)
def test_a_version_that_is_not_published(path: str, says: str) -> None:
    [sentence] = told(reader(field("id", "int")), path)
    assert says in sentence


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (
            "consumers/billing.avsc",
            "{}",
            "a consumer contract is consumers/<team>/<domain>.<event>.v<major>.avsc",
        ),
        ("consumers/b/depot.x.v1.avsc", "{", "depot.x.v1.avsc:1: not JSON"),
        ("consumers/b/depot.x.v1.avsc", '"long"', "an event is an Avro record"),
        ("consumers/b/depot.x.v1.avsc", json.dumps(reader()), "an event is an Avro record with fields"),
        ("consumers/b/depot.x.v1.avsc", json.dumps(reader(field("a", "nope"))), "not an Avro schema"),
    ],
)
def test_a_wrong_file_is_told(path: str, text: str, says: str) -> None:
    with pytest.raises(ContractError, match=says):
        parse_consumer_contracts({path: text}, "schemas")


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tidings-schemas]\n")

    def write(directory: str, writer: dict[str, Any]) -> None:
        for path, schema in (
            ("depot/thing-made/v1.avsc", writer),
            (
                "consumers/billing/depot.thing-made.v1.avsc",
                reader(field("id", "int"), field("colour", "string")),
            ),
        ):
            file = tmp_path / directory / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(schema))

    monkeypatch.chdir(tmp_path)
    coloured = deepcopy(WRITER)
    coloured["fields"].append({"name": "colour", "type": "string", "default": "red", "doc": "d"})
    write("before", WRITER)
    write("schemas", coloured)
    assert main(["check"]) == 0
    assert "1 contracts are well-formed, and give 1 consumers what they read" in capsys.readouterr().out
    assert main(["check", "--against", "before"]) == 1, "events that were written before have no colour"
    assert "they need field 'colour'" in (err := capsys.readouterr().err)
    assert "(events as of before)" in err
    write("schemas", WRITER)
    assert main(["check"]) == 1
    assert "team billing reads depot.thing-made.v1 (schemas/consumers/billing/" in capsys.readouterr().err
