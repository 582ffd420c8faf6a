"""Random faults between a database and business events: ``python -m tests.faults.translator --schedules 100 --seed 1``.

Prints a line per schedule and a summary; the exit code is 1 when a schedule found something. A schedule that did is
repeated with ``--seed <its seed> --schedules 1 --verbose``. Schedules run on one pipeline, one after the other; a new one
is made after every ten (``--on-a-pipeline``), and after one that found something. By the seed of its first schedule, the
tables' topics of a pipeline are there before it begins, or made meanwhile (``--new-topics``). With ``--source mariadb`` (``mysql``,
``mysql-by-files``) each schedule has a database and stages of its own, and its seed alone says what it is.
"""

import argparse
import contextlib
import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from binloglab.flavours import FLAVOURS
from binloglab.servers import BinlogLab
from binloglab.store_run import make_store_schedule
from faultlab.fault import Fault
from faultlab.servers import Lab, open_lab
from translatorlab.binlog import BinlogEventsRun, fault_of_stages
from translatorlab.pipeline import Pipeline
from translatorlab.run import Run
from translatorlab.schedule import make_schedule

from tidings_stack.postgres import PostgresServer


class _Report:
    """What is printed and written."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.total: Counter[str] = Counter()
        self.failed: list[int] = []

    def add(self, seed: int, line: dict[str, object], logs: str) -> None:
        problems = line["problems"]
        if problems:
            self.failed.append(seed)
            if self._file is not None:
                self._file.with_name(f"{self._file.stem}-{seed}.log").write_text(logs)
        print(("FAILED " if problems else "ok     ") + json.dumps(line), flush=True)
        if self._file is not None:
            with self._file.open("a", encoding="utf-8") as report:
                report.write(json.dumps(line) + "\n")


def _run_one(pipeline: Pipeline, seed: int, given: argparse.Namespace, report: _Report) -> bool:
    schedule = make_schedule(seed, faults=given.faults, heavy=given.heavy)
    made = Run(pipeline, schedule, print if given.verbose else lambda _: None)
    return _tell(made, seed, schedule.faults, pipeline.logs, report)


def _tell(
    made: Run | BinlogEventsRun,
    seed: int,
    faults: Sequence[Fault],
    logs: Callable[[], str],
    report: _Report,
) -> bool:
    """Run one, and whether it found nothing."""
    line: dict[str, object] = {"seed": seed, "faults": [str(fault) for fault in faults]}
    try:
        outcome = made.run()
        line |= {
            "seconds": round(outcome.seconds, 1),
            "transactions": outcome.transactions,
            "events": outcome.verdict.found,
            "starts": outcome.starts,
            "problems": outcome.verdict.problems,
        }
        report.total["transactions"] += outcome.transactions
    except Exception as error:  # noqa: BLE001 - the next schedule may do
        line["problems"] = [f"{type(error).__name__}: {error}"]
    report.total.update([fault.kind for fault in faults], schedules=1)
    report.add(seed, line, logs())
    return not line["problems"]


def _run_all(lab: Lab, given: argparse.Namespace, report: _Report) -> None:
    until = time.monotonic() + given.minutes * 60
    pipeline: Pipeline | None = None
    done = 0
    try:
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > until:
                break
            if pipeline is None:
                settings = {
                    f"TIDINGS_MAX_BUFFERED_{what}": str(most)
                    for what, most in (("ROWS", given.buffered_rows), ("BYTES", given.buffered_bytes))
                    if most
                }
                new_topics = given.new_topics or random.Random(f"{seed} topics").random() < 0.5
                pipeline = Pipeline(lab, given.form, settings, new_topics=new_topics)
            good = _run_one(pipeline, seed, given, report)
            done += 1
            if not good or done % given.on_a_pipeline == 0:
                pipeline.close()
                pipeline = None
    finally:
        if pipeline is not None:
            pipeline.close()


def _run_on_binlogs(given: argparse.Namespace, report: _Report) -> None:
    until = time.monotonic() + given.minutes * 60
    with contextlib.ExitStack() as stack:
        lab = BinlogLab(FLAVOURS[given.source](), registry=True)
        stack.callback(lab.close)
        postgres = PostgresServer(lab.place)
        stack.callback(postgres.close)
        postgres.start()
        lab.start()
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > until:
                break
            faults = make_store_schedule(
                seed, fault_of_stages, faults=given.faults, has_gtids=lab.flavour.has_gtids
            )
            made = BinlogEventsRun(
                lab, postgres.url, seed, faults, print if given.verbose else lambda _: None
            )
            _tell(made, seed, faults, made.logs, report)


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.translator", description=__doc__)
    parser.add_argument("--source", choices=["postgresql", *sorted(FLAVOURS)], default="postgresql")
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=4, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.25, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--on-a-pipeline", type=int, default=10, help="so many schedules, then a new one")
    parser.add_argument("--new-topics", action="store_true", help="on every pipeline")
    parser.add_argument("--form", choices=("json", "avro"), default="json", help="of the technical topics")
    parser.add_argument(
        "--buffered-rows", type=int, help="TIDINGS_MAX_BUFFERED_ROWS, so that more is spilled"
    )
    parser.add_argument(
        "--buffered-bytes", type=int, help="TIDINGS_MAX_BUFFERED_BYTES, so that wide rows are spilled"
    )
    parser.add_argument("--report", type=Path, help="a line of JSON per schedule is added to this file")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    report = _Report(given.report)
    if given.source != "postgresql":
        _run_on_binlogs(given, report)
    else:
        with open_lab(registry=True, group="faults-translator") as lab:
            _run_all(lab, given, report)
    print(json.dumps(dict(report.total)), "failed:", report.failed or "none")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
