"""Random schedules of faults on the way to the lake. One seed makes one schedule."""

import random
from dataclasses import dataclass

from faultlab.fault import Fault

from lakehouselab.job import POINTS
from lakehouselab.store import KINDS as TABLES

KINDS = (
    *("point", "point", "point", "point", "forget"),
    *("incremental", "incremental", "blocking", "gap"),
    *("rename", "rename", "set_aside"),
    *("kill_task", "kill_worker", "terminate", "kafka_cut", "pg_cut"),
)


FORMATS = ("avro", "json")
"""Of the topics: Avro with schemas in the registry, JSON that brings them."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a seed stands for."""

    seed: int
    faults: tuple[Fault, ...]
    tables: tuple[str, ...] = TABLES
    """Kinds of tables that are captured; every one takes its time in a batch."""
    transactions: int = 200
    """Of a phase; the writers go on slowly behind them."""
    format: str = "avro"
    """Of `FORMATS`."""


def make_schedule(
    seed: int, *, faults: int = 5, transactions: int = 200, topic_format: str | None = None
) -> Schedule:
    """The schedule of a seed, of `faults` faults at most, and so many transactions in a phase.

    Args:
        topic_format: None has the seed choose it.
    """
    chance = random.Random(seed)
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(2, faults))]
    return Schedule(
        seed,
        tuple(
            Fault(
                kind,
                point=chance.choice(POINTS)
                if kind in {"point", "forget"}
                else "batch"
                if kind == "set_aside"
                else "",
                records=chance.randint(20, 120),
            )
            for kind in kinds
        ),
        transactions=transactions,
        format=topic_format or random.Random(f"{seed} format").choice(FORMATS),
    )
