"""The initial snapshot of a table: capture beside real Debezium, both with their defaults, JSON without schemas.

Measured from the first record on the topic to the last, after a snapshot of 200,000 rows that warms both up.
"""

import time

from tests.bench import former
from tests.bench.capture.backlog import Figure, print_ratios
from tests.bench.engines import WARM_UP_ROWS, Bench, Engine, bench
from tests.bench.processes import cpu_seconds, resident_bytes

ROUNDS = 2


def run(rows: int) -> None:
    """Print both engines' figures."""
    with bench() as made:
        written = made.write(0, WARM_UP_ROWS, 10_000)
        for engine in made.engines:
            snapshot(made, engine, "warm_up", written)
        written = made.write(written, max(0, rows - WARM_UP_ROWS), 10_000)
        made.execute("VACUUM ANALYZE bench")
        figures: dict[str, list[Figure]] = {engine.name: [] for engine in made.engines}
        for turn in range(former.rounds(ROUNDS)):
            for engine in made.engines if turn % 2 == 0 else reversed(made.engines):
                figure = snapshot(made, engine, f"round_{turn + 1}", written)
                figures[engine.name].append(figure)
                print(f"  round {turn + 1} {engine.name:9} {figure}", flush=True)
        print_ratios("snapshot", figures)


def snapshot(made: Bench, engine: Engine, name: str, rows: int) -> Figure:
    """What one engine did with a snapshot."""
    topic = f"{engine.name}_{name}.public.bench"
    engine.put(name, made.config(engine, name, "json", snapshot_mode="initial"))
    made.ends.wait(topic, 1)
    first_rows, start, cpu = made.ends.of(topic), time.monotonic(), cpu_seconds(engine.pid)
    made.ends.wait(topic, rows)
    seconds, cpu = time.monotonic() - start, cpu_seconds(engine.pid) - cpu
    resident = resident_bytes(engine.pid) / 1e6
    engine.delete(name)
    made.drop_slot(f"bench_{engine.name}_{name}")
    return Figure((rows - first_rows) / seconds, (rows - first_rows) / cpu, resident)
