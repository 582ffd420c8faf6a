"""Both stages on a backlog of the shop's technical events, one after the other, Kafka transactions on.

Measured from a stage's first committed transaction to its last, so that start-up does not count; CPU is the stage's own
process. The figure that counts is the sum: CPU seconds that one technical event costs on its way through both.
"""

import os
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tests.bench import former
from tests.bench.processes import cpu_seconds, resident_bytes
from tests.bench.translator.shop_backlog import Format, write_backlog

from tidings_stack import Stack

DEADLINE_SECONDS = 900


@dataclass(frozen=True)
class Figure:
    """What a stage did with the backlog, per technical event of the backlog."""

    stage: str
    rows_per_second: float
    cpu_microseconds: float
    resident_mb: float


def run(rows: int) -> None:
    """Print the figures for Avro and for JSON without schemas; with a former checkout, those of both in turn."""
    with Stack(members=("kafka", "registry")) as stack:
        for form in cast("tuple[Format, ...]", former.formats(("avro", "json"))):
            measured: dict[bool, list[list[Figure]]] = {False: [], True: []}
            for turn in range(former.rounds(1)):
                sides = (True, False) if former.FORMER else (False,)
                for is_former in sides if turn % 2 == 0 else reversed(sides):
                    print(f"  {former.NAME if is_former else 'tidings'}", flush=True)
                    figures = measure(
                        stack.kafka.bootstrap,
                        stack.registry.url,
                        rows,
                        form,
                        Path(stack.directory),
                        former.commands(former=is_former),
                    )
                    measured[is_former].append(figures)
            if former.FORMER:
                _print_ratios(form, measured[False], measured[True])


def _print_ratios(form: str, ours: list[list[Figure]], theirs: list[list[Figure]]) -> None:
    for number, stage in enumerate(("sequencer", "translator")):
        mine, other = (
            [figures[number].cpu_microseconds for figures in measured] for measured in (ours, theirs)
        )
        former.print_ratio(f"{form} {stage}", "CPU microseconds per row", mine, other)


def measure(
    bootstrap: str, registry: str, rows: int, form: Format, logs: Path, commands: Path
) -> list[Figure]:
    """Write a backlog in one format and let both stages of a checkout drain it."""
    prefix = f"bench_{form}_{secrets.token_hex(3)}"
    topics = write_backlog(bootstrap, registry, prefix, rows, form)
    environment = {
        **os.environ,
        "TIDINGS_KAFKA": bootstrap,
        "TIDINGS_REGISTRY": registry,
        "TIDINGS_DOMAIN": "tidings_shop.domain",
        "TIDINGS_SOURCE": prefix,
        "TIDINGS_HTTP_PORT": "0",
    }
    figures = []
    for stage, source in (("sequencer", topics), ("translator", [f"tidings.{prefix}.change-sets"])):
        backlog = Backlog(bootstrap, f"tidings-{stage}-{prefix}", source)
        figure = _drain(stage, backlog, rows, environment, logs / f"bench-{stage}.log", commands)
        backlog.close()
        figures.append(figure)
        print(
            f"  {form:4}  {stage:10} {figure.rows_per_second:9,.0f} rows/s"
            f" {figure.cpu_microseconds:6.1f} CPU microseconds per row {figure.resident_mb:6,.0f} MB",
            flush=True,
        )
    total = sum(figure.cpu_microseconds for figure in figures)
    print(
        f"  {form:4}  both       {1e6 / total:9,.0f} rows per CPU second {total:6.1f} CPU s per million rows"
    )
    return figures


_COORDINATOR_COMES = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""While the broker makes the topic in which groups keep their offsets."""


class Backlog:
    """How much of some topics a group has not committed yet, in records (markers and control records included)."""

    def __init__(self, bootstrap: str, group: str, topics: list[str]) -> None:
        self.group = group
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
        )
        known = self._consumer.list_topics(timeout=30).topics
        self._places = [
            TopicPartition(topic, number) for topic in topics for number in known[topic].partitions
        ]
        self.size = self._end() - self._begin()

    def _end(self) -> int:
        return sum(self._consumer.get_watermark_offsets(place, timeout=30)[1] for place in self._places)

    def _begin(self) -> int:
        return sum(self._consumer.get_watermark_offsets(place, timeout=30)[0] for place in self._places)

    def left(self) -> int:
        """Records that are not committed."""
        try:
            committed = self._consumer.committed(self._places, timeout=30)
        except KafkaException as error:
            if error.args[0].code() not in _COORDINATOR_COMES:
                raise
            return self.size  # nobody can have committed
        return self.size - sum(max(place.offset, 0) for place in committed)

    def wait(self, left: int, process: subprocess.Popen[bytes]) -> int:
        """Wait until no more than `left` records are left; returns how many there are."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (now := self.left()) > left:
            if process.poll() is not None:
                raise RuntimeError(f"the stage ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{now} records are still there after {DEADLINE_SECONDS} s")
            time.sleep(0.05)
        return now

    def close(self) -> None:
        self._consumer.close()


def _drain(
    stage: str,
    backlog: Backlog,
    rows: int,
    environment: dict[str, str],
    log: Path,
    commands: Path = Path(sys.executable).parent,
) -> Figure:
    with log.open("wb") as output:
        process = subprocess.Popen([str(commands / f"tidings-{stage}")], env=environment, stderr=output)
    try:
        left = backlog.wait(backlog.size - 1, process)
        start, cpu = time.monotonic(), cpu_seconds(process.pid)
        # The last offset of a transactional topic is a control record, which nobody reads or commits.
        backlog.wait(16, process)
        seconds, cpu = time.monotonic() - start, cpu_seconds(process.pid) - cpu
        share = rows * left / backlog.size
        return Figure(stage, share / seconds, cpu / share * 1e6, resident_bytes(process.pid) / 1e6)
    finally:
        process.terminate()
        process.wait(60)
