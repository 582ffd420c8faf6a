"""The points at which tests end the process: off without the variable, once when asked for."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidings_capture.cdc.fault_points import POINTS

PASSES = (
    "from tidings_capture.cdc.fault_points import reached; print('before', flush=True); {}; print('after')"
)


def passes(calls: Any, environment: Any) -> Any:
    return subprocess.run(
        [sys.executable, "-c", PASSES.format(calls)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_off(tmp_path: Path) -> None:
    file = tmp_path / "points"
    file.write_text("batch.sent kill 0")
    done = passes("reached('batch.sent')", {"TIDINGS_FAULT_POINTS": ""})
    assert (done.returncode, done.stdout) == (0, "before\nafter\n")
    assert file.exists()


@pytest.mark.parametrize(
    ("asked", "calls", "left"),
    [
        ("batch.sent kill 0", "reached('batch.sent')", None),
        ("batch.sent kill 2", "[reached('batch.sent') for _ in range(3)]", None),
        ("batch.sent kill 2", "reached('batch.sent')", "batch.sent kill 1"),
        ("batch.sent kill 0", "reached('offset.stored')", "batch.sent kill 0"),
        ("", "reached('offset.stored')", ""),
    ],
)
def test_the_process_ends_where_it_was_asked_to_and_once(
    tmp_path: Path, asked: str, calls: str, left: str | None
) -> None:
    file = tmp_path / "points"
    file.write_text(asked)
    done = passes(calls, {"TIDINGS_FAULT_POINTS": str(file)})
    assert (file.read_text() if file.exists() else None) == left
    assert done.returncode == (-signal.SIGKILL if left is None else 0)
    assert done.stdout.startswith("before\n")
    assert ("after" in done.stdout) is (left is not None)
    assert passes(calls, {"TIDINGS_FAULT_POINTS": str(tmp_path / "none")}).returncode == 0


@pytest.mark.listing
def test_every_point_is_somewhere_in_the_code() -> None:
    from pathlib import Path

    import tidings_capture
    import tidings_connect

    packages = (tidings_capture.__path__[0], tidings_connect.__path__[0])
    text = "".join(p.read_text() for package in packages for p in Path(package).rglob("*.py"))
    assert [point for point in POINTS if f'reached("{point}")' not in text] == []
