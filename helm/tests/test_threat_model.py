"""Every line of the threat model in docs/security.md names tests that there are."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.listing
def test_every_line_of_the_threat_model_has_its_tests() -> None:
    page = (ROOT / "docs" / "security.md").read_text("utf-8").partition("## Threat model")[2]
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| Who ")]
    assert len(lines) > 20
    there = {
        name
        for place in ("services", "libs", "tests", "helm")
        for path in (ROOT / place).rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    for line in lines:
        named = re.findall(r"`(test_\w+)`", line)
        assert named, line
        assert set(named) <= there, line
