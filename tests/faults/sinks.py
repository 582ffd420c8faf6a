"""``python -m tests.faults.sinks --target postgres``: random faults between topics and a sink's target, which ends as the source."""

import argparse
import json
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faultlab.servers import open_lab
from sinklab.run import Run, make_schedule
from sinklab.targets import TARGETS


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.sinks", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), default="postgres")
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the others follow")
    parser.add_argument("--faults", type=int, default=5, help="at most so many in a schedule")
    parser.add_argument("--heavy", type=float, default=0.5, help="how likely one of them stops a server")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no schedule after so long")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    until, failed = time.monotonic() + given.minutes * 60, []
    with open_lab(group="faults-sinks", worker_settings={"exactly.once.source.support": "enabled"}) as lab:
        target = TARGETS[given.target](lab.place)
        try:
            target.server.start()
            for seed in range(given.seed, given.seed + given.schedules):
                if time.monotonic() > until:
                    break
                faults = make_schedule(seed, faults=given.faults, heavy=given.heavy)
                line: dict[str, object] = {"seed": seed, "faults": [str(fault) for fault in faults]}
                try:
                    line |= Run(lab, target, seed, faults, print if given.verbose else lambda _: None).run()
                except Exception as error:  # noqa: BLE001 - the next schedule may do
                    line["problem"] = f"{type(error).__name__}: {error}"
                    failed.append(seed)
                print(("FAILED " if "problem" in line else "ok     ") + json.dumps(line), flush=True)
        finally:
            target.server.close()
            target.proxy.close()
    print("failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
