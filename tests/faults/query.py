"""``python -m tests.faults.query``: random faults of query sources, after which each topic is its table.

    python -m tests.faults.query --database postgresql,mariadb,mysql,sqlite,sqlalchemy --schedules 10 --seed 1

runs the seeds 1 to 10 on each of the databases; odd seeds at least once, even ones exactly once. Two workers share the tasks.
"""

import argparse
import contextlib
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faultlab.command import Prepared, read_arguments, run_seeds, summary
from faultlab.servers import Lab, open_lab
from querylab.database import DATABASES, Database
from querylab.run import EXACTLY_ONCE, WORKER, Run
from querylab.schedule import make_schedule

GROUP = "faults-query"


def main() -> int:
    """The command; its exit code."""
    given = read_arguments("query", str(__doc__), "database", DATABASES, faults=6)
    failed: list[str] = []
    with open_lab(group=GROUP, worker_settings=WORKER) as lab:
        with lab.beside(WORKER):
            failed += run_databases(lab, given, exactly_once=False)
        once = f"{GROUP}-once"
        with lab.other_worker(once, EXACTLY_ONCE), lab.beside(EXACTLY_ONCE, once):
            failed += run_databases(lab, given, exactly_once=True)
    return summary(failed)


def run_databases(lab: Lab, given: argparse.Namespace, *, exactly_once: bool) -> list[str]:
    """Run half of the seeds on each database; those that failed."""
    failed = []
    for name in given.places:
        with contextlib.closing(DATABASES[name](lab)) as database:
            database.start()
            failed += run_database(lab, name, database, given, exactly_once=exactly_once)
    return failed


def run_database(
    lab: Lab, name: str, database: Database, given: argparse.Namespace, *, exactly_once: bool
) -> list[str]:
    """Run half of the seeds on a database; those that failed."""

    def prepare(seed: int) -> Prepared:
        schedule = make_schedule(seed, database, most=given.faults, heavy=given.heavy)
        about = {
            "database": name,
            "seed": seed,
            "mode": schedule.mode,
            "exactly once": exactly_once,
            "faults": [str(fault) for fault in schedule.faults],
        }
        run = f"q{seed}x{secrets.token_hex(3)}"
        return about, lambda say: Run(lab, database, run, schedule, say, exactly_once=exactly_once).run()

    return run_seeds(given, name, prepare, takes=lambda seed: (seed % 2 == 0) is exactly_once)


if __name__ == "__main__":
    sys.exit(main())
