"""What a fault of a schedule of the whole pipeline does, beside those that capture's schedules have, too."""

import contextlib
import random
import signal
import time
from collections.abc import Callable

import psycopg
from confluent_kafka import KafkaException
from faultlab.fault import Fault
from faultlab.lab_faults import LabFaults
from faultlab.proxy import Proxy
from faultlab.servers import Lab

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError, GenerationError
from tidings_translator.base.naming import prefix
from tidings_translator.generations.generations import Generations
from tidings_translator.ledger.ledger import Promotion
from translatorlab.pipeline import Pipeline
from translatorlab.poison import spoil
from translatorlab.processes import StageProcess, wait_until
from translatorlab.stages import Stages
from translatorlab.store import TABLES


class StageFaults:
    """Faults of the stages alone, whatever their source is."""

    lab: Lab
    pipeline: Stages
    _chance: random.Random
    """Chooses the instance that is struck."""
    _strict: bool = False
    """A named point has to be passed."""

    def _one(self, kind: str) -> StageProcess:
        return self._chance.choice(self.pipeline.running(kind))

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

    def point_sequencer(self, fault: Fault) -> None:
        self._point(fault, self._one("sequencer"))

    def point_translator(self, fault: Fault) -> None:
        self._point(fault, self._one("translator"))

    def kill_sequencer(self, _: Fault) -> None:
        self._one("sequencer").kill()

    def kill_translator(self, _: Fault) -> None:
        self._one("translator").kill()

    def stop_sequencer(self, _: Fault) -> None:
        self._one("sequencer").signal(signal.SIGTERM)

    def stop_translator(self, _: Fault) -> None:
        self._one("translator").signal(signal.SIGTERM)

    def freeze_sequencer(self, fault: Fault) -> None:
        self._freeze(self._one("sequencer"), fault.seconds)

    def freeze_translator(self, fault: Fault) -> None:
        self._freeze(self._one("translator"), fault.seconds)

    def _freeze(self, stage: StageProcess, seconds: float) -> None:
        stage.signal(signal.SIGSTOP)
        time.sleep(seconds)
        stage.signal(signal.SIGCONT)

    def join_translator(self, _: Fault) -> None:
        self.pipeline.stage("translator", self._chance.choice((2, 3))).start()

    def join_sequencer(self, _: Fault) -> None:
        self.pipeline.stage("sequencer", 2).start()

    def leave_translator(self, _: Fault) -> None:
        self._leave("translator")

    def leave_sequencer(self, _: Fault) -> None:
        self._leave("sequencer")

    def _leave(self, kind: str) -> None:
        running = self.pipeline.running(kind)
        if len(running) > 1:
            self._chance.choice(running).stop()
        else:
            self.pipeline.stage(kind, 2 if running[0].name.endswith("1") else 1).start()

    def promote(self, fault: Fault) -> None:
        """A new generation takes over, with a snapshot, a rebalance or a kill in its midst."""
        self.lab.heal()
        name = self.pipeline.start_generation()
        if name is None:
            return
        if self._chance.random() < 0.5:  # it is shared out anew while it begins
            self.pipeline.stage("sequencer", 2, name).start()
        generations = Generations(KafkaAccess(self.lab.kafka.bootstrap), self.pipeline.name)
        promotions: list[Promotion] = []

        def promoted() -> bool:
            with contextlib.suppress(GenerationError, BrokerError):
                promotions.append(generations.promote(name, max_behind=5_000, despite_letters=True))
            return bool(promotions)

        logs = self.pipeline.logs
        assert wait_until(promoted, 300), f"generation {name} was not ready\n{logs()}"
        (self.resnapshot, self.join_sequencer, self.kill_sequencer, self.kill_translator)[fault.amount % 4](
            fault
        )
        self.pipeline.stage("sequencer", 2, name).start()
        assert generations.watch(promotions[0], lambda _: None, timeout_seconds=300), (
            f"{name} hangs\n{logs()}"
        )
        self.pipeline.retire(name)

    def resnapshot(self, fault: Fault) -> None:
        """Ask for a snapshot of everything: it must be nobody's news."""
        raise NotImplementedError


class Strikes(StageFaults, LabFaults):
    """Strikes a pipeline and the lab it is on.

    Args:
        more: waits until so many more events are published, and not for ever.
        chance: chooses the instance that is struck.
        strict: a named point has to be passed.
    """

    pipeline: Pipeline

    def __init__(
        self, pipeline: Pipeline, more: Callable[[int], None], chance: random.Random, *, strict: bool
    ) -> None:
        super().__init__(pipeline.lab, more)
        self.pipeline = pipeline
        self._chance = chance
        self._strict = strict

    def registry_away(self, fault: Fault) -> None:
        """And both stages start meanwhile: the translator cannot, until the registry is back."""
        proxy = self.lab.registry_proxy
        assert isinstance(proxy, Proxy)
        proxy.refuse()
        self._one("translator").kill()
        if fault.amount % 2:
            self._one("sequencer").kill()
        time.sleep(fault.seconds)
        proxy.heal()

    def retention(self, _: Fault) -> None:
        """It has reached what the stages have committed: whoever needs anything before that must say so, and nobody may."""
        with contextlib.suppress(KafkaException):  # a broker that is away deletes nothing
            self.pipeline.expire()

    def resnapshot(self, _: Fault) -> None:
        self.pipeline.resnapshot()

    def block(self, _: Fault) -> None:
        self.pipeline.resnapshot("blocking")

    def unreadable(self, fault: Fault) -> None:
        """Unreadable records, so that each time some stand beside rows that are slow to come."""
        for number in range(fault.amount + 1):
            table = self._chance.choice((*TABLES, None))
            self.pipeline.write_unreadable(table, self._chance.randrange(self.pipeline.partitions))
            self._more(number)

    def alter(self, fault: Fault) -> None:
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

    def poison(self, fault: Fault) -> None:
        """Somebody writes what nobody can use onto topics of tables, and between the stages.

        Of the latter nobody is told when another generation takes over before they are read.
        """
        name, bootstrap = self.pipeline.name, self.pipeline.lab.kafka.bootstrap
        if tables := self.pipeline.topics():
            self.pipeline.poisoned |= spoil(bootstrap, tables, self._chance, fault.amount + 1)
        spoil(bootstrap, [f"{prefix(name, self.pipeline.generation)}.change-sets"], self._chance, 1)

    def evolve(self, _: Fault) -> None:
        """The stages are started again, one after the other, with another version of the domain; their state stays."""
        self.pipeline.change_domain()
        for stage in [*self.pipeline.running("sequencer"), *self.pipeline.running("translator")]:
            first = stage.starts
            stage.signal(signal.SIGTERM)
            wait_until(lambda stage=stage, first=first: stage.starts > first, 30)

    def widen(self, _: Fault) -> None:
        """Somebody raises the partitions of change sets and state: the generation goes on in those that it began with."""
        with contextlib.suppress(KafkaException):  # a broker that is away raises nothing
            self.pipeline.widen()

    def wide(self, fault: Fault) -> None:
        """A transaction of wide rows: as many megabytes as the fault says."""
        with psycopg.connect(self.pipeline.url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO orders (customer_id, status) SELECT (SELECT min(id) FROM customers), repeat('wide ', 10000) || n"
                " FROM generate_series(1, 20 * (1 + %s)) n WHERE EXISTS (SELECT FROM customers)",
                (fault.amount,),
            )
