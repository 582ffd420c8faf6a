"""Random schedules of faults. One seed makes one schedule.

Times in a schedule are times of faults (how long a link is held); nothing that is checked depends on them.
"""

import random
from dataclasses import dataclass

from faultlab.fault import Fault
from faultlab.omissions import NONE, Omissions
from tidings_capture.cdc.fault_points import POINTS

STREAM_POINTS = [p for p in POINTS if not p.startswith(("config.", "snapshot.", "slot.created", "window."))]
SNAPSHOT_POINTS = [p for p in POINTS if p.startswith(("snapshot.", "slot.created"))]
_A_HEADER = {
    "transforms": "header",
    "transforms.header.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.header.header": "lab",
    "transforms.header.value.literal": "lab",
}
"""A transform that changes no row: they have another form on their way, and are none the older or newer for it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a seed stands for."""

    seed: int
    faults: tuple[Fault, ...]
    options: dict[str, str]
    rows: int
    """In table a before the connector."""
    omissions: Omissions = NONE
    alters: bool = False
    """Some transactions alter a table before they write rows."""

    @property
    def snapshot(self) -> bool:
        return self.options.get("snapshot.mode") == "initial"


LIGHT = (
    *("kill_task", "kill_worker", "stop_worker", "point", "point", "point", "freeze_task"),
    *("pg_cut", "pg_hold", "pg_delay", "pg_cut_after", "pg_lose"),
    *("kafka_cut", "kafka_hold", "kafka_delay", "kafka_cut_after", "kafka_lose"),
    *("terminate", "restart", "pause", "reconfigure"),
)
HEAVY = ("pg_immediate", "kafka_kill", "kafka_restart")


def make_schedule(
    seed: int, *, faults: int = 4, heavy: float = 0.5, options: dict[str, str] | None = None
) -> Schedule:
    """The schedule of a seed.

    Args:
        faults: how many at most.
        heavy: how likely one of them stops a server.
    """
    chance = random.Random(seed)
    snapshot = chance.random() < 0.3
    kinds = [chance.choice(LIGHT) for _ in range(chance.randint(2, faults))]
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice(HEAVY)
    chosen: dict[str, str] = {}
    if snapshot:
        chosen["snapshot.mode"] = "initial"
        chosen["snapshot.max.threads"] = chance.choice(("1", "2"))
    if chance.random() < 0.3:
        chosen["topic.creation.default.partitions"] = "3"
        chosen["topic.creation.default.replication.factor"] = "1"
    if chance.random() < 0.3:
        chosen["tidings.streaming.mode"] = "on"
        chosen["tidings.streaming.memory.bytes"] = "100000"
    made = []
    for number, kind in enumerate(kinds):
        points = SNAPSHOT_POINTS if snapshot and number == 0 else STREAM_POINTS
        made.append(
            Fault(
                kind,
                seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5),
                amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
                point=chance.choice(points) if kind == "point" else "",
                records=chance.randint(20, 300),
            )
        )
    # A generator of its own, so that a seed means what it meant before.
    more = random.Random(f"find deleted {seed}")
    if more.random() < 0.3:
        chosen["signal.data.collection"] = "public.signals"
        made.insert(
            more.randint(1, len(made)), Fault("find_deleted", seconds=0.0, records=more.randint(20, 200))
        )
        if more.random() < 0.5:
            made.insert(
                more.randint(1, len(made)),
                Fault("commits_wait", more.uniform(0.5, 6), more.randrange(6), records=more.randint(20, 200)),
            )
            chosen["incremental.snapshot.chunk.size"] = more.choice(("50", "500"))
    rows = chance.randint(5_000, 30_000) if snapshot else 0
    # By a chance of its own, so that a seed's faults are what they were.
    omits = random.Random(f"{seed} omissions")
    omissions = Omissions(transforms=omits.random() < 0.3, conversion=omits.random() < 0.3 and not snapshot)
    if "signal.data.collection" in chosen:
        omissions = NONE  # what is read again and announced as deleted is left out by key, too
        if omits.random() < 0.5:
            chosen |= _A_HEADER
    chosen |= omissions.options()
    alters = random.Random(f"{seed} alters").random() < 0.5
    return Schedule(seed, tuple(made), {**chosen, **(options or {})}, rows, omissions, alters)
