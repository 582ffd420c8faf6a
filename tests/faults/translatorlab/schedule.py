"""Random schedules of faults on a pipeline. One seed makes one schedule.

Times in a schedule are times of faults (how long a link is held); nothing that is checked depends on them.
"""

import random
from dataclasses import dataclass

from faultlab.fault import Fault

from tidings_translator.base.fault_points import POINTS

STAGES = ("sequencer", "translator")
LIGHT = (
    *(
        f"{what}_{stage}"
        for stage in STAGES
        for what in ("point", "point", "point", "kill", "stop", "freeze")
    ),
    *("join_translator", "join_translator", "leave_translator", "join_sequencer", "leave_sequencer"),
    *("kafka_cut", "kafka_hold", "kafka_delay", "kafka_cut_after", "kafka_lose"),
    *(
        "registry_away",
        "kill_task",
        "kill_worker",
        "terminate",
        "resnapshot",
        "resnapshot",
        "block",
        "unreadable",
        "unreadable",
        "alter",
        "alter",
        "retention",
        "promote",
        "evolve",
        "evolve",
        "widen",
        "poison",
        "poison",
        "wide",
    ),
)
HEAVY = ("kafka_kill", "kafka_restart", "pg_immediate")


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a seed stands for."""

    seed: int
    faults: tuple[Fault, ...]


def make_schedule(seed: int, *, faults: int = 4, heavy: float = 0.25) -> Schedule:
    """The schedule of a seed.

    Args:
        faults: how many at most.
        heavy: how likely one of them stops a server.
    """
    chance = random.Random(seed)
    kinds = [chance.choice(LIGHT) for _ in range(chance.randint(2, faults))]
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice(HEAVY)
    return Schedule(seed, tuple(_make_fault(kind, chance) for kind in kinds))


def _make_fault(kind: str, chance: random.Random) -> Fault:
    seconds, amount = chance.uniform(0.2, 2.5), chance.randint(0, 6)
    if kind.startswith("freeze"):
        seconds = chance.choice((0.5, 2.0, 8.0))  # the last is longer than a session
    elif kind == "kafka_delay":
        seconds = chance.uniform(0.01, 0.1)
    elif kind == "kafka_cut_after":
        amount = chance.randint(1, 100_000)
    point = chance.choice(list(POINTS)) if kind.startswith("point") else ""
    return Fault(kind, seconds, amount, point, chance.randint(10, 200))
