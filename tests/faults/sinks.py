"""``python -m tests.faults.sinks``: random faults between topics and the targets of sinks, each of which ends as its sink claims.

    python -m tests.faults.sinks --target postgres,mongo --schedules 20 --seed 1

runs the seeds 1 to 20 on each of the targets; by default on all. Two workers share the tasks.
"""

import argparse
import functools
import json
import secrets
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "services/sinks/tests"))

from faultlab.servers import Lab, open_lab
from sinklab.run import WORKER, Run
from sinklab.schedule import make_schedule
from sinklab.targets import TARGETS


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sinks", description=__doc__)
    parser.add_argument("--target", default=",".join(TARGETS), help="names with commas between")
    parser.add_argument("--schedules", type=int, default=10, help="of each target")
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=5, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.5, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.target.split(",")) - TARGETS.keys():
        parser.error(f"--target knows {', '.join(TARGETS)}, and not {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    given.until = time.monotonic() + given.minutes * 60
    failed: list[str] = []
    with open_lab(group="faults-sinks", worker_settings=WORKER) as lab, lab.beside(WORKER):
        for name in given.target.split(","):
            failed += run_target(lab, name, given)
    print("failed:", failed or "none")
    return 1 if failed else 0


def run_target(lab: Lab, name: str, given: argparse.Namespace) -> list[str]:
    """Run the seeds on a target; those that failed."""
    failed = []
    target = TARGETS[name](lab.place)
    try:
        target.start()
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > given.until:
                break
            schedule = make_schedule(seed, target, most=given.faults, heavy=given.heavy)
            line: dict[str, object] = {
                "target": name,
                "seed": seed,
                "schemas": schedule.schemas,
                "faults": [str(fault) for fault in schedule.faults],
            }
            say = functools.partial(print, flush=True) if given.verbose else lambda _: None
            try:
                line |= Run(lab, target, f"s{seed}x{secrets.token_hex(3)}", schedule, say).run()
            except Exception as error:  # noqa: BLE001 - the next schedule may do
                line["problem"] = f"{type(error).__name__}: {error}"
                failed.append(f"{name} {seed}")
            print(("FAILED " if "problem" in line else "ok     ") + json.dumps(line), flush=True)
    finally:
        target.close()
    return failed


if __name__ == "__main__":
    sys.exit(main())
