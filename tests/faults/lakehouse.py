"""Random faults between PostgreSQL and the lake: ``python -m tests.faults.lakehouse --schedules 20 --seed 1``.

Prints a line per schedule and a summary; the exit code is 1 when a schedule found something. A schedule that did is
repeated with ``--seed <its seed> --schedules 1 --verbose``.
"""

import argparse
import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faultlab.servers import Lab, open_lab
from lakehouselab.job import Warehouse
from lakehouselab.run import MOST_SECONDS, Run
from lakehouselab.schedule import FORMATS, make_schedule

from tidings_lakehouse.metrics import MAINTAINED


def _joined() -> int:
    """How often small files of tables have been put together in this process."""
    samples = (sample for metric in MAINTAINED.collect() for sample in metric.samples)
    return int(
        sum(
            each.value
            for each in samples
            if each.labels.get("result") == "joined" and each.name.endswith("_total")
        )
    )


def _run_all(lab: Lab, given: argparse.Namespace) -> tuple[Counter[str], list[int]]:
    until = time.monotonic() + given.minutes * 60
    total: Counter[str] = Counter()
    failed = []
    warehouse = Warehouse(lab)
    try:
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > until:
                break
            schedule = make_schedule(
                seed, faults=given.faults, transactions=given.transactions, topic_format=given.format
            )
            line: dict[str, object] = {
                "seed": seed,
                "format": schedule.format,
                "choices": str(schedule.choices),
                "faults": [str(fault) for fault in schedule.faults],
            }
            try:
                outcome = Run(
                    lab,
                    warehouse,
                    schedule,
                    print if given.verbose else lambda _: None,
                    patience=given.patience,
                    most=given.most,
                ).run()
                joined = total["joined"]
                total["joined"] = _joined()
                line |= {
                    "joined": total["joined"] - joined,
                    "seconds": round(outcome.seconds, 1),
                    "transactions": outcome.transactions,
                    "starts": outcome.starts,
                    "moments": outcome.moments,
                    "slowest": round(outcome.slowest, 1),
                    "problems": outcome.problems,
                }
                total.update(transactions=outcome.transactions, moments=outcome.moments)
            except Exception as error:  # noqa: BLE001 - the next schedule may do
                line["problems"] = [f"{type(error).__name__}: {error}"]
            total.update([schedule.format, *(fault.kind for fault in schedule.faults)], schedules=1)
            if line["problems"]:
                failed.append(seed)
            print(("FAILED " if line["problems"] else "ok     ") + json.dumps(line, default=str), flush=True)
    finally:
        warehouse.close()
    return total, failed


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.lakehouse", description=__doc__)
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=5, help="at most so many in a schedule")
    parser.add_argument("--format", choices=FORMATS, help="of the topics; default: by the seed")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument(
        "--patience",
        type=float,
        default=60.0,
        help="seconds for which the job may stand still before a commit is in the lake",
    )
    parser.add_argument(
        "--transactions", type=int, default=200, help="of a phase: fewer for a machine with much to do"
    )
    parser.add_argument("--most", type=float, default=MOST_SECONDS, help="seconds for which it may get on")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    with open_lab(registry=True, group="faults-lakehouse") as lab:
        total, failed = _run_all(lab, given)
    print(json.dumps(dict(total)), "failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
