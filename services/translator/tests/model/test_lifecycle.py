"""Versions that end: what a contract says of it, and who is told."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from tidings_domain.contracts.cli import main
from tidings_domain.contracts.compatibility import incompatibilities
from tidings_domain.contracts.contracts import Contracts, parse_contracts
from tidings_domain.errors import ContractError
from tidings_domain.testing import Rehearsal, insert
from tidings_translator.translation.translator import show_lifecycle

Load = Callable[..., Any]
V1 = "depot/box-packed/v1.avsc"


def ending(contracts: dict[str, str], **attributes: Any) -> dict[str, str]:
    """The contracts with attributes on the first version of box-packed."""
    return contracts | {V1: json.dumps(json.loads(contracts[V1]) | attributes)}


def parsed(contracts: dict[str, str], **attributes: Any) -> Contracts:
    return parse_contracts(ending(contracts, **attributes), "schemas")


def test_a_version_that_ends_says_so_in_its_headers(box_domain: Load, box_contracts: dict[str, str]) -> None:
    told = {"deprecated": "2026-11-01", "sunset": "2027-05-01", "migration": "https://example.org/v2"}
    boxes = Rehearsal(box_domain(contracts=ending(box_contracts, **told)))
    happened = boxes.when(insert("public.boxes", id=17, state="packed", note=None, owner_id=None))
    headers = {one.topic: dict(one.headers) for one in happened.published}
    assert {
        name: value for name, value in headers["depot.box-packed.v1"].items() if name.startswith("ce_dep")
    } == {
        "ce_deprecated": b"true",
        "ce_deprecationfrom": b"2026-11-01T00:00:00Z",
        "ce_deprecationsunset": b"2027-05-01T00:00:00Z",
        "ce_deprecationmigration": b"https://example.org/v2",
    }
    assert not [name for name in headers["depot.box-packed.v2"] if name.startswith("ce_dep")]


def test_a_version_that_ends_is_a_metric(box_domain: Load, box_contracts: dict[str, str]) -> None:
    domain = box_domain(contracts=ending(box_contracts, deprecated="2026-11-01", sunset="2027-05-01"))
    for event in domain.event_classes():
        show_lifecycle(event)

    def value(which: str, version: str) -> float | None:
        labels = {"event": "box-packed", "version": version}
        return REGISTRY.get_sample_value(f"tidings_translator_event_{which}_timestamp_seconds", labels)

    assert value("deprecated", "v1") == datetime(2026, 11, 1, tzinfo=UTC).timestamp()
    assert value("sunset", "v1") == datetime(2027, 5, 1, tzinfo=UTC).timestamp()
    assert value("sunset", "v2") is None


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"deprecated": "soon"}, "'deprecated' must be a day such as 2027-05-01"),
        ({"deprecated": 20261101}, "'deprecated' must be a day"),
        ({"sunset": "2027-05-01"}, "'sunset' is set, but not 'deprecated'"),
        ({"migration": "https://example.org"}, "'migration' is set, but not 'deprecated'"),
        ({"deprecated": "2027-05-02", "sunset": "2027-05-01"}, "'sunset' is before 'deprecated'"),
        ({"deprecated": "2027-05-02", "migration": "read the wiki"}, "'migration' must be a URI"),
    ],
)
def test_a_wrong_lifecycle_is_told(
    box_contracts: dict[str, str], attributes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ContractError, match=f"{V1}: {problem}"):
        parsed(box_contracts, **attributes)


def test_a_sunset_may_only_be_moved_back(box_contracts: dict[str, str]) -> None:
    announced = parsed(box_contracts, deprecated="2026-11-01", sunset="2027-05-01")
    later = parsed(box_contracts, deprecated="2026-11-01", sunset="2027-06-01")
    assert incompatibilities(parsed(box_contracts), announced) == []
    assert incompatibilities(announced, later) == []
    assert incompatibilities(announced, parsed(box_contracts)) == []  # it stays after all
    told = (
        "depot.box-packed.v1: its sunset was 2027-06-01 and is 2027-05-01: it may be moved back, never forward,"
        " because readers plan by it"
    )
    assert incompatibilities(later, announced) == [told]


@pytest.mark.parametrize(("days", "code"), [(-1, 0), (30, 1)])
def test_a_version_is_not_retired_before_its_sunset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    box_contracts: dict[str, str],
    days: int,
    code: int,
) -> None:
    sunset = (datetime.now(UTC) + timedelta(days)).date()
    earlier = ending(box_contracts, deprecated="2020-01-01", sunset=str(sunset))
    for directory, files in (("earlier", earlier), ("schemas", box_contracts)):
        for path, text in files.items():
            if (directory, path) != ("schemas", V1):
                file = tmp_path / directory / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    (tmp_path / "pyproject.toml").write_text('[tool.tidings-schemas]\nschemas = "schemas"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["check", "--against", "earlier", "--retired", "depot.box-packed.v1"]) == code
    told = capsys.readouterr().err
    assert told == (
        f"depot.box-packed.v1: it is retired, but its sunset is {sunset}; readers plan by it\n" * code
    )
