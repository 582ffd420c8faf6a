"""Runs random cases until a time is over; what a case may not do, whatever its input.

A case takes a random generator with a seed of its own and raises nothing but what it expects. It is a finding when one
raises something else, takes more than a second of CPU, grows the process by more than 200 MB, or says a canary. Its seed
repeats it: ``python -m tests.fuzz --part <part> --case <number> --seed <seed>``.
"""

import contextlib
import random
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CPU_SECONDS = 1.0
HANGS_SECONDS = 30.0
"""Of wall time, on a machine that does other things as well."""
GROWTH_BYTES = 200 << 20
MOST_FINDINGS = 20
CANARY = "canary-8f2c1d"
"""Stands for passwords and cells in what is fed: no error and no log may say it."""

Case = Callable[[random.Random], None]


class HangError(BaseException):
    """A case does not come back. (No `Exception`: nothing that is tested may catch it.)"""


class FoundError(Exception):
    """Something that must not be, said by the case itself."""


@dataclass
class Outcome:
    """Of one part."""

    part: str
    cases: int = 0
    slowest_seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.part}: {self.cases} cases, slowest {self.slowest_seconds:.3f} s of CPU, "
            f"{len(self.findings)} findings"
        )


def said(text: object) -> str:
    """A message that a person or a log gets.

    Raises:
        FoundError: it holds the canary.
    """
    shown = str(text)
    if CANARY in shown:
        raise FoundError("a message holds the canary")
    return shown


@contextlib.contextmanager
def bounded_memory(more_bytes: int = 2 << 30) -> Iterator[None]:
    """Within, the process can grow by so much; beyond that is a MemoryError instead of a machine without memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def run(part: str, case: Case, seed: int, seconds: float, only: int | None = None) -> Outcome:
    """Run cases for so long; with `only`, that one."""
    outcome = Outcome(part)
    seen: set[str] = set()
    deadline = time.monotonic() + seconds

    def on_alarm(_number: int, _frame: Any) -> None:
        raise HangError

    former = signal.signal(signal.SIGALRM, on_alarm)
    number = 0 if only is None else only
    try:
        with bounded_memory():
            while time.monotonic() < deadline and len(outcome.findings) < MOST_FINDINGS:
                problem, spent = _one(case, random.Random(f"{seed}/{part}/{number}"))
                outcome.cases += 1
                outcome.slowest_seconds = max(outcome.slowest_seconds, spent)
                if problem is not None and _kind(problem) not in seen:
                    seen.add(_kind(problem))
                    outcome.findings.append(
                        f"python -m tests.fuzz --part {part} --seed {seed} --case {number}\n{problem}"
                    )
                if only is not None:
                    break
                number += 1
    finally:
        signal.signal(signal.SIGALRM, former)
    return outcome


def _one(case: Case, rng: random.Random) -> tuple[str | None, float]:
    """What is wrong with one case, and its seconds of CPU."""
    _forget_peak()
    most_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    problem = None
    signal.setitimer(signal.ITIMER_REAL, HANGS_SECONDS)
    try:
        case(rng)
    except HangError:
        problem = "hangs\n" + traceback.format_exc()
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        problem = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    spent = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most_before) << 10
    if problem is None and spent > CPU_SECONDS:
        problem = f"takes {spent:.1f} s of CPU"
    if problem is None and grown > GROWTH_BYTES:
        problem = f"takes {grown >> 20} MB"
    return problem, spent


def _forget_peak() -> None:
    """The most memory that the process ever had is that of now (proc_pid_clear_refs(5), value 5): whatever ran in it before,
    as other tests, would hide what a case takes."""
    Path("/proc/self/clear_refs").write_text("5")


def _kind(problem: str) -> str:
    """What findings are told apart by: the last place and the kind of error."""
    lines = [line.strip() for line in problem.splitlines() if line.strip()]
    places = [line for line in lines if line.startswith("File ")]
    return f"{places[-1] if places else ''} {lines[-1].split(':')[0]}"
