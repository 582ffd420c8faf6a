"""Random faults between a database and the lake: ``python -m tests.faults.lakehouse --schedules 20 --seed 1``.

Prints a line per schedule and a summary; the exit code is 1 when a schedule found something. A schedule that did is
repeated with ``--seed <its seed> --schedules 1 --verbose``.
"""

import argparse
import contextlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from binloglab.flavours import FLAVOURS
from binloglab.servers import BinlogLab
from faultlab.servers import Lab, open_lab
from lakehouselab.binlog import BinlogLakeRun, make_lake_schedule
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


Line = dict[str, Any]
"""What is printed of a schedule."""


def _of_postgres(lab: Lab, warehouse: Warehouse, given: argparse.Namespace, seed: int) -> Iterator[Line]:
    """What is known of a schedule before it, and what came of it."""
    schedule = make_schedule(
        seed, faults=given.faults, transactions=given.transactions, topic_format=given.format
    )
    yield {"format": schedule.format, "choices": str(schedule.choices), "faults": schedule.faults}
    say = print if given.verbose else lambda _: None
    run = Run(lab, warehouse, schedule, say, patience=given.patience, most=given.most)
    yield vars(run.run())


def _of_binlog(lab: BinlogLab, warehouse: Warehouse, given: argparse.Namespace, seed: int) -> Iterator[Line]:
    faults = make_lake_schedule(seed, has_gtids=lab.flavour.has_gtids)
    yield {"faults": faults}
    yield vars(BinlogLakeRun(lab, warehouse, seed, faults, print if given.verbose else lambda _: None).run())


def _run_all(
    schedule: Callable[[int], Iterator[Line]], given: argparse.Namespace
) -> tuple[Counter[str], list[int]]:
    until = time.monotonic() + given.minutes * 60
    total: Counter[str] = Counter()
    failed = []
    for seed in range(given.seed, given.seed + given.schedules):
        if time.monotonic() > until:
            break
        line: Line = {"seed": seed}
        try:
            for told in schedule(seed):
                line |= {
                    key: round(value, 1) if isinstance(value, float) else value for key, value in told.items()
                }
            joined = total["joined"]
            total["joined"] = _joined()
            line["joined"] = total["joined"] - joined
            total.update(transactions=line["transactions"], moments=line["moments"])
        except Exception as error:  # noqa: BLE001 - the next schedule may do
            line["problems"] = [f"{type(error).__name__}: {error}"]
        formats = [line["format"]] if "format" in line else []
        total.update([*formats, *(fault.kind for fault in line["faults"])], schedules=1)
        if line["problems"]:
            failed.append(seed)
        line["faults"] = [str(fault) for fault in line["faults"]]
        print(("FAILED " if line["problems"] else "ok     ") + json.dumps(line, default=str), flush=True)
    return total, failed


@contextlib.contextmanager
def _lab(source: str) -> Iterator[Lab | BinlogLab]:
    """The servers."""
    if source == "postgresql":
        with open_lab(registry=True, group="faults-lakehouse") as lab:
            yield lab
        return
    binlog = BinlogLab(FLAVOURS[source](), registry=True)
    try:
        binlog.start()
        yield binlog
    finally:
        binlog.close()


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.lakehouse", description=__doc__)
    parser.add_argument(
        "--source",
        choices=["postgresql", *sorted(FLAVOURS)],
        default="postgresql",
        help="of the others the seed alone says what a schedule is",
    )
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
    with _lab(given.source) as lab:
        warehouse = Warehouse(lab.directory, kafka=lab.kafka.bootstrap, registry=lab.registry.url)
        try:
            total, failed = _run_all(
                lambda seed: (
                    _of_postgres(lab, warehouse, given, seed)
                    if isinstance(lab, Lab)
                    else _of_binlog(lab, warehouse, given, seed)
                ),
                given,
            )
        finally:
            warehouse.close()
    print(json.dumps(dict(total)), "failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
