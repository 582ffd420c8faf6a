"""One schedule: phases of traffic with a fault in each, and after each the lake is what the database is.

The watermark is held to both of its promises: whenever it is looked at, everything that END markers at or below it count is
in the logs; and when the traffic rests it passes the last commit no later than a minute after the job has come to rest, and the
tables equal the database's. So do the tables as of moments in the midst of the traffic, then and at the end.
"""

import contextlib
import random
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from faultlab.fault import Fault
from faultlab.lab_faults import LabFaults
from faultlab.servers import Lab
from faultlab.topics import create_topics

from lakehouselab.job import LakeJob, Warehouse
from lakehouselab.moments import Moment, apart, differences, take_moment
from lakehouselab.schedule import Schedule
from lakehouselab.store import Store, Traffic
from tidings_stack.postgres import create_database, drop_database

PARTITIONS = 3
PATIENCE_SECONDS = 60.0
"""The watermark's: it passes what was committed when the job has had nothing to do for so long."""
MOST_SECONDS = 600.0
"""For which the job may get on before it has come there."""
_MOMENTS_AGAIN = 4
"""Of all phases, that are looked at once more at the end, when files have been put together and columns renamed."""


@dataclass
class Outcome:
    """How a schedule ended."""

    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    transactions: int = 0
    starts: int = 0
    moments: int = 0
    """Of which tables were compared as of."""
    slowest: float = 0.0
    """Seconds from the last commit of a phase to a watermark behind it, at most."""


class Run(LabFaults):
    """One schedule on a database, a connector and a job of its own."""

    def __init__(
        self,
        lab: Lab,
        warehouse: Warehouse,
        schedule: Schedule,
        say: Callable[[str], None] = lambda _: None,
        *,
        patience: float = PATIENCE_SECONDS,
        most: float = MOST_SECONDS,
    ) -> None:
        super().__init__(lab, lambda _: None)
        self._warehouse = warehouse
        self._schedule = schedule
        self._say = say
        self._patience = patience
        self._most = most
        self._name = f"l{secrets.token_hex(4)}"
        self._outcome = Outcome()
        self._gap = False
        self._chance = random.Random(f"{schedule.seed} moments")
        self._definitions = random.Random(f"{schedule.seed} definitions")
        self._moments: list[Moment] = []
        self._unseen: list[Moment] = []
        """Those of this phase, which are compared at its end."""

    def run(self) -> Outcome:
        """Run it to the verdict."""
        began, outcome = time.monotonic(), self._outcome
        with self._source():
            self._job = LakeJob(self._warehouse, self._name, self._schedule)
            try:
                self._settle("the initial snapshot")
                for number, fault in enumerate(() if outcome.problems else self._schedule.faults):
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    seed = self._schedule.seed * 100 + number
                    with Traffic(self._store, seed, many=self._schedule.transactions) as traffic:
                        _until(lambda: traffic.transactions >= fault.records, self._patience)  # noqa: B023
                        self._take_moment()
                        self.strike(fault)
                        self._audit(fault)
                        first = traffic.transactions
                        _until(lambda: traffic.transactions >= first + 20, self._patience)  # noqa: B023
                        self._take_moment()
                    outcome.transactions += traffic.transactions
                    self._settle(str(fault))
                    if outcome.problems:
                        break
                else:
                    again = self._chance.sample(self._moments, min(_MOMENTS_AGAIN, len(self._moments)))
                    outcome.problems += self._other_pasts(again)
            finally:
                self._job.close()
                outcome.starts = self._job.starts
                outcome.problems += self._job.problems
        outcome.seconds = time.monotonic() - began
        return outcome

    @contextlib.contextmanager
    def _source(self) -> Iterator[None]:
        lab, name = self.lab, self._name
        self._store = Store(create_database(lab.pg.url, name), name, self._schedule.tables)
        capture = str(Path(sys.executable).with_name("tidings-capture"))
        subprocess.run(
            [capture, "ddl", "install", self._store.url], check=True, capture_output=True, timeout=60
        )
        tables = [f"public.{table}" for table in self._store.tables()]
        create_topics(lab.kafka.bootstrap, name, tables, PARTITIONS)
        config = {
            **lab.connector(name, "|".join((*self._store.tables(), f"signals_{name}"))),
            **(lab.avro() if self._schedule.format == "avro" else lab.json()),
            **(
                {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}
                if self._is_text
                else {}
            ),
            "snapshot.mode": "initial",
            "skipped.operations": "none",
            # The gap is one to the task that starts while the table is not in the publication.
            "on.slot.loss": "incremental",
            "tidings.schema.changes": "true",
            "signal.data.collection": f"public.signals_{name}",
            "incremental.snapshot.chunk.size": "64",
        }
        lab.worker.ask("PUT", f"/connectors/{name}/config", config, 200, 201)
        lab.worker.wait_task(name)
        try:
            yield
        finally:
            lab.heal()
            with contextlib.suppress(Exception):
                lab.worker.ask("DELETE", f"/connectors/{name}", None, 204, 404)
            drop_database(lab.pg.url, name)

    @property
    def _is_text(self) -> bool:
        return self._schedule.format == "text"

    # --- faults

    def point(self, fault: Fault, *, forget: bool = False) -> None:
        """The job dies behind a write."""
        self._job.strike(fault.point, self._patience, forget=forget)

    def forget(self, fault: Fault) -> None:
        """It dies, and its checkpoint is lost."""
        self.point(fault, forget=True)

    def incremental(self, _: Fault) -> None:
        self._store.snapshot("incremental")

    def blocking(self, _: Fault) -> None:
        self._store.snapshot("blocking")

    def gap(self, fault: Fault) -> None:
        """Changes are lost, and an incremental snapshot repairs what they have left; with a point, the job dies meanwhile."""
        self._store.gap()
        self._store.snapshot("incremental")
        self._gap = True
        if fault.point:
            self.forget(fault)

    def rename(self, _: Fault) -> None:
        """A column gets another name."""
        self._store.rename()

    def relax(self, _: Fault) -> None:
        """A column that may not be null may be."""
        self._store.relax()

    def define(self, _: Fault) -> None:
        """A column comes, with a default that older rows have, becomes wider, or goes."""
        self._store.define(self._definitions)

    def set_aside(self, fault: Fault) -> None:
        """A table belongs to somebody else for a while; the job finds out when it starts again, and so that it is over."""
        log = f"technical.things_{self._name}_log"
        self._job.own(log, "somebody")
        self.point(fault)
        if not self._job.wait(lambda: self._job.has_set_aside, self._patience):
            self._outcome.problems.append(
                f"{fault}: {log} belongs to somebody else, and nothing is set aside"
            )
        self._audit(fault)
        self._job.own(log, f"{self._name}.public.things_{self._name}")
        self.point(fault)

    # --- what has to be true

    def _audit(self, fault: Fault) -> None:
        tables = {f"public.{table}": table for table in self._store.tables()}
        if (problem := self._job.claimed_too_much(tables)) is not None:
            self._outcome.problems.append(f"under {fault}: {problem}")

    def _settle(self, after: str) -> None:
        """Traffic rests: the watermark passes it in time, and then the tables are the database's."""
        self.lab.heal()
        self.lab.worker.wait_task(self._name)
        lsn, began = self._store.pulse(), time.monotonic()
        if not self._job.passes(lsn, lambda: self._audit(Fault(after)), self._patience, most=self._most):
            seconds = time.monotonic() - began
            self._outcome.problems.append(
                f"after {after}: the watermark is {self._job.watermark()}, and {lsn} was committed {seconds:.0f} s ago"
            )
            return
        self._outcome.slowest = max(self._outcome.slowest, time.monotonic() - began)
        if self._gap:
            # The snapshot goes on beside the stream, whose commits the watermark follows.
            self._job.wait(lambda: not self._differences(), self._patience)
        unseen, self._unseen = self._unseen, []
        problems = [*self._differences(), *self._other_pasts(unseen)]
        self._outcome.problems += [f"after {after}: {problem}" for problem in problems]
        self._moments += unseen
        self._audit(Fault(after))
        self._gap = False

    def _take_moment(self) -> None:
        """Remember what the tables with a current state hold; not while changes of them are lost."""
        kinds = {table: table.partition("_")[0] for table in self._store.tables()}
        tables = [one for one, kind in kinds.items() if self._schedule.has_state(kind)]
        if self._gap or not tables or not self._warehouse.is_own:
            return
        with contextlib.suppress(psycopg.OperationalError):  # a fault has ended this session, too
            self._unseen.append(take_moment(self._store, tables))

    def _other_pasts(self, moments: list[Moment]) -> list[str]:
        if not moments:
            return []
        self._outcome.moments += len(moments)
        return differences(self._job.settings, self._store.past, moments, self._job.sql, self._chance)

    def _differences(self) -> list[str]:
        found = []
        for table in self._store.tables():
            if self._is_text and table.startswith("shorts"):
                continue  # of a text nobody says what a TRUNCATE has left
            columns, held = self._job.rows(self._store, table)
            rows = self._store.rows(table, columns)
            if held != rows:
                found.append(f"{table}: {apart(rows, held)}")
        return found


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether something has become true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
