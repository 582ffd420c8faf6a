"""Random input at every way in: ``python -m tests.fuzz --seconds 600 --seed 1``.

Prints a line per part and what was found; the exit code is 1 then. Without ``--part`` the time is shared by all.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "libs/envelope/tests")]

from fuzzing import parts  # noqa: E402 - behind the path
from fuzzing.running import run  # noqa: E402
from fuzzing.worker import run_with_servers  # noqa: E402


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=[*parts.PURE, "worker"], action="append")
    parser.add_argument("--case", type=int, help="one case of a part alone, with its seed")
    given = parser.parse_args()
    chosen = given.part or [*parts.PURE, "worker"]
    found = 0
    for part in chosen:
        seconds = given.seconds / len(chosen)
        if part == "worker":
            outcome = run_with_servers(given.seed, seconds)
        else:
            outcome = run(part, parts.PURE[part], given.seed, seconds, given.case)
        print(outcome, flush=True)
        for finding in outcome.findings:
            print(f"\n{finding}", flush=True)
        found += len(outcome.findings)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
