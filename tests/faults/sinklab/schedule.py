"""Which faults a seed has, by what a target can suffer."""

import random
from dataclasses import dataclass

from faultlab.fault import Fault
from faultlab.lab_faults import LINKS

from sinklab.target import Claim, Target

TASKS = (
    "point",
    "point",
    "kill_task",
    "kill_worker",
    "kill_partner",
    "leave",
    "rebalance",
    "pause",
    "alter",
    "drop",
)
KAFKA = tuple(f"kafka_{how}" for how in LINKS)


@dataclass(frozen=True)
class Schedule:
    """What a seed says."""

    seed: int
    faults: tuple[Fault, ...]
    wire: str
    """How records are written: ``plain`` JSON, JSON with ``schemas``, ``avro``."""


def make_schedule(seed: int, target: Target, *, most: int = 5, heavy: float = 0.5) -> Schedule:
    """The schedule of a seed for a target; `heavy` is how likely one of its faults stops a server."""
    chance = random.Random(f"{type(target).__name__} {seed}")
    again = ("rewind",) if target.claim in {Claim.COPY, Claim.OBJECTS} else ()
    light = (*TASKS, *KAFKA, *target.kinds, *target.kinds, *again)
    kinds = [chance.choice(light) for _ in range(chance.randint(2, most))]
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice((*target.heavy, *target.heavy, "kafka_kill"))
    faults = tuple(
        Fault(
            kind,
            seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5),
            amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
            point=chance.choice(target.points) if kind == "point" else "",
            records=chance.randint(20, 120),
        )
        for kind in kinds
    )
    schemas = chance.random() < 0.5 or target.claim is not Claim.COPY  # without, no envelope is taken apart
    wires = target.wires if target.claim is Claim.COPY else ("schemas",)  # whose topics are read back as JSON
    wire = chance.choice(wires) if schemas or "schemas" not in wires else "plain"
    return Schedule(seed, faults, wire)
