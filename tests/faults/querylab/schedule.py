"""Which faults, mode and options a seed has."""

import random
from dataclasses import dataclass
from typing import Final

from faultlab.fault import Fault
from faultlab.lab_faults import LINKS

from querylab.database import Database

MODES: Final[dict[str, dict[str, str]]] = {
    "incrementing": {"incrementing.column.name": "id"},
    "timestamp": {"timestamp.column.name": "updated"},
    "timestamp+incrementing": {"timestamp.column.name": "updated", "incrementing.column.name": "id"},
    "bulk": {},
}
POINTS: Final = (
    *("range.compared", "difference.sent", "range.noted", "keys.announced"),
    *("batch.sent", "records.acknowledged", "offset.written", "offset.stored"),
)
LIGHT: Final = (
    *("point", "point", "point", "kill_task", "kill_task", "kill_worker", "kill_partner", "leave"),
    *("pause", "spread", "alter", "drop", "rekey", "forget"),
    *(f"kafka_{how}" for how in LINKS),
)


@dataclass(frozen=True)
class Schedule:
    """What a seed says."""

    seed: int
    mode: str
    waits: bool
    """Whether rows wait for transactions that may commit before them, where the database can tell."""
    faults: tuple[Fault, ...]


def make_schedule(seed: int, database: Database, *, most: int = 6, heavy: float = 0.5) -> Schedule:
    """The schedule of a seed; `heavy` is how likely one of its faults stops a server."""
    name = type(database).__name__
    chance = random.Random(f"query {name} {seed}")
    links = tuple(f"db_{how}" for how in LINKS) if database.proxy is not None else ()
    kinds = [chance.choice((*LIGHT, *links)) for _ in range(chance.randint(2, most))]
    if chance.random() < heavy:
        servers = ("db_restart", "db_kill") if database.proxy is not None else ()
        kinds[chance.randrange(len(kinds))] = chance.choice((*servers, "kafka_kill"))
    faults = tuple(
        Fault(
            kind,
            seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.0),
            amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
            point=chance.choice(POINTS) if kind == "point" else "",
            records=chance.randint(10, 80),
        )
        for kind in kinds
    )
    weights = [1 if mode == "bulk" else 3 for mode in database.modes]
    mode = chance.choices(database.modes, weights)[0]
    waits = name == "Postgres" and mode != "bulk" and chance.random() < 0.3
    return Schedule(seed, mode, waits, faults)
