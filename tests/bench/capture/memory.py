"""Capture's resident memory through one giant transaction: worker and task together, sampled five times a second."""

import threading
import time

from tests.bench.engines import Bench, bench
from tests.bench.processes import resident_bytes


def run(rows: int, *, streaming: bool = False) -> None:
    """Print the highest resident memory.

    Args:
        streaming: the server sends the transaction in blocks before its commit (``tidings.streaming.mode``).
    """
    options = {"tidings.streaming.mode": "on"} if streaming else {}
    with bench(debezium=False) as made:
        watch_one_transaction(made, rows, ", streamed" if streaming else "", **options)


def watch_one_transaction(made: Bench, rows: int, how: str = "", **options: str) -> None:
    """Print the highest resident memory of the last engine, with options of its connector."""
    engine = made.engines[-1]
    engine.put("giant", made.config(engine, "giant", "json", snapshot_mode="no_data", **options))
    idle, highest, done = resident_bytes(engine.pid), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.2):
            highest = max(highest, resident_bytes(engine.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    made.write(0, rows, rows)
    start = time.monotonic()
    made.ends.wait("tidings_giant.public.bench", rows)
    done.set()
    watcher.join()
    print(
        f"  {rows:,} rows in one transaction{how}: {highest / 1e6:.0f} MB at most, {idle / 1e6:.0f} MB before,"
        f" the last row {time.monotonic() - start:.0f} s after the commit",
        flush=True,
    )
