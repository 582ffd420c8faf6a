"""One schedule between MariaDB or MySQL and business events: the store's customer, the binlog lab's faults and those of the stages.

At the end each event that the rules tell of the transactions behind the first snapshot is there, once, and in order, as SQL tells
it from the store's own history.
"""

import random
import time
from collections.abc import Callable

from binloglab.servers import BinlogLab
from binloglab.store import TABLES
from binloglab.store_run import StoreRun
from binloglab.traffic import finish_prepared
from faultlab.fault import Fault
from faultlab.topics import create_topics

from tidings_stack.waiting import wait_for
from tidings_translator.base.fault_points import POINTS
from translatorlab.poison import letters
from translatorlab.processes import wait_until
from translatorlab.published import Published, Verdict
from translatorlab.run import Outcome
from translatorlab.stages import Stages, published_ends
from translatorlab.strikes import StageFaults
from translatorlab.truth import count, expected_of_history

_PARTITIONS = 3
_CATCH_UP_SECONDS = 240.0
"""How long nothing may be published before all is: a machine with too much to do gets there, too."""
_STAGES = (
    *(f"{what}_{stage}" for stage in ("sequencer", "translator") for what in ("point", "point", "kill", "freeze")),
    *("join_translator", "leave_translator", "join_sequencer", "leave_sequencer", "promote", "promote"),
)  # fmt: skip


def fault_of_stages(chance: random.Random) -> Fault:
    """One that a schedule has beside those of the source."""
    kind = chance.choice(_STAGES)
    point = chance.choice(list(POINTS)) if kind.startswith("point") else ""
    seconds = chance.choice((0.5, 2.0, 8.0))  # the last is longer than a session
    return Fault(kind, seconds, chance.randint(0, 6), point, chance.randint(10, 200))


class BinlogEventsRun(StageFaults, StoreRun):
    """One schedule on a database, a connector and stages of its own.

    Args:
        postgres: the URL of a PostgreSQL that computes what is expected, and keeps nothing.
    """

    def __init__(
        self,
        lab: BinlogLab,
        postgres: str,
        seed: int,
        faults: tuple[Fault, ...],
        say: Callable[[str], None],
    ) -> None:
        super().__init__(lab, seed, faults, say)
        self._postgres = postgres
        self._published = Published(lab.kafka.bootstrap, self._name)

    def run(self) -> Outcome:  # type: ignore[override]  # another verdict
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back.
        """
        began, lab, name = time.monotonic(), self._binlog_lab, self._name
        tables = [f"{name}.{table}" for table in (*TABLES, "elsewhere", "history")]
        create_topics(lab.kafka.bootstrap, name, tables, _PARTITIONS)
        with self._database(old_rows=self._initial):
            directory = lab.directory / name
            directory.mkdir()
            self.pipeline = Stages(name, directory, self._stage_settings(), bootstrap=lab.kafka.bootstrap)
            try:
                self._begin(self._config())
                for kind in ("sequencer", "translator"):
                    self.pipeline.stage(kind, 1).start()
                wait_for("the connector to read", self._reads)
                with self._customers() as customers:
                    for fault in self._faults:
                        self._more_records(fault.records)
                        self._say(f"  {time.monotonic() - began:.1f} {fault}")
                        self.strike(fault)
                    self._more_records(50)
                self._say(f"  {time.monotonic() - began:.1f} peace")
                verdict = self._settle(customers.number)
            finally:
                self.pipeline.close()
        starts = sum(stage.starts for stage in self.pipeline.stages.values())
        return Outcome(verdict, time.monotonic() - began, customers.number - self.quiet, starts)

    def logs(self) -> str:
        """The ends of the stages' logs."""
        return self.pipeline.logs() if hasattr(self, "pipeline") else ""

    def _stage_settings(self) -> dict[str, str]:
        lab, chance = self._binlog_lab, random.Random(f"{self._seed} settings")
        little = {"TIDINGS_READ_AHEAD_ROWS": "10", "TIDINGS_MAX_BUFFERED_ROWS": "100"}
        return {
            "TIDINGS_KAFKA": lab.kafka.proxied,
            "TIDINGS_REGISTRY": lab.registry.url,
            "TIDINGS_SOURCE": self._name,
            "TIDINGS_LAB_NAME": self._name,
            "TIDINGS_LAB_SCHEMA": self._name,
            "TIDINGS_MALFORMED_GRACE_SECONDS": "0.5",
            "TIDINGS_SESSION_TIMEOUT_SECONDS": "6",
            "TIDINGS_TRANSACTION_TIMEOUT_SECONDS": "6",
            "TIDINGS_TRANSACTION_DEADLINE_SECONDS": "30",
            **(little if chance.random() < 0.5 else {}),
        }

    # --- faults

    def resnapshot(self, fault: Fault) -> None:
        """See `StageFaults.resnapshot`."""
        self.signal(fault)

    # --- what is there

    def _more_records(self, count: int) -> None:
        """Wait for change sets and events; not for ever, as what is down may have to come back first."""
        first = self._ends()
        wait_until(lambda: self._ends() >= first + count, 5)

    def _ends(self) -> int:
        return published_ends(self._binlog_lab.kafka.bootstrap, self._name, schema=self._name)

    def _settle(self, last: int) -> Verdict:
        """Let everything be told, and compare."""
        lab, name = self._binlog_lab, self._name
        lab.heal()
        self.pipeline.disarm()
        finish_prepared(lab.db, name, random.Random(self._seed))
        lab.worker.wait_task(name)
        told = range(self.quiet + 1, last + 1)
        want = expected_of_history(self._postgres, self._committed(), told)
        for order in self._read:  # by a rule that asks for rows of snapshots
            want["order-seen.v1"].setdefault(str(order), [{"order_id": order}])
        wanted = count(want)
        self._published.wait(wanted, _CATCH_UP_SECONDS)
        verdict = self._published.judge(want)
        if found := letters(lab.kafka.bootstrap, f"tidings.{name}."):
            verdict.problems.append(f"{len(found)} records are dead letters, such as {min(found)}")
        if verdict.problems:
            verdict.problems += self.pipeline.states()
        return verdict
