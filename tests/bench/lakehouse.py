"""The lakehouse job: a backlog into log and current state, a batch of 10,000 changes on tables of two sizes, a start on logs of two.

``BENCH_FORMER=<checkout>`` runs the job of another release beside it, on the same records, one after the other. The large tables
are written by Spark and not by the job, before it opens them; ``BENCH_LARGE`` says how large the larger is, ``BENCH_PARTS`` which of
``backlog,many,changes,formats,small`` are run; the last two are not by default: a backlog of Avro and one of the same rows as JSON
with schemas, and small batches of ``BENCH_TABLES`` tables, one after the other in a job that goes on. Run as a module of its own it is
one of the jobs.
"""

import itertools
import json
import os
import queue
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.bench.processes import cpu_seconds

from tidings_service import configure_logging
from tidings_stack import Stack

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "services/lakehouse/tests"))

CHANGES = 10_000
ROUNDS = 3
SMALL_TURNS = int(os.environ.get("BENCH_TURNS", "10"))
PARTS = os.environ.get("BENCH_PARTS", "backlog,many,changes").split(",")
SMALL = 1_000_000
LARGE = int(os.environ.get("BENCH_LARGE", "5000000"))


def run(rows: int) -> None:
    """Print the figures; `rows` are those of the backlog."""
    from lakelab.json_topics import JsonTopics
    from lakelab.topics import Topics

    former = os.environ.get("BENCH_FORMER")
    with Stack(members=("kafka", "registry")) as stack:
        topics = Topics(stack.kafka.bootstrap, stack.registry.url)
        prefix = f"lake_{secrets.token_hex(3)}"
        backlog = topics.table(f"{prefix}.public.backlog")
        for number in range(rows if "backlog" in PARTS else 0):
            backlog.change("u", order(number % max(1, rows // 6)), 10 + number, 11 + number)
            if not number % 10_000:
                topics.producer.poll(0.01)
        topics.flush()
        for name, kind in (("avro", Topics), ("json", JsonTopics)) if "formats" in PARTS else ():
            own = kind(stack.kafka.bootstrap, stack.registry.url)
            table = own.table(f"{prefix}.public.{name}")
            for number in range(rows):
                table.change("u", order(number % max(1, rows // 6)), 10 + number, 11 + number)
                if not number % 10_000:
                    own.producer.poll(0.01)
            own.flush()
            size = len(table.encoded(order(1), 10, 11)[1])
            print(f"  {name}: {rows:,} records of {size:,} bytes")
        for name, tree in (("former", former), ("this", str(ROOT))):
            if tree is None:
                continue
            print(f"  {name}")
            with tempfile.TemporaryDirectory() as directory:
                given = {
                    "kafka": stack.kafka.bootstrap,
                    "registry": stack.registry.url,
                    "source": prefix,
                    "name": f"{name}{secrets.token_hex(2)}",
                    "rows": rows,
                    "large": LARGE,
                    "directory": directory,
                }
                subprocess.run(
                    [sys.executable, "-m", "tests.bench.lakehouse", json.dumps(given)],
                    check=True,
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": f"{tree}/services/lakehouse:{ROOT}"},
                )


def order(number: int, note: str = "a note of some length") -> dict[str, Any]:
    """A row of the service's test table."""
    return {
        "id": number,
        "status": "placed",
        "note": note,
        "amount": Decimal("12.34"),
        "required_on": 19000,
        "ordered_at": "2024-01-01T00:00:00.123456Z",
        "updated_at": 1_700_000_000_000_000 + number,
    }


class Worker:
    """One release's job in this process."""

    def __init__(self, given: dict[str, Any]) -> None:
        from lakelab.topics import Topics

        from tidings_lakehouse.settings import LakehouseSettings
        from tidings_lakehouse.spark.session import create_session

        self.given = given
        self.topics = Topics(given["kafka"], given["registry"])
        self.settings = LakehouseSettings(
            kafka=given["kafka"],
            registry=given["registry"],
            source=given["source"],
            lakehouse_warehouse=given["directory"] + "/warehouse",
            lakehouse_compact_commits=0,
        )
        Path(given["directory"], "warehouse").mkdir()
        self.session = create_session(self.settings, "bench")
        self.pid = self.session.sparkContext._gateway.proc.pid

    def drain(self, pattern: str, passed: Callable[[str], None]) -> None:
        from tidings_lakehouse.formats.registry import Registry
        from tidings_lakehouse.job import Job
        from tidings_service import Health

        settings = self.settings.model_copy(
            update={
                "lakehouse_technical": pattern.replace(".", r"\."),
                "lakehouse_checkpoint": self.given["directory"] + "/" + re.sub(r"\W", "_", pattern),
            }
        )
        schemas = Registry(settings.optional_registry)
        job = Job(self.session, settings, schemas, Health(), streams=["technical"], failpoint=passed)
        try:
            job.start(available_now=True)
            job.wait(threading.Event())
        finally:
            job.stop()

    def backlog(self) -> None:
        times: list[float] = []
        began, cpu = time.monotonic(), cpu_seconds(self.pid)
        self.drain(
            f"{self.given['source']}.public.backlog",
            lambda point: times.append(time.monotonic()) if point == "batch:technical" else None,
        )
        total, rows, most = (
            times[-1] - began,
            self.given["rows"],
            min(self.given["rows"], self.settings.lakehouse_max_records),
        )
        parts = [round(b - a, 1) for a, b in zip([began, *times], times, strict=False)]
        warm = f", warm {most / (times[1] - times[0]):,.0f}" if len(times) > 1 else ""
        print(
            f"    backlog of {rows:,}: {rows / total:,.0f} rows/s{warm}; "
            f"{cpu_seconds(self.pid) - cpu:.0f} CPU seconds; batches {parts} s",
            flush=True,
        )

    def formats(self) -> None:
        """Log and current state of a backlog of either format, in four batches, by turns: what a warm batch costs."""
        rows = self.given["rows"] // 4
        self.settings = self.settings.model_copy(update={"lakehouse_max_records": rows})
        for name in ("avro", "json"):
            points: list[tuple[str, float, float]] = []
            self.drain(
                f"{self.given['source']}.public.{name}",
                lambda point: points.append((point, time.monotonic(), cpu_seconds(self.pid))),  # noqa: B023
            )
            ends = [one for one in points if one[0] == "batch:technical"]
            found = [
                (after[1] - before[1], after[2] - before[2]) for before, after in itertools.pairwise(ends)
            ]
            print(
                f"    {name}: rows per CPU second in batches of {rows:,} behind the first:"
                f" {[round(rows / cpu) for _, cpu in found]}, per second {[round(rows / wall) for wall, _ in found]}",
                flush=True,
            )

    def batches(self, size: int) -> None:
        """10,000 changes, 500 of them of new rows, on a table of a size; then starts on a log of that size."""
        name = f"{self.given['name']}_{size}"
        table = self.topics.table(f"{self.given['source']}.public.{name}")
        table.change("c", order(size + 1), 1, 2)
        self.topics.flush()
        self.drain(table.topic, lambda _: None)
        target, log = f"technical.{name}", f"technical.{name}_log"
        cores = self.session.sparkContext.defaultParallelism
        filled = self.session.range(0, size, 1, cores * 2).withColumnRenamed("id", "n")
        for wanted in (target, log):
            held = self.session.table(wanted)
            type_ = dict(held.dtypes).get("id")
            columns = [f"cast(n as {type_}) as id" if c == "id" else f"`{c}`" for c in held.columns]
            one = held.limit(1).withColumnRenamed("id", "former")
            filled.crossJoin(one).selectExpr(*columns).writeTo(wanted).append()
        starts: list[float] = []
        seconds: list[float] = []
        cpus: list[float] = []
        step = max(1, size // (CHANGES - 500))
        for turn in range(ROUNDS):
            for number in range(CHANGES):
                key = number * step + turn if number < CHANGES - 500 else size * 2 + turn * CHANGES + number
                at = 100 + turn * CHANGES + number
                table.change("u", order(key, f"turn {turn}"), at, at + 1)
            self.topics.flush()
            points: dict[str, tuple[float, float]] = {}
            began = time.monotonic()
            self.drain(
                table.topic,
                lambda point: points.setdefault(point, (time.monotonic(), cpu_seconds(self.pid))) and None,  # noqa: B023
            )
            starts.append(points[f"log:{log}"][0] - began)
            seconds.append(points[f"current:{target}"][0] - points[f"log:{log}"][0])
            cpus.append(points[f"current:{target}"][1] - points[f"log:{log}"][1])
        print(
            f"    {CHANGES:,} changes on {size:,} rows: {min(seconds[1:]):.1f} s, {min(cpus[1:]):.1f} CPU seconds "
            f"(each {[round(s, 1) for s in seconds]}); from a start to the first rows in a log of as many: "
            f"{min(starts[1:]):.1f} s (each {[round(s, 1) for s in starts]})",
            flush=True,
        )

    def many(self, count: int) -> None:
        """Twenty changes in each of many tables: what a table costs whatever its rows."""
        prefix = f"{self.given['name']}_many"
        tables = [
            self.topics.table(f"{self.given['source']}.public.{prefix}{number}") for number in range(count)
        ]
        found = []
        for turn in range(ROUNDS):
            for table in tables:
                for number in range(20):
                    at = 10 + turn * 100 + number
                    table.change("u", order(number, f"turn {turn}"), at, at + 1)
            self.topics.flush()
            points: dict[str, tuple[float, float]] = {}
            self.drain(
                f"{self.given['source']}.public.{prefix}[0-9]+",
                lambda point: points.setdefault(point, (time.monotonic(), cpu_seconds(self.pid))) and None,  # noqa: B023
            )
            found.append([b - a for a, b in zip(points["survey"], points["batch:technical"], strict=True)])
        wall, cpu = min(found[1:])
        print(
            f"    a batch of 20 changes in each of {count} tables: {wall:.1f} s, {cpu / count:.2f} CPU seconds a table "
            f"(each {[round(cpu / count, 2) for _, cpu in found]})",
            flush=True,
        )

    def small(self, count: int) -> None:
        """Five changes and an END marker in each of many tables again and again, in turn of new rows and of old ones."""
        from lakelab.topics import MarkerTopic

        from tidings_lakehouse.formats.registry import Registry
        from tidings_lakehouse.job import Job
        from tidings_service import Health

        source = f"{self.given['name']}s"
        tables = [self.topics.table(f"{source}.public.{source}{number}") for number in range(count)]
        markers = MarkerTopic(self.topics, source)
        ends: queue.Queue[tuple[float, float]] = queue.Queue()
        settings = self.settings.model_copy(
            update={
                "source": source,
                "lakehouse_checkpoint": self.given["directory"] + "/" + source,
                "lakehouse_trigger_seconds": 0.1,
            }
        )
        job = Job(
            self.session,
            settings,
            Registry(settings.optional_registry),
            Health(),
            streams=["technical"],
            failpoint=lambda point: (
                ends.put((time.monotonic(), cpu_seconds(os.getpid()))) if point == "batch:technical" else None
            ),
        )
        job.start()
        stop = threading.Event()
        watching = threading.Thread(target=job.wait, args=(stop,))
        watching.start()
        found: list[tuple[float, float]] = []
        for turn in range(SMALL_TURNS):
            began, cpu = time.monotonic(), cpu_seconds(os.getpid())
            first = 1000 + turn * 1000
            for place, table in enumerate(tables):
                for number in range(5):
                    table.transaction = first, 5 * place + number + 1
                    row = order(number + 5 * (turn // 2), f"turn {turn}")
                    table.change("u" if turn % 2 else "c", row, first, first + 5 * place + number)
            markers.end(first, first + 900, **{table.topic.rpartition(".")[2]: 5 for table in tables})
            self.topics.flush()
            end = (began, cpu)
            try:  # all of it in one batch, or in few
                end = ends.get(timeout=600)
                while True:
                    end = ends.get(timeout=2)
            except queue.Empty:
                found.append((end[0] - began, end[1] - cpu))
        stop.set()
        watching.join()
        job.stop()
        later = sorted(cpu / count for _, cpu in found[4:])
        print(
            f"    small batches of {count} tables: {statistics.median(later):.2f} CPU seconds a table and batch"
            f" (each {[round(cpu / count, 2) for _, cpu in found]}), seconds {[round(wall, 1) for wall, _ in found]}",
            flush=True,
        )

    def close(self) -> None:
        from tidings_lakehouse.spark.session import stop_gateway

        self.session.stop()
        stop_gateway(self.session)


def main() -> None:
    configure_logging("bench", level="WARNING")
    worker = Worker(json.loads(sys.argv[1]))
    try:
        if "backlog" in PARTS:
            worker.backlog()
        if "formats" in PARTS:
            worker.formats()
        if "small" in PARTS:
            worker.small(int(os.environ.get("BENCH_TABLES", "12")))
        if "many" in PARTS:
            worker.many(6)
        if "changes" in PARTS:
            for size in (SMALL, worker.given["large"]):
                worker.batches(size)
    finally:
        worker.close()


if __name__ == "__main__":
    main()
