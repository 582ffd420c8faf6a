"""Random schedules of faults on a pipeline: traffic, a few faults, peace, a verdict. One seed makes one schedule.

Times in a schedule are times of faults (how long a link is held); nothing that is checked depends on them.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from faultlab.fault import Fault
from faultlab.proxy import Proxy

from tidings_translator.fault_points import POINTS
from translatorlab.pipeline import Pipeline
from translatorlab.processes import StageProcess, wait_until
from translatorlab.published import Verdict
from translatorlab.store import TABLES, Customers

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
        "capture_task",
        "capture_worker",
        "terminate",
        "resnapshot",
        "resnapshot",
        "alter",
        "alter",
    ),
)
HEAVY = ("broker_kill", "broker_restart", "pg_crash")


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


@dataclass
class Outcome:
    """How a schedule ended."""

    verdict: Verdict
    seconds: float
    transactions: int
    starts: int
    """Of stages, since the pipeline was made."""


class Run:
    """One schedule on a pipeline, which goes on after it.

    Args:
        strict: a named point has to be passed: for schedules that are written down.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        schedule: Schedule,
        say: Callable[[str], None] = lambda _: None,
        *,
        strict: bool = False,
    ) -> None:
        self.pipeline = pipeline
        self.lab = pipeline.lab
        self.schedule = schedule
        self._say = say
        self._strict = strict
        self._chance = random.Random(f"{schedule.seed} run")

    def run(self) -> Outcome:
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back, or a point was not passed in a strict run.
        """
        began = time.monotonic()
        with Customers(self.pipeline.url, self.schedule.seed) as customers:
            for fault in self.schedule.faults:
                self._more(fault.records)
                self._say(f"  {time.monotonic() - began:.1f} {fault}")
                getattr(self, f"_{fault.kind}")(fault)
            self._more(50)
        self._say(f"  {time.monotonic() - began:.1f} peace")
        verdict = self.pipeline.settle()
        starts = sum(stage.starts for stage in self.pipeline.stages.values())
        return Outcome(verdict, time.monotonic() - began, customers.transactions, starts)

    def _more(self, records: int) -> None:
        """Wait until more is published; not for ever, as what is down may have to come back first."""
        first = self.pipeline.published_ends()
        wait_until(lambda: self.pipeline.published_ends() >= first + records, 60 if self._strict else 5)

    def _one(self, kind: str) -> StageProcess:
        return self._chance.choice(self.pipeline.running(kind))

    # Faults

    def _point(self, fault: Fault, stage: StageProcess) -> None:
        first = stage.starts
        stage.arm(fault.point, fault.amount)
        if fault.point in {"assigned", "restored"}:
            stage.signal(signal.SIGTERM)  # these are passed by whoever starts
        elif fault.point in {"revoked", "drained"}:
            # Somebody comes or goes: the group rebalances.
            other = self.pipeline.stage(stage.kind, 2 if stage.name.endswith("1") else 1)
            if other.wanted and len(self.pipeline.running(stage.kind)) > 1:
                other.stop()
            else:
                other.start()
        passed = wait_until(lambda: not stage.armed, 60 if self._strict else 5)
        assert passed or not self._strict, f"{stage.name} did not pass {fault.point}\n{stage.tail()}"
        stage.disarm()
        if self._strict:
            wait_until(lambda: stage.starts > first, 60)

    def _point_sequencer(self, fault: Fault) -> None:
        self._point(fault, self._one("sequencer"))

    def _point_translator(self, fault: Fault) -> None:
        self._point(fault, self._one("translator"))

    def _kill_sequencer(self, _: Fault) -> None:
        self._one("sequencer").kill()

    def _kill_translator(self, _: Fault) -> None:
        self._one("translator").kill()

    def _stop_sequencer(self, _: Fault) -> None:
        self._one("sequencer").signal(signal.SIGTERM)

    def _stop_translator(self, _: Fault) -> None:
        self._one("translator").signal(signal.SIGTERM)

    def _freeze_sequencer(self, fault: Fault) -> None:
        self._freeze(self._one("sequencer"), fault.seconds)

    def _freeze_translator(self, fault: Fault) -> None:
        self._freeze(self._one("translator"), fault.seconds)

    def _freeze(self, stage: StageProcess, seconds: float) -> None:
        stage.signal(signal.SIGSTOP)
        time.sleep(seconds)
        stage.signal(signal.SIGCONT)

    def _join_translator(self, _: Fault) -> None:
        self.pipeline.stage("translator", self._chance.choice((2, 3))).start()

    def _join_sequencer(self, _: Fault) -> None:
        self.pipeline.stage("sequencer", 2).start()

    def _leave_translator(self, _: Fault) -> None:
        self._leave("translator")

    def _leave_sequencer(self, _: Fault) -> None:
        self._leave("sequencer")

    def _leave(self, kind: str) -> None:
        running = self.pipeline.running(kind)
        if len(running) > 1:
            self._chance.choice(running).stop()
        else:
            self.pipeline.stage(kind, 2 if running[0].name.endswith("1") else 1).start()

    def _kafka_cut(self, _: Fault) -> None:
        self.lab.kafka_proxy.cut()

    def _kafka_hold(self, fault: Fault) -> None:
        self.lab.kafka_proxy.hold()
        time.sleep(fault.seconds)
        self.lab.kafka_proxy.heal()

    def _kafka_delay(self, fault: Fault) -> None:
        self.lab.kafka_proxy.delay(fault.seconds)
        self._more(fault.amount * 20)
        self.lab.kafka_proxy.heal()

    def _kafka_cut_after(self, fault: Fault) -> None:
        self.lab.kafka_proxy.cut_after(fault.amount)
        self._more(50)

    def _kafka_lose(self, _: Fault) -> None:
        self.lab.kafka_proxy.lose()
        self._more(50)

    def _registry_away(self, fault: Fault) -> None:
        """And both stages start meanwhile: the translator cannot, until the registry is back."""
        proxy = self.lab.registry_proxy
        assert isinstance(proxy, Proxy)
        proxy.refuse()
        self._one("translator").kill()
        if fault.amount % 2:
            self._one("sequencer").kill()
        time.sleep(fault.seconds)
        proxy.heal()

    def _capture_task(self, _: Fault) -> None:
        """What it had sent and not acknowledged comes once more."""
        pid = self.lab.worker.task_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _capture_worker(self, _: Fault) -> None:
        self.lab.worker.kill()
        self.lab.worker.start()

    def _terminate(self, _: Fault) -> None:
        with psycopg.connect(self.lab.pg.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidings-capture'"
            )

    def _resnapshot(self, _: Fault) -> None:
        self.pipeline.resnapshot()

    def _alter(self, fault: Fault) -> None:
        """Columns that no rule uses are renamed, added and retyped."""
        table = self._chance.choice(TABLES)
        with psycopg.connect(self.pipeline.url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attname LIKE 'unused%%'"
                " AND NOT attisdropped",
                (table,),
            ).fetchall()
            column, number = self._chance.choice(found)[0], f"unused_{self._chance.randrange(1 << 40):x}"
            connection.execute(
                (
                    f"ALTER TABLE {table} RENAME COLUMN {column} TO {number}",
                    f"ALTER TABLE {table} ADD COLUMN {number} text DEFAULT 'new'",
                    f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text",
                )[fault.amount % 3]
            )

    def _broker_kill(self, _: Fault) -> None:
        self.lab.kafka.kill()
        self.lab.kafka.start()

    def _broker_restart(self, _: Fault) -> None:
        self.lab.kafka.stop()
        self.lab.kafka.start()

    def _pg_crash(self, _: Fault) -> None:
        self.lab.crash_postgres()
        self.lab.pg.start()
