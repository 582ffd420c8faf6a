"""A small domain of its own for tests: boxes with items and an owner, written as a real package; fixtures for conftests."""

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings_domain import Domain, load_domain
from tidings_domain.contracts.codegen import generate
from tidings_domain.contracts.contracts import parse_contracts

_NUMBERS = itertools.count()


def contract(event: str, major: int, *fields: dict[str, Any], domain: str = "depot") -> tuple[str, str]:
    """A contract file: its path below the schemas directory and its text."""
    schema = {
        "type": "record",
        "name": "".join(part.capitalize() for part in event.split("-")),
        "namespace": f"{domain}.{event.replace('-', '_')}.v{major}",
        "doc": "A test's event.",
        "fields": [{"doc": "A test's field.", **field} for field in fields],
    }
    return f"{domain}/{event}/v{major}.avsc", json.dumps(schema)


BOX_ID = {"name": "box_id", "type": "long"}
WEIGHT = {"name": "weight", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3}}
OWNER = {"name": "owner", "type": ["null", "string"], "default": None}
CONTRACTS = dict(
    [
        contract("box-packed", 1, BOX_ID),
        contract("box-packed", 2, BOX_ID, WEIGHT, OWNER),
        contract("item-added", 1, BOX_ID, {"name": "item_no", "type": "int"}),
        contract("box-gone", 1, BOX_ID),
    ]
)

AGGREGATES = """
from datetime import date, datetime, time
from decimal import Decimal
from typing import Literal
from uuid import UUID

from tidings_domain import Aggregate, Row, children, reference


class Owner(Row, table="public.owners", key="id"):
    id: int
    name: str


class Item(Row, table="public.items", key=("box_id", "no")):
    box_id: int
    no: int
    weight: Decimal
    label: str | None = None


class Seal(Row, table="public.seals", key="id"):
    id: int


class Box(Aggregate, root="public.boxes", key="id"):
    id: int
    state: Literal["open", "packed"]
    note: str | None
    owner_id: int | None
    items = children(Item, by="box_id")
    seals = children(Seal, by="box_id")
    owner = reference(Owner, by="owner_id")
"""

RULES = """
from decimal import Decimal

from tidings_domain import rule

from PACKAGE.aggregates import Box
from PACKAGE.events import BoxGone, BoxPacked, ItemAdded


@rule(Box, emits=BoxPacked)
def packed(change):
    if change.became(Box.state, "packed"):
        weight = sum((item.weight for item in change.after.items), Decimal(len(change.after.seals)))
        owner = change.after.owner
        yield BoxPacked(box_id=change.after.id, weight=weight, owner=owner.name if owner else None)


@rule(Box, emits=ItemAdded)
def item_added(change):
    for item in change.added(Box.items):
        yield ItemAdded(box_id=change.after.id, item_no=item.no)


@rule(Box, emits=BoxGone)
def gone(change):
    if change.deleted:
        yield BoxGone(box_id=change.before.id)
"""

VERSIONS = """
from tidings_domain import down_conversion

from PACKAGE.events import BoxPackedV1, BoxPackedV2


@down_conversion(BoxPackedV2, to=BoxPackedV1)
def box_packed_v1(event):
    return BoxPackedV1(box_id=event.box_id)
"""

FILES = {"__init__.py": "", "aggregates.py": AGGREGATES, "rules.py": RULES, "versions.py": VERSIONS}

WriteDomain = Callable[..., str]
LoadDomain = Callable[..., Domain]


@pytest.fixture
def write_domain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteDomain]:
    """Writes a package (the box domain with some files replaced) and gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written: list[str] = []

    def write(files: dict[str, str] | None = None, contracts: dict[str, str] | None = None) -> str:
        package = f"boxes_{next(_NUMBERS)}"
        directory = tmp_path / package
        directory.mkdir()
        texts = dict(FILES)
        texts["events.py"] = generate("depot", parse_contracts(contracts or CONTRACTS, "schemas"))
        for name, text in (texts | (files or {})).items():
            (directory / name).write_text(text.replace("PACKAGE", package), encoding="utf-8")
        importlib.invalidate_caches()
        written.append(package)
        return package

    yield write
    for name in list(sys.modules):
        if name.partition(".")[0] in written:
            del sys.modules[name]


@pytest.fixture
def box_domain(write_domain: WriteDomain) -> LoadDomain:
    """Loads the box domain, with some files or contracts replaced."""

    def load(files: dict[str, str] | None = None, contracts: dict[str, str] | None = None) -> Domain:
        return load_domain(write_domain(files, contracts))

    return load


@pytest.fixture
def make_contract() -> Callable[..., tuple[str, str]]:
    """The function that writes a contract's text."""
    return contract


@pytest.fixture
def box_files() -> dict[str, str]:
    """The texts of the box domain, to be changed by a test."""
    return dict(FILES)


@pytest.fixture
def box_contracts() -> dict[str, str]:
    """The contracts of the box domain, to be changed by a test."""
    return dict(CONTRACTS)


@pytest.fixture
def node() -> Callable[..., Any]:
    """``node(script, *arguments)`` runs a program of Node with the packages that scripts/tools.sh has fetched, and gives the
    JSON that it prints; skips the test where Node or the packages are not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings"
    packages = Path(os.environ.get("TIDINGS_CACHE", cache)) / "tools" / "npm"
    program = shutil.which("node")
    if program is None or not packages.is_dir():
        pytest.skip("programs of Node cannot run: `scripts/tools.sh npm` fetches what they need (needs npm)")

    def run(script: Path, *arguments: str) -> Any:
        done = subprocess.run(
            [program, str(script), str(packages), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
