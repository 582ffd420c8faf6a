"""``python -m tests.faults.sinks``: random faults between topics and the targets of sinks, each of which ends as its sink claims.

    python -m tests.faults.sinks --target postgres,mongo --schedules 20 --seed 1

runs the seeds 1 to 20 on each of the targets; by default on all. Two workers share the tasks. ``from-mariadb`` (``from-mysql``,
``from-mysql-by-files``) is a PostgreSQL that gets whole transactions of that server, whose faults are among the others.
"""

import argparse
import contextlib
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "services/sinks/tests"))

from binloglab.flavours import FLAVOURS
from binloglab.servers import BinlogLab
from binloglab.store_run import make_store_schedule
from faultlab.command import Prepared, read_arguments, run_seeds, summary
from faultlab.servers import Lab, open_lab
from sinklab.binlog import BinlogSinkRun, fault_of_sink
from sinklab.run import WORKER, Run
from sinklab.schedule import make_schedule
from sinklab.tables import PostgresTarget
from sinklab.target import Target
from sinklab.targets import TARGETS


def main() -> int:
    """The command; its exit code."""
    known = [*TARGETS, *(f"from-{flavour}" for flavour in sorted(FLAVOURS))]
    given = read_arguments("sinks", str(__doc__), "target", known, faults=5)
    failed: list[str] = []
    for name in given.places:
        if name not in TARGETS:
            failed += run_from(name, given)
    if not TARGETS.keys() & {*given.places}:
        return summary(failed)
    with open_lab(group="faults-sinks", registry=True, worker_settings=WORKER) as lab, lab.beside(WORKER):
        for name in filter(TARGETS.__contains__, given.places):
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


def run_from(name: str, given: argparse.Namespace) -> list[str]:
    """Run the seeds on another source; those that failed."""
    with contextlib.ExitStack() as stack:
        lab = BinlogLab(FLAVOURS[name.removeprefix("from-")](), registry=True)
        stack.callback(lab.close)
        target = PostgresTarget(lab.place)
        stack.callback(target.close)
        target.start()
        lab.start()

        def prepare(seed: int) -> Prepared:
            faults = make_store_schedule(
                seed, fault_of_sink, faults=given.faults, has_gtids=lab.flavour.has_gtids
            )
            about = {"target": name, "seed": seed, "faults": [str(fault) for fault in faults]}
            return about, lambda say: BinlogSinkRun(lab, target, seed, faults, say).run()

        return run_seeds(given, name, prepare)


if __name__ == "__main__":
    sys.exit(main())
