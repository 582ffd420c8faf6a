"""A minute of random input at every way in; ``python -m tests.fuzz`` goes on for as long as it is let."""

import warnings
from typing import Any

import pytest
from fuzzing import parts, running

PURE_SECONDS = 3.0


@pytest.mark.parametrize("part", parts.PURE)
def test_whatever_is_read(part: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of regular expressions that people may write
        outcome = running.run(part, parts.PURE[part], seed=1, seconds=PURE_SECONDS)
    assert outcome.cases > 10, outcome
    assert not outcome.findings, "\n".join([str(outcome), *outcome.findings])


def raising(_rng: Any) -> None:
    raise KeyError


def hanging(_rng: Any) -> None:
    while True:
        pass


def greedy(_rng: Any) -> None:
    bytearray(400 << 20)


def talking(_rng: Any) -> None:
    running.said(f"the password is {running.CANARY}")


@pytest.mark.parametrize(
    ("case", "says"), [(raising, "KeyError"), (hanging, "hangs"), (greedy, "MB"), (talking, "canary")]
)
def test_what_is_a_finding(case: running.Case, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if case is hanging:
        monkeypatch.setattr(running, "HANGS_SECONDS", 0.2)
    if case is greedy:  # so much memory takes a busy machine more than a second
        monkeypatch.setattr(running, "CPU_SECONDS", 60.0)
    outcome = running.run("made", case, seed=1, seconds=0.5)
    assert outcome.findings
    assert all(says in finding for finding in outcome.findings)
    assert "--seed 1 --case 0" in outcome.findings[0]
