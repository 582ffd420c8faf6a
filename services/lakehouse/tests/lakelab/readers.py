"""The documentation's snippets for readers of the lake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reading-the-lake.md"
COLUMNS = "id, status, note, amount, required_on, ordered_at, updated_at, __commit_lsn, __changed_at"


def snippet(name: str) -> str:
    """The Python of a section of the page."""
    (found,) = re.findall(rf"^## {name}\n.*?^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)
    return str(found)


def pasted(name: str, directory: Path, places: Mapping[str, str] | None = None) -> int:
    """What a snippet prints, run in a process of its own; `places` are those that stand in it, and those of the test."""
    text = snippet(name)
    for theirs, ours in (places or {}).items():
        assert theirs in text, f"{name}: {theirs}"
        text = text.replace(theirs, ours)
    # Of a Spark session in this process.
    environment = {key: value for key, value in os.environ.items() if "SPARK" not in key}
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=directory,
        env={**environment, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:3000]
    return int(done.stdout.strip())
