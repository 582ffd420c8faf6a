"""``python -m tests.faults.mariadb``: random faults of MariaDB's connector or MySQL's, exactly once, against the database's own history."""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from binloglab.flavours import FLAVOURS
from binloglab.run import Run, make_schedule
from binloglab.servers import BinlogLab


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mariadb", description=__doc__)
    parser.add_argument(
        "--server",
        choices=sorted(FLAVOURS),
        default="mariadb",
        help="mysql-by-files has no GTIDs, and no replica",
    )
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=5, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.5, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--signals", action="store_true", help="every schedule has a signal for a snapshot")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    until, failed = time.monotonic() + given.minutes * 60, []
    lab = BinlogLab(FLAVOURS[given.server]())
    try:
        lab.start()
        for seed in range(given.seed, given.seed + given.schedules):
            if time.monotonic() > until:
                break
            faults = make_schedule(
                seed,
                faults=given.faults,
                heavy=given.heavy,
                signals=given.signals,
                has_gtids=lab.flavour.has_gtids,
            )
            line: dict[str, object] = {"seed": seed, "faults": [str(fault) for fault in faults]}
            try:
                outcome = Run(lab, seed, faults, print if given.verbose else lambda _: None).run()
                line |= {
                    "seconds": round(outcome.seconds, 1),
                    "transactions": outcome.transactions,
                    "records": outcome.records,
                    "problems": outcome.problems,
                }
            except Exception as error:  # noqa: BLE001 - the next schedule may do
                line["problems"] = [f"{type(error).__name__}: {error}"]
            if line["problems"]:
                failed.append(seed)
            print(("FAILED " if line["problems"] else "ok     ") + json.dumps(line), flush=True)
    finally:
        lab.close()
    print("failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
