"""Memory and CPU of a worker with twenty idle connectors: Kafka Connect's one JVM beside our process for each task.

Resident memory of the process tree, pages that its processes share counted once. Each engine has its turn, because a server has
only so many slots.
"""

import time

from tests.bench.engines import Bench, Engine, bench
from tests.bench.processes import cpu_seconds, resident_bytes, tree

CONNECTORS = 20
SETTLED_SECONDS = 15.0
WATCHED_SECONDS = 30.0


def run(_rows: int) -> None:
    """Print each engine's memory before, with one connector and with all, and the CPU that they take while nothing happens."""
    with bench() as made:
        for engine in made.engines:
            _measure(made, engine)


def _measure(made: Bench, engine: Engine) -> None:
    sizes = {0: resident_bytes(engine.pid)}
    names = [f"idle{number}" for number in range(CONNECTORS)]
    began = time.monotonic()
    for number, name in enumerate(names, 1):
        engine.put(name, made.config(engine, name, "json", snapshot_mode="no_data"))
        if number == 1:
            sizes[1] = resident_bytes(engine.pid)
    took = time.monotonic() - began
    time.sleep(SETTLED_SECONDS)
    sizes[CONNECTORS] = resident_bytes(engine.pid)
    processes, cpu = len(tree(engine.pid)), cpu_seconds(engine.pid)
    time.sleep(WATCHED_SECONDS)
    share = (cpu_seconds(engine.pid) - cpu) / WATCHED_SECONDS
    for name in names:
        engine.delete(name)
        made.drop_slot(f"bench_{engine.name}_{name}")
    told = ", ".join(f"{size / 1e6:.0f} MB with {count}" for count, size in sizes.items())
    print(
        f"  {engine.name}: {told} idle connectors, {processes} processes, {share:.1%} of a core;"
        f" {took / CONNECTORS:.1f} s to create one and see it run",
        flush=True,
    )
