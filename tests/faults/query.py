"""``python -m tests.faults.query``: random faults of query sources, after which each topic is its table.

    python -m tests.faults.query --database postgresql,mariadb,sqlite --schedules 10 --seed 1

runs the seeds 1 to 10 on each of the databases; odd seeds at least once, even ones exactly once.
"""

import argparse
import contextlib
import functools
import json
import secrets
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faultlab.servers import Lab, open_lab
from querylab.database import DATABASES
from querylab.run import Run
from querylab.schedule import make_schedule

EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.query", description=__doc__)
    parser.add_argument("--database", default=",".join(DATABASES), help="names with commas between")
    parser.add_argument("--schedules", type=int, default=10, help="of each database")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=6, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.5, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.database.split(",")) - DATABASES.keys():
        parser.error(f"--database knows {', '.join(DATABASES)}, and not {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    given.until = time.monotonic() + given.minutes * 60
    failed: list[str] = []
    with open_lab(group="faults-query") as lab:
        for exactly_once in (False, True):
            other = lab.other_worker("faults-query-once", EXACTLY_ONCE)
            with other if exactly_once else contextlib.nullcontext():
                for name in given.database.split(","):
                    failed += run_database(lab, name, given, exactly_once=exactly_once)
    print("failed:", failed or "none")
    return 1 if failed else 0


def run_database(lab: Lab, name: str, given: argparse.Namespace, *, exactly_once: bool) -> list[str]:
    """Run half of the seeds on a database; those that failed."""
    failed = []
    database = DATABASES[name](lab)
    try:
        database.start()
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > given.until or (seed % 2 == 0) is not exactly_once:
                continue
            schedule = make_schedule(seed, database, most=given.faults, heavy=given.heavy)
            line: dict[str, object] = {
                "database": name,
                "seed": seed,
                "mode": schedule.mode,
                "exactly once": exactly_once,
                "faults": [str(fault) for fault in schedule.faults],
            }
            say = functools.partial(print, flush=True) if given.verbose else lambda _: None
            try:
                run = Run(
                    lab, database, f"q{seed}x{secrets.token_hex(3)}", schedule, say, exactly_once=exactly_once
                )
                line |= run.run()
            except Exception as error:  # noqa: BLE001 - the next schedule may do
                line["problem"] = f"{type(error).__name__}: {error}"
                failed.append(f"{name} {seed}")
            print(("FAILED " if "problem" in line else "ok     ") + json.dumps(line), flush=True)
    finally:
        database.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
