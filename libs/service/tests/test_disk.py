"""Room on a disk, and directories that a killed process has left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidings_service.disk import DiskBudget, NoRoomError, OwnDirectory

_HOLD = """
import sys
from tidings_service.disk import OwnDirectory
print(OwnDirectory("test-", sys.argv[1]).path, flush=True)
sys.stdin.read()
"""


def test_files_take_no_more_than_they_may(tmp_path: Path) -> None:
    budget = DiskBudget(tmp_path, 100, 0, ("MOST", "FREE"))
    budget.take(60)
    with pytest.raises(NoRoomError, match="MOST allows 100"):
        budget.take(41)
    assert budget.used_bytes == 60
    budget.give_back(60)
    budget.take(100)


def test_a_disk_is_not_filled(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    budget = DiskBudget(tmp_path, None, disk.f_bavail * disk.f_frsize // 2, ("MOST", "FREE"))
    budget.take(1)
    with pytest.raises(NoRoomError, match=r"FREE=.* must be left"):
        budget.take(disk.f_bavail * disk.f_frsize // 2 + (1 << 30))


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    try:
        paths = []
        for child in children:
            assert child.stdout is not None
            paths.append(Path(child.stdout.readline().decode().strip()))
        killed, alive = paths
        (killed / "rows").write_text("x")
        children[0].send_signal(signal.SIGKILL)
        children[0].wait(60)
        fresh, old, other = tmp_path / "test-fresh", tmp_path / "test-old", tmp_path / "others"
        for path in (fresh, old, other):
            path.mkdir()
        os.utime(old, (time.time() - 7200,) * 2)  # of a version that had no locks
        (tmp_path / "test-link").symlink_to(other)
        with OwnDirectory("test-", tmp_path) as own:
            assert not killed.exists()
            assert not old.exists()
            assert alive.is_dir()
            assert fresh.is_dir()
            assert other.is_dir()
            assert own.path.stat().st_mode & 0o777 == 0o700
        assert not own.path.exists()
        own.cleanup()
    finally:
        for child in children:
            child.kill()
            child.communicate()
