"""Random schedules of faults on the way to the lake. One seed makes one schedule."""

import random
from dataclasses import dataclass

from faultlab.fault import Fault

from lakehouselab.store import KINDS as TABLES

POINTS = ("survey", "transactions", "staged", "log", "current", "watermark", "batch")
"""Of `tidings_lakehouse.failpoints`, without the table or the stream."""

KINDS = (
    *("point", "point", "point", "point", "forget"),
    *("incremental", "incremental", "blocking", "gap"),
    *("rename", "rename", "set_aside"),
    *("kill_task", "kill_worker", "terminate", "kafka_cut", "pg_cut"),
)


FORMATS = ("avro", "json", "text")
"""Of the topics: Avro with schemas in the registry, JSON that brings them, JSON without schemas, which the logs keep as text."""


@dataclass(frozen=True, slots=True)
class Choices:
    """How the lake keeps the tables: what a person may choose."""

    only_logs: tuple[str, ...] = ()
    """Kinds of tables that have a log and no current state."""
    types: str = ""
    """`TIDINGS_LAKEHOUSE_TYPES`: what becomes of numbers without a scale."""
    infinite: str = ""
    """`TIDINGS_LAKEHOUSE_INFINITE`: what becomes of infinite times."""


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
    choices: Choices = Choices()

    def has_state(self, kind: str) -> bool:
        """Whether a kind of table has a current state."""
        return self.format != "text" and kind not in self.choices.only_logs


def make_schedule(
    seed: int, *, faults: int = 5, transactions: int = 200, topic_format: str | None = None
) -> Schedule:
    """The schedule of a seed, of `faults` faults at most, and so many transactions in a phase.

    Args:
        topic_format: None has the seed choose it.
    """
    chance = random.Random(seed)
    kinds = [chance.choice(KINDS) for _ in range(chance.randint(2, faults))]
    made = [
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
    ]
    chosen = topic_format or random.Random(f"{seed} format").choice(FORMATS)
    # By a chance of its own, so that a seed's faults are what they were.
    more = random.Random(f"{seed} choices")
    if more.random() < 0.4:
        made.insert(more.randint(0, len(made)), Fault("relax", records=more.randint(20, 120)))
    definitions = random.Random(f"{seed} defines")
    for _ in range(definitions.choice((0, 0, 1, 2))):
        made.insert(definitions.randint(0, len(made)), Fault("define", records=definitions.randint(20, 120)))
    choices = Choices(
        tuple(kind for kind in ("things", "named", "pulse") if more.random() < 0.3),
        more.choice(
            ("", r"technical\..*=numeric(6)", r"technical\.things_.*=numeric(9);technical\..*=numeric(6)")
        ),
        more.choice(("", r"technical\..*=null", r"technical\.things_.*=year;technical\..*=null")),
    )
    if chosen == "text":  # nothing has a type or a current state, and a name is what a record says
        made = [one for one in made if one.kind not in {"rename", "set_aside"}]
        choices = Choices()
    return Schedule(seed, tuple(made), transactions=transactions, format=chosen, choices=choices)
