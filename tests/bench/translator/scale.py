"""Both stages with one, two and four partitions, and two translators beside each other.

The tables' topics, change sets, state and business topics have as many partitions as the line says. A sequencer is one
whatever the partitions are (a write-ahead log is serial), so two of them are a spare and no gain; translators share the
partitions. Each stage drains a backlog alone, so what limits two translators on a machine with two cores is that the
broker and librdkafka's threads need one of them: `total CPU` says how much of both cores the machine spent in all.
"""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient
from tests.bench.processes import cpu_seconds
from tests.bench.translator.backlog import DEADLINE_SECONDS, Backlog
from tests.bench.translator.shop_backlog import write_backlog

from tidings_stack import Stack

CONFIGURATIONS = ((1, 1), (2, 1), (4, 1), (4, 2))
"""Partitions and translators."""
TICKS = os.sysconf("SC_CLK_TCK")


def run(rows: int) -> None:
    """Print a line for each stage and configuration; `rows` technical events each."""
    with Stack(members=("kafka", "registry")) as stack:
        for partitions, workers in CONFIGURATIONS:
            prefix = f"scale_{secrets.token_hex(3)}"
            bootstrap, registry = stack.kafka.bootstrap, stack.registry.url
            topics = write_backlog(bootstrap, registry, prefix, rows, "json", partitions=partitions)
            environment = {
                **os.environ,
                "TIDINGS_KAFKA": bootstrap,
                "TIDINGS_REGISTRY": registry,
                "TIDINGS_DOMAIN": "tidings_shop.domain",
                "TIDINGS_SOURCE": prefix,
                "TIDINGS_PARTITIONS": str(partitions),
                "TIDINGS_HTTP_PORT": "0",
            }
            for stage, count, source in (
                ("sequencer", 1, topics),
                ("translator", workers, [f"tidings.{prefix}.change-sets"]),
            ):
                backlog = Backlog(bootstrap, f"tidings-{stage}-{prefix}", source)
                figures = _drain(stage, count, backlog, rows, environment, Path(stack.directory))
                backlog.close()
                print(
                    f"  {partitions} partitions, {count} {stage + 's' * (count > 1):11} {figures}", flush=True
                )


def _drain(
    stage: str, count: int, backlog: Backlog, rows: int, environment: dict[str, str], logs: Path
) -> str:
    processes = []
    try:
        for number in range(count):
            log = logs / f"scale-{stage}-{number}.log"
            with log.open("wb") as output:
                processes.append(
                    subprocess.Popen(
                        [str(Path(sys.executable).with_name(f"tidings-{stage}"))],
                        env={**environment, "TIDINGS_INSTANCE": f"{stage}-{number}"},
                        stderr=output,
                    )
                )
        if count > 1:
            _wait_for_members(environment["TIDINGS_KAFKA"], backlog.group, count, processes)
        left = backlog.wait(backlog.left() - 1, processes[0])
        start, machine = time.monotonic(), _machine_seconds()
        cpu = sum(cpu_seconds(process.pid) for process in processes)
        # The last offset of each partition of a transactional topic is a control record, which nobody reads or commits.
        backlog.wait(16, processes[0])
        seconds, machine = time.monotonic() - start, _machine_seconds() - machine
        cpu = sum(cpu_seconds(process.pid) for process in processes) - cpu
        share = rows * left / backlog.size
        return (
            f"{share / seconds:9,.0f} rows/s {cpu / share * 1e6:6.1f} CPU microseconds per row;"
            f" {share / rows:4.0%} of the backlog in {seconds:4.1f} s, {cpu / seconds:4.2f} cores, {machine / seconds:4.2f}"
            " with broker and all else"
        )
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(60)


def _wait_for_members(
    bootstrap: str, group: str, count: int, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Until the group is stable and each of its `count` members has partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = admin.describe_consumer_groups([group], request_timeout=30)[group].result()
        busy = [one for one in found.members if one.assignment.topic_partitions]
        if len(busy) == count:
            return
        ended = [process.returncode for process in processes if process.poll() is not None]
        if ended or time.monotonic() > deadline:
            raise RuntimeError(f"{len(busy)} of {count} members have partitions; ended with {ended}")
        time.sleep(0.1)


def _machine_seconds() -> float:
    """CPU seconds that all processes of the machine have spent, by Linux's /proc/stat (user, nice, system)."""
    fields = Path("/proc/stat").read_text().split(None, 4)
    return sum(int(value) for value in fields[1:4]) / TICKS
