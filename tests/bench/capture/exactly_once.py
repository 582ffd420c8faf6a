"""A backlog through capture with exactly once and without, side by side: the target is 80% of the throughput.

Two workers on one broker and one database. Both stream the same backlog in turn, each alone, and the order alternates.
Measured is the time from the first record to the last *committed* one that a consumer with read_committed sees, and
again without; so the last transaction's end counts.
"""

import contextlib
import statistics
import time
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from tests.bench.engines import WARM_UP_ROWS, Bench, Engine, bench, check, worker

ROUNDS = 3
DEADLINE_SECONDS = 900


def run(rows: int, wire_format: str = "json") -> None:
    """Print both figures of every round, and their ratio."""
    with bench(debezium=False) as made, _exact(made) as exact:
        engines = (made.engines[0], exact)
        written = 0
        counters = {}
        for engine in engines:
            engine.put("eos", made.config(engine, "eos", wire_format, snapshot_mode="no_data"))
            counters[engine.name] = Committed(made.stack.kafka.bootstrap, f"{engine.name}_eos.public.bench")
        written = made.write(written, WARM_UP_ROWS)
        for engine in engines:
            counters[engine.name].wait(written)
        figures: dict[str, list[float]] = {engine.name: [] for engine in engines}
        for turn in range(ROUNDS):
            for engine in engines:
                engine.pause("eos")
            before, written = written, made.write(written, rows)
            for engine in engines if turn % 2 == 0 else reversed(engines):
                counter = counters[engine.name]
                engine.resume("eos")
                counter.wait(before + 1)
                first, start = counter.count, time.monotonic()
                counter.wait(written)
                rate = (written - first) / (time.monotonic() - start)
                figures[engine.name].append(rate)
                print(f"  round {turn + 1} {engine.name:9} {rate:9,.0f} rows/s", flush=True)
                engine.wait("eos", "RUNNING")
                engine.pause("eos")
        for engine in engines:
            engine.delete("eos")
            made.drop_slot(f"bench_{engine.name}_eos")
            counters[engine.name].close()
        ratio = statistics.median(figures["exact"]) / statistics.median(figures["tidings"])
        print(f"  exactly once / at least once: {ratio:.2f} in rows/s (target: 0.80)")


@contextlib.contextmanager
def _exact(made: Bench) -> Iterator[Engine]:
    with worker(made.stack, "exact-worker", group="exact", exactly_once_source_support="enabled") as (
        process,
        port,
    ):
        yield Engine("exact", f"http://127.0.0.1:{port}", process.pid)


class Committed:
    """How many records of a topic of one partition a consumer with read_committed has seen; markers do not count."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-committed",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def wait(self, count: int) -> None:
        """Until `count` records have been seen."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.count < count:
            check(deadline, f"{self._topic} to reach {count} (at {self.count})")
            found = self._consumer.consume(10_000, timeout=0.1)
            self.count += sum(message.error() is None for message in found)

    def close(self) -> None:
        self._consumer.close()
