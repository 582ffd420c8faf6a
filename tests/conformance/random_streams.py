"""Random streams past a reference connector's sink and ours: the command, and our side on a worker in memory."""

import argparse
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jdbc_sinks.stream import Case, Sent

from tidings_connect.task.sink import SinkConnector
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_jvm import PlainProgress
from tidings_stack.connect import ConnectServer
from tidings_stack.stack import Stack
from tidings_stack.waiting import wait_for

DEADLINE_SECONDS = 120


@dataclass
class Result:
    """What became of a case."""

    case: Case
    kind: str
    """``same``, ``DIFFERS``, ``both`` (both tasks failed), ``OURS`` (only ours did), or who else's alone did."""
    lines: list[str] = field(default_factory=list)


RunCase = Callable[[int, str, int], Result]
"""Runs the case of a seed, with a name of its own and so many changes."""


def run_command(
    prog: str,
    description: str | None,
    members: Sequence[str],
    plugin: str,
    open_sides: Callable[[Stack, ConnectServer], RunCase],
) -> int:
    """The command; its exit code.

    Args:
        members: of the stack.
        plugin: the reference, of the plugins of Kafka Connect that the stack knows.
        open_sides: starts what is needed besides.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--seed", type=int, default=1, help="of the first case; the others follow")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--changes", type=int, default=60, help="of a case")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    failed = []
    with Stack(members=tuple(members), progress=PlainProgress(print)) as stack:
        connect = stack.add(
            lambda place: ConnectServer(
                place,
                bootstrap=stack.kafka.bootstrap,
                settings={"offset.flush.interval.ms": "300"},
                plugins=(plugin,),
            )
        )
        run_case = open_sides(stack, connect)
        for seed in range(given.seed, given.seed + given.cases):
            begun = time.monotonic()
            result = run_case(seed, f"s{seed}x{secrets.token_hex(3)}", given.changes)
            total[result.kind] += 1
            if given.verbose:
                print(*(f"   {k} = {v}" for k, v in sorted(result.case.options.items())), sep="\n")
                for topic, key, value in result.case.records:
                    print("  ", topic, key, value)
            print(f"{result.kind:8} {seed} records {len(result.case.records)} seconds {time.monotonic() - begun:.1f}",
                  *result.lines, sep="\n   ", flush=True)  # fmt: skip
            if result.kind in {"DIFFERS", "OURS"}:
                failed.append(seed)
                print("  ", result.case.options, flush=True)
    print(dict(total), "failed:", failed or "none")
    return 1 if failed else 0


def run_in_memory(
    connector: SinkConnector,
    name: str,
    records: Sequence[Sent],
    config: Callable[[dict[str, int]], dict[str, str]],
) -> str | None:
    """Run our sink until it has written everything, or its task has failed: then why.

    Args:
        config: the sink's, by the number of records of each topic.
    """
    ends: dict[str, int] = {}
    with MemoryWorker(connector, name) as worker:
        for topic, key, value in records:
            worker.kafka.inputs.produce(topic, key, value, partition=0)
            ends[topic] = ends.get(topic, 0) + 1
        retries = {"errors.retry.delay.initial.ms": "20", "errors.retry.delay.max.ms": "100"}
        worker.put({**retries, **config(ends)})

        def done() -> bool:
            inputs = worker.kafka.inputs
            group = inputs.offsets.get(f"connect-{name}", {})
            return worker.error is not None or all(
                group.get(at, 0) == len(log) for at, log in inputs.records.items()
            )

        wait_for(f"{name} to write everything", done, DEADLINE_SECONDS)
        return None if worker.error is None else f"{type(worker.error).__name__}: {worker.error}"
