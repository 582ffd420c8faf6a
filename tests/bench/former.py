"""A former checkout beside this one: ``BENCH_FORMER=<checkout>`` takes the place of Debezium, or of nobody, in a benchmark.

The servers, the backlog and the measuring are this checkout's; the former one gives its installed commands, and is asked in
turn with ours. On a machine that does other work, too, only CPU seconds compare, pair by pair; ``BENCH_ROUNDS`` says how many
pairs there are. ``BENCH_FORMATS`` chooses wire formats (``json,json-schemas,avro``).
"""

import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

FORMER = os.environ.get("BENCH_FORMER")
NAME = "former"


def rounds(default: int) -> int:
    """How often each side is measured."""
    return int(os.environ.get("BENCH_ROUNDS", default))


def formats(default: Sequence[str]) -> tuple[str, ...]:
    """The wire formats that are measured."""
    chosen = os.environ.get("BENCH_FORMATS")
    return tuple(chosen.split(",") if chosen else default)


def commands(*, former: bool) -> Path:
    """Where the commands of this checkout are, or those of the former one."""
    if former:
        assert FORMER is not None, "BENCH_FORMER names no checkout"
        return Path(FORMER).resolve() / ".venv" / "bin"
    return Path(sys.executable).parent


def print_ratio(what: str, unit: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Our figures over those of the other side, pair by pair."""
    ratios = sorted(mine / other for mine, other in zip(ours, theirs, strict=True))
    print(
        f"  {what}: {unit}, ours {statistics.median(ours):,.1f}, theirs {statistics.median(theirs):,.1f};"
        f" ours / theirs in {len(ratios)} pairs: median {statistics.median(ratios):.3f}"
        f" (quartiles {ratios[len(ratios) // 4]:.3f} and {ratios[-1 - len(ratios) // 4]:.3f},"
        f" {ratios[0]:.3f} to {ratios[-1]:.3f})",
        flush=True,
    )
