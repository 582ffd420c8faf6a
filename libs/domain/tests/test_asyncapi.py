"""The AsyncAPI document: what is in it, and that the official parser takes it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings_domain.contracts.asyncapi import asyncapi
from tidings_domain.contracts.cli import main
from tidings_domain.contracts.contracts import parse_contracts

Node = Callable[..., Any]
ROOT = Path(__file__).parents[3]
PARSE = Path(__file__).parent / "asyncapi.mjs"


def parse(node: Node, document: dict[str, Any], directory: Path) -> dict[str, Any]:
    """What the official parser makes of a document."""
    file = directory / "asyncapi.json"
    file.write_text(json.dumps(document))
    found: dict[str, Any] = node(PARSE, str(file))
    return found


@pytest.mark.tools
def test_the_shops_document_is_valid(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["asyncapi", "--server", "kafka.example.org:9092", "--document-version", "2.0.1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["info"]["version"], document["servers"]["kafka"]["host"]) == (
        "2.0.1",
        "kafka.example.org:9092",
    )
    found = parse(node, document, tmp_path)
    assert found["problems"] == []
    channels = {one["address"]: one["messages"] for one in found["channels"]}
    contracts = {f"shop.{file.parent.name}.{file.stem}" for file in (ROOT / "schemas/shop").rglob("*.avsc")}
    assert set(channels) == contracts
    (placed,) = channels["shop.order-placed.v2"]
    assert placed["id"] == "OrderPlacedV2"
    assert "ce_id" in placed["required"]
    schema = json.loads((ROOT / "schemas/shop/order-placed/v2.avsc").read_text())
    assert placed["fields"] == [field["name"] for field in schema["fields"]]


@pytest.mark.tools
def test_the_parser_would_tell(node: Node, tmp_path: Path, box_contracts: dict[str, str]) -> None:
    contracts = parse_contracts(box_contracts, "schemas")
    document = asyncapi("depot", contracts.values(), version="1.0.0")
    assert parse(node, document, tmp_path)["problems"] == []
    del document["info"]["version"]
    assert parse(node, document, tmp_path)["problems"]


def test_a_version_that_ends_is_told_in_the_document(box_contracts: dict[str, str]) -> None:
    path = "depot/box-packed/v1.avsc"
    told = {"deprecated": "2026-11-01", "sunset": "2027-05-01", "migration": "https://example.org/v2"}
    texts = box_contracts | {path: json.dumps(json.loads(box_contracts[path]) | told)}
    document = asyncapi("depot", parse_contracts(texts, "schemas").values(), version="1.0.0")
    messages = document["components"]["messages"]
    assert messages["BoxPackedV1"]["description"] == (
        "Deprecated since 2026-11-01; may be gone from 2027-05-01. Read depot.box-packed.v2 instead."
    )
    assert messages["BoxPackedV1"]["externalDocs"] == {"url": "https://example.org/v2"}
    assert "tags" not in messages["BoxPackedV2"]


def test_a_domain_has_to_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["asyncapi", "--domain", "nowhere"]) == 1
    assert "there is no domain 'nowhere'" in capsys.readouterr().err
