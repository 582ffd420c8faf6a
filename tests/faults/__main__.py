"""Random schedules of faults, by hand: ``python -m tests.faults --schedules 200 --seed 1 --minutes 18``.

Prints a line per schedule and a summary; the exit code is 1 when a schedule found something. A schedule that did is
repeated with ``--seed <its seed> --schedules 1 --verbose``.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faultlab.run import Run
from faultlab.schedule import make_schedule
from faultlab.servers import open_lab


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=4, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.4, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--exactly-once", action="store_true")
    parser.add_argument("--report", type=Path, help="a line of JSON per schedule is added to this file")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    until = time.monotonic() + given.minutes * 60
    options = {"exactly.once.support": "required"} if given.exactly_once else {}
    worker = {"exactly.once.source.support": "enabled"} if given.exactly_once else {}
    total: Counter[str] = Counter()
    failed: list[int] = []
    with open_lab(worker_settings=worker) as lab:
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > until:
                break
            schedule = make_schedule(seed, faults=given.faults, heavy=given.heavy, options=options)
            line: dict[str, object] = {
                "seed": seed,
                "faults": [str(f) for f in schedule.faults],
                "options": schedule.options,
            }
            mark = lab.worker.log.stat().st_size
            try:
                outcome = Run(lab, schedule, print if given.verbose else lambda _: None).run()
                found = outcome.verdict
                problems = found.problems
                line |= {
                    "seconds": round(outcome.seconds, 1),
                    "transactions": outcome.transactions,
                    "events": found.events,
                    "records": found.records,
                    "repeated": found.repeated,
                    "problems": problems,
                }
                total.update(events=found.events, records=found.records, repeated=found.repeated)
            except Exception as error:  # noqa: BLE001 - the next schedule may do
                problems = [f"{type(error).__name__}: {error}"]
                line["problems"] = problems
            total.update([fault.kind for fault in schedule.faults], schedules=1)
            if problems:
                failed.append(seed)
                if given.report:
                    log = lab.worker.log.read_bytes()[mark:]
                    given.report.with_name(f"{given.report.stem}-{seed}.log").write_bytes(log)
            print(("FAILED " if problems else "ok     ") + json.dumps(line), flush=True)
            if given.report:
                with given.report.open("a", encoding="utf-8") as report:
                    report.write(json.dumps(line) + "\n")
    print(json.dumps(dict(total)), "failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
