"""``python -m tests.faults.sinks``: random faults between topics and the targets of sinks, each of which ends as its sink claims.

    python -m tests.faults.sinks --target postgres,mongo --schedules 20 --seed 1

runs the seeds 1 to 20 on each of the targets; by default on all. Two workers share the tasks.
"""

import argparse
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "services/sinks/tests"))

from faultlab.command import Prepared, read_arguments, run_seeds, summary
from faultlab.servers import Lab, open_lab
from sinklab.run import WORKER, Run
from sinklab.schedule import make_schedule
from sinklab.target import Target
from sinklab.targets import TARGETS


def main() -> int:
    """The command; its exit code."""
    given = read_arguments("sinks", str(__doc__), "target", TARGETS, faults=5)
    failed: list[str] = []
    with open_lab(group="faults-sinks", registry=True, worker_settings=WORKER) as lab, lab.beside(WORKER):
        for name in given.places:
            target = TARGETS[name](lab.place)
            try:
                target.start()
                failed += run_target(lab, name, target, given)
            finally:
                target.close()
    return summary(failed)


def run_target(lab: Lab, name: str, target: Target, given: argparse.Namespace) -> list[str]:
    """Run the seeds on a target; those that failed."""

    def prepare(seed: int) -> Prepared:
        schedule = make_schedule(seed, target, most=given.faults, heavy=given.heavy)
        about = {
            "target": name,
            "seed": seed,
            "wire": schedule.wire,
            "faults": [str(fault) for fault in schedule.faults],
        }
        return about, lambda say: Run(lab, target, f"s{seed}x{secrets.token_hex(3)}", schedule, say).run()

    return run_seeds(given, name, prepare)


if __name__ == "__main__":
    sys.exit(main())
