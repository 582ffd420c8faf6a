"""Of the tests that take longest, three runs with the three turns have each of them once; the root's conftest.py chooses."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import pytest

@pytest.mark.turns
@pytest.mark.parametrize("number", range(12))
def test_by_itself(number): ...

@pytest.mark.turns("together")
@pytest.mark.parametrize("number", range(4))
def test_in_common(number): ...

def test_always(): ...
"""


@pytest.fixture
def ran(tmp_path: Path) -> "Ran":
    (tmp_path / "conftest.py").write_bytes((ROOT / "conftest.py").read_bytes())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    turns\n    long\n")
    (tmp_path / "test_some.py").write_text(TESTS)
    return Ran(tmp_path)


class Ran:
    """pytest in a directory that has the root's conftest.py."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(self, *options: str) -> tuple[set[str], str]:
        """The tests that passed, and what was printed."""
        command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=True)
        return {line.split(" ")[0] for line in done.stdout.splitlines() if " PASSED " in line}, done.stdout


def test_each_test_has_one_turn(ran: Ran) -> None:
    everything, printed = ran()
    assert len(everything) == 17
    assert "tests that take longest: all" in printed
    turns = [ran("--turn", str(turn))[0] for turn in (1, 2, 3)]
    always = set.intersection(*turns)
    assert always == {"test_some.py::test_always"}
    assert set.union(*turns) == everything
    assert sum(len(turn - always) for turn in turns) == 16
    common = {name for name in everything if "in_common" in name}
    assert sorted(len(turn & common) for turn in turns) == [0, 0, 4]
    assert all(len(turn) > 2 for turn in turns)


def test_the_commit_says_whose_turn_it_is(ran: Ran) -> None:
    assert len(ran("--turn", "auto")[0]) == 17, "without a commit all of them"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "tests"]):
        subprocess.run([*git, *arguments], cwd=ran.directory, check=True)
    found, printed = ran("--turn", "auto")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ran.directory, capture_output=True, text=True, check=True
    )
    turn = int(head.stdout, 16) % 3 + 1
    assert f"tests that take longest: turn {turn} of 3" in printed
    assert found == ran("--turn", str(turn))[0]
