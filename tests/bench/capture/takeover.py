"""How long a connector stands still when its worker is stopped, and when it is killed: two workers of one group.

Measured from the signal to the first record of a row that was inserted after it. The session timeout is the default,
ten seconds; it is the larger part of what a kill costs.
"""

import signal
import statistics
import time
from typing import Any

from tests.bench.engines import Engine, bench, check, request, worker

CONNECTORS = ("a", "b")
TIMES = 5


def run(rows: int) -> None:
    """Print the times of five stops and five kills."""
    with bench(debezium=False) as made:
        (engine,) = made.engines
        for name in CONNECTORS:
            engine.put(name, made.config(engine, name, "json", snapshot_mode="no_data"))
        written = 0
        for how in (signal.SIGTERM, signal.SIGKILL):
            taken = []
            for _ in range(TIMES):
                with worker(made.stack, "second-worker") as (process, port):
                    name = _moved(engine, port)
                    topic = f"tidings_{name}.public.bench"
                    written = made.write(written, 1)
                    made.ends.wait(topic, written)
                    began = time.monotonic()
                    process.send_signal(how)
                    process.wait(60)
                    written = made.write(written, 1)
                    made.ends.wait(topic, written)
                    taken.append(time.monotonic() - began)
            times = ", ".join(f"{seconds:.1f}" for seconds in sorted(taken))
            print(
                f"  {how.name}: median {statistics.median(taken):.1f} s until the other worker went on ({times})",
                flush=True,
            )


def _moved(engine: Engine, port: int) -> str:
    """The connector that the second worker has taken over, once both run."""
    deadline = time.monotonic() + 120
    while True:
        shown: Any = request("GET", f"{engine.rest}/connectors?expand=status")
        tasks = {name: body["status"]["tasks"][0] for name, body in shown.items()}
        found = [
            n for n, t in tasks.items() if t["worker_id"].endswith(f":{port}") and t["state"] == "RUNNING"
        ]
        if found and all(task["state"] == "RUNNING" for task in tasks.values()):
            return found[0]
        check(deadline, "the second worker to run a connector")
