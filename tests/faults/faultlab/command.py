"""What the commands of the labs share: options, and the run over seeds with a line of JSON for each."""

import argparse
import functools
import json
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

Say = Callable[[str], None]
"""Prints what happens in the midst of a schedule, where that is wanted."""
Prepared = tuple[Mapping[str, Any], Callable[[Say], Mapping[str, Any]]]
"""What a seed's line says of its schedule, and what runs it and returns the rest of the line."""


def read_arguments(
    lab: str, about: str, places: str, known: Collection[str], *, faults: int
) -> argparse.Namespace:
    """The options of a lab that strikes several systems; `until` among them is when no schedule begins any more.

    Args:
        lab: the module behind ``python -m tests.faults``.
        about: what its help says.
        places: the option that names the systems.
        known: their names.
        faults: how many a schedule has at most, by default.
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.faults.{lab}", description=about)
    parser.add_argument(
        f"--{places}", dest="places", default=",".join(known), help="names with commas between"
    )
    parser.add_argument("--schedules", type=int, default=10, help=f"of each {places}")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=faults, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.5, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    given.places = given.places.split(",")
    if unknown := {*given.places} - {*known}:
        parser.error(f"--{places} knows {', '.join(known)}, and not {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    given.until = time.monotonic() + given.minutes * 60
    return given


def run_seeds(
    given: argparse.Namespace,
    name: str,
    prepare: Callable[[int], Prepared],
    *,
    takes: Callable[[int], bool] = lambda _: True,
) -> list[str]:
    """Run the seeds on a system, and print a line for each; those that failed.

    Args:
        prepare: makes the schedule of a seed.
        takes: whether a seed is to be run.
    """
    failed = []
    say = functools.partial(print, flush=True) if given.verbose else lambda _: None
    for seed in filter(takes, range(given.seed, given.seed + given.schedules)):
        if time.monotonic() > given.until:
            break
        about, run = prepare(seed)
        line = dict(about)
        try:
            line |= run(say)
        except Exception as error:  # noqa: BLE001 - the next schedule may do
            line["problem"] = f"{type(error).__name__}: {error}"
            failed.append(f"{name} {seed}")
        print(("FAILED " if "problem" in line else "ok     ") + json.dumps(line), flush=True)
    return failed


def summary(failed: Collection[str]) -> int:
    """Print which seeds failed; the exit code."""
    print("failed:", failed or "none")
    return 1 if failed else 0
