"""A running worker: random requests and signals, slow and many clients, and a search for secrets in all that it says.

What is planted: the database's password, which the connector refers to in a file; another one that stands in requests; and
a cell. None of them may be in an answer, in the log or in the metrics; the first one and the cell not in Kafka Connect's
topics either.
"""

import contextlib
import json
import resource
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition

from fuzzing.http_requests import large_bodies, many_clients, request, slow_clients
from fuzzing.making import json_value, mutated, text
from fuzzing.running import MOST_FINDINGS, Outcome
from fuzzing.target import Target
from tidings_stack import Stack
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.postgres import create_database
from tidings_stack.waiting import wait_for

GROWTH_BYTES = 150 << 20
_FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@contextlib.contextmanager
def opened(
    workers: CaptureWorkers, bootstrap: str, database: str, name: str, directory: Path
) -> Iterator[Target]:
    """A worker of its own, with a connector that streams."""
    cell, stated = f"cell-{secrets.token_hex(8)}", f"stated-{secrets.token_hex(8)}"
    parts = psycopg.conninfo.conninfo_to_dict(database)
    password = str(parts["password"])
    (directory / "secrets.properties").write_text(f"password={password}\n")
    signal_file = directory / "signals"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE rows (id int PRIMARY KEY, v text)")
        connection.execute("CREATE TABLE signals (id text PRIMARY KEY, type text, data text)")
        connection.execute("INSERT INTO rows VALUES (1, %s)", (cell,))
    properties = workers.properties(
        name,
        {"config.providers": "file", "config.providers.file.class": _FILE_PROVIDER, "tidings.signal.directory": str(directory), "offset.flush.interval.ms": "500",
         "producer.max.block.ms": "60000"},
    )  # fmt: skip
    worker = workers.start(properties)
    config = connector_settings(database, **_connector(name, directory, signal_file))
    status, answer = worker.request("PUT", f"/connectors/{name}/config", config)
    assert status == 201, answer
    worker.wait_task(name, "RUNNING")
    known = {"the database's password": password, "a password in requests": stated, "a cell": cell}
    target = Target(worker, bootstrap, database, name, signal_file, known, Outcome("worker"))
    try:
        yield target
    finally:
        worker.request("DELETE", f"/connectors/{name}")


def _connector(name: str, directory: Path, signal_file: Path) -> dict[str, str]:
    return {
        "database.password": f"${{file:{directory / 'secrets.properties'}:password}}",
        "topic.prefix": name,
        "slot.name": name.replace("-", "_"),
        "publication.name": name.replace("-", "_"),
        "publication.autocreate.mode": "all_tables",
        "signal.data.collection": "public.signals",
        "signal.enabled.channels": "source,file,kafka",
        "signal.file": str(signal_file),
        "signal.kafka.topic": f"{name}-signals",
        "signal.poll.interval.ms": "200",
        "errors.retry.delay.max.ms": "500",
        "slot.drop.on.stop": "true",
    }


def run(target: Target, seed: int, seconds: float) -> Outcome:
    """Everything, for about so long."""
    before = _rss(target)
    deadline = time.monotonic() + seconds
    large_at, number = time.monotonic() + seconds / 3, 0
    crowds = [slow_clients, many_clients, large_bodies]
    while time.monotonic() < deadline and len(target.outcome.findings) < MOST_FINDINGS:
        rng = Random(f"{seed}/worker/{number}")
        if crowds and time.monotonic() > large_at:
            crowds.pop()(target, f"{seed}/{number}")
        else:
            request(target, rng, f"{seed}/{number}")
            if number % 5 == 0:
                _signal(target, rng)
        number += 1
        if target.worker.process.poll() is not None:
            target.found(f"the worker has ended with {target.worker.process.poll()}", f"{seed}/{number}")
            return target.outcome
    target.outcome.cases = number
    target.outcome.slowest_seconds = target.slowest
    _after(target, seed, before)
    return target.outcome


def _after(target: Target, seed: int, before: int) -> None:
    """The worker works, has not grown, and has said nothing that it should not."""
    with psycopg.connect(target.database, autocommit=True) as connection:
        connection.execute("INSERT INTO rows VALUES (2, 'after') ON CONFLICT DO NOTHING")
    state = target.worker.task(target.name)
    if state["state"] != "RUNNING":
        target.found(f"the connector is {str(state)[:1500]}", seed)
    with contextlib.suppress(AssertionError):
        wait_for("memory", lambda: _rss(target) - before < GROWTH_BYTES, 10)
    grown = _rss(target) - before
    if grown > GROWTH_BYTES:
        target.found(f"memory: the worker takes {grown >> 20} MB more", seed)
    log = target.worker.log.read_text("utf-8", "replace")
    target.search("the log", log, seed)
    at = log.find("Traceback (most recent call last)")
    if at >= 0:
        target.found(f"the log has a trace: {log[max(0, at - 300) : at + 1500]}", seed)
    for path in (
        "/metrics",
        "/connectors?expand=status&expand=info",
        f"/connectors/{target.name}/config",
        "/admin/loggers",
    ):
        target.search(path, str(target.worker.request("GET", path)[1]), seed)
    _search_topics(target, seed)


def _search_topics(target: Target, seed: int) -> None:
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "fuzz", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "fetch.wait.max.ms": 20})  # fmt: skip
    try:
        topics = consumer.list_topics(timeout=30).topics
        for topic in (t for t in topics if t.startswith(target.name)):
            data = topic in {
                f"{target.name}.public.rows",
                f"{target.name}.public.signals",
                f"{target.name}-signals",
            }
            places = [TopicPartition(topic, number, 0) for number in topics[topic].partitions]
            left = sum(high - low for low, high in (consumer.get_watermark_offsets(p, 30) for p in places))
            consumer.assign(places)
            until = time.monotonic() + 5
            while left > 0 and time.monotonic() < until:
                for message in consumer.consume(500, 0.2):
                    left -= 1
                    whole = repr((message.key(), message.value(), message.headers()))
                    for what, secret in target.secrets.items():
                        allowed = (what == "a cell" and data) or what == "a password in requests"
                        if secret in whole and not allowed:
                            target.found(f"topic {topic} holds {what}", seed)
    finally:
        consumer.close()


def _rss(target: Target) -> int:
    """Of the worker's processes."""
    total = 0
    for pid in {target.worker.process.pid, *_descendants(target.worker.process.pid)}:
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    return total


def _descendants(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return [*children, *(deeper for child in children for deeper in _descendants(child))]
    return []


# Requests


# Signals


def _signal(target: Target, rng: Random) -> None:
    """Through one of the channels."""
    data = {"data-collections": [rng.choice(("public.rows", "public.rows", text(rng), "(a+)+$"))], "type": "incremental",
            "additional-conditions": [{"data-collection": "public.rows", "filter": text(rng)}], "message": text(rng)}  # fmt: skip
    if rng.random() < 0.5:
        data = {**data, rng.choice(list(data)): json_value(rng)}
    kind = rng.choice(
        ("log", "log", "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", text(rng))
    )
    whole = {"id": text(rng)[:40] + str(rng.randrange(10**9)), "type": kind, "data": data}
    line = json.dumps(whole)
    match rng.randrange(3):
        case 0:
            with psycopg.connect(target.database, autocommit=True) as connection:
                connection.execute(
                    "INSERT INTO signals VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                    (whole["id"].replace("\0", ""), kind.replace("\0", ""), json.dumps(data)),
                )
        case 1:
            with target.signal_file.open("ab") as file:
                file.write((mutated(rng, line.encode()) if rng.random() < 0.5 else line.encode()) + b"\n")
        case _:
            producer = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0})
            value = mutated(rng, line.encode()) if rng.random() < 0.5 else line.encode()
            producer.produce(f"{target.name}-signals", key=target.name.encode(), value=value)
            producer.flush(10)


def run_with_servers(seed: int, seconds: float) -> Outcome:
    """With servers of its own, by hand."""
    with (
        tempfile.TemporaryDirectory() as directory,
        Stack(("pg", "kafka")) as stack,
        CaptureWorkers(Path(directory), stack.kafka.url) as workers,
        opened(
            workers, stack.kafka.url, create_database(stack.pg.url, "fuzz"), f"fuzz{seed}", Path(directory)
        ) as target,
    ):
        outcome = run(target, seed, seconds)
        print(f"worker: {target.answers} answers", flush=True)
        return outcome
