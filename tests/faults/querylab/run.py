"""One schedule: a query source with comparisons, traffic, the faults, peace; then each topic is its table."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

from faultlab.connector_faults import ConnectorFaults
from faultlab.fault import Fault
from faultlab.servers import Lab
from faultlab.verdict import read_topics

from querylab.database import GONE, TABLES, Database
from querylab.schedule import MODES, Schedule
from querylab.traffic import Traffic
from querylab.verdict import Verdict, judge
from tidings_stack.waiting import wait_for

WORKER = {"scheduled.rebalance.max.delay.ms": "500"}
"""Properties of the workers."""
EXACTLY_ONCE = {**WORKER, "exactly.once.source.support": "enabled"}
SECONDS = 180
"""How long the topics may take, when all is well again."""


class Run(ConnectorFaults):
    """One schedule on a lab.

    Args:
        exactly_once: whether the lab's workers deliver so.
    """

    def __init__(
        self, lab: Lab, database: Database, name: str, schedule: Schedule, say: Callable[[str], None], *,
        exactly_once: bool,
    ) -> None:  # fmt: skip
        super().__init__(lab, self._more_records, name, "db", database.proxy)
        self._database, self._name, self._schedule, self._say = database, name, schedule, say
        self._exactly_once = exactly_once
        self._columns: list[int] = []
        self._altered = self._tasks = 0
        self._bulk = schedule.mode == "bulk"

    def run(self) -> dict[str, Any]:
        """Run it; what it did.

        Raises:
            AssertionError: a topic did not become its table, or something is there twice that may not.
        """
        began, lab, name = time.monotonic(), self.lab, self._name
        self._database.create(name)
        try:
            self._put()
            lab.worker.wait_task(name)
            with Traffic(self._database, name, self._schedule.seed) as traffic:
                for fault in self._schedule.faults:
                    before, deadline = traffic.transactions, time.monotonic() + 20
                    while traffic.transactions < before + fault.records and time.monotonic() < deadline:
                        time.sleep(0.05)
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self.strike(fault)
                self._heal()
            verdicts = self._verdicts()
            doubled = sum(verdict.doubled for verdict in verdicts)
            again = self._bulk or any(fault.kind == "forget" for fault in self._schedule.faults)
            if doubled and self._exactly_once and not again:
                raise AssertionError(f"{doubled} records are there twice")
            return {
                "transactions": traffic.transactions,
                "records": sum(verdict.records for verdict in verdicts),
                "doubled": doubled,
                "seconds": round(time.monotonic() - began, 1),
            }
        finally:
            with contextlib.suppress(Exception):
                self._heal()
                lab.worker.ask("DELETE", f"/connectors/{name}", None, 204, 404)
            self._database.drop(name)

    def _heal(self) -> None:
        self._database.heal()
        self.heal_workers()

    def _put(self) -> None:
        compared = {} if self._bulk or not self._database.compared else {
            "tidings.reconciliation.interval.ms": "200",
            "tidings.reconciliation.rows.per.second": "100000",
            "tidings.reconciliation.range.rows": "20",
        }  # fmt: skip
        config = {
            "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
            "tasks.max": str(1 + self._tasks % len(TABLES)),
            **self._database.options(self._name),
            "mode": self._schedule.mode,
            **MODES[self._schedule.mode],
            "table.whitelist": ",".join(TABLES),
            "topic.prefix": f"{self._name}.",
            "poll.interval.ms": "1000" if self._bulk else "50",
            "connection.backoff.ms": "200",
            "tidings.record.key": "primary.key",
            **({"tidings.late.commits": "wait"} if self._schedule.waits else {}),
            **compared,
            "errors.retry.delay.initial.ms": "100",
            "errors.retry.delay.max.ms": "500",
        }
        self.lab.worker.ask("PUT", f"/connectors/{self._name}/config", config, 200, 201)

    # --- what has to be there in the end

    def _verdicts(self) -> list[Verdict]:
        truth = {table: self._database.rows(self._name, table) for table in TABLES}
        last: list[Verdict] = []

        def ended() -> bool:
            read = read_topics(self.lab.kafka.bootstrap, self._name)
            last[:] = [
                judge(truth[table], read.get((f"{self._name}.{table}", 0), []), deletes=not self._bulk)
                for table in TABLES
            ]
            return not any(verdict.wrong for verdict in last)

        try:
            wait_for("the topics to be the tables", ended, SECONDS)
        except AssertionError as error:
            wrong = [dict(list(verdict.wrong.items())[:5]) for verdict in last]
            states = self.lab.worker.request("GET", f"/connectors/{self._name}/status")[1]
            raise AssertionError(f"{error}: {wrong}; {states}") from None
        return last

    def _more_records(self, count: int) -> None:
        """Not for ever: some faults end with a task that is down for a while."""
        time.sleep(min(0.5, count * 0.02))

    # --- faults

    def db_restart(self, _: Fault) -> None:
        """The database stops, and comes back."""
        self._database.restart()

    def db_kill(self, _: Fault) -> None:
        """The database crashes, and recovers."""
        self._database.kill()

    def spread(self, _: Fault) -> None:
        """The tables get another number of tasks."""
        self._tasks += 1
        self._put()

    def forget(self, fault: Fault) -> None:
        """The offsets become others: none, or earlier ones."""
        name, worker = self._name, self.lab.worker
        worker.ask("PUT", f"/connectors/{name}/stop", None, 204)
        wait_for("the tasks to stop", lambda: not worker.request("GET", f"/connectors/{name}/tasks")[1])
        status, body = worker.request("GET", f"/connectors/{name}/offsets")
        offsets = body["offsets"] if status == 200 else []
        for entry in offsets:
            for field, step in (("incrementing", 5), ("timestamp", 500)):
                if field in (entry["offset"] or {}):
                    entry["offset"][field] = max(0, entry["offset"][field] - step)
        if fault.amount % 2 or not offsets:
            # What is told of deleted rows goes with the offsets: only what is there can be sent again.
            offsets = []
        if offsets:
            worker.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": offsets}, 200)
        worker.ask("PUT", f"/connectors/{name}/resume", None, 202)

    def alter(self, _: Fault) -> None:
        """A column comes."""
        self._altered += 1
        with contextlib.suppress(*GONE):
            self._database.run(
                self._name, f"ALTER TABLE {TABLES[0]} ADD COLUMN x{self._altered} INTEGER DEFAULT 7"
            )
            self._columns.append(self._altered)

    def drop(self, _: Fault) -> None:
        """A column goes."""
        if self._columns:
            with contextlib.suppress(*GONE):
                self._database.run(self._name, f"ALTER TABLE {TABLES[0]} DROP COLUMN x{self._columns.pop()}")

    def rekey(self, fault: Fault) -> None:
        """Rows get other keys."""
        with contextlib.suppress(*GONE):
            low, step = fault.amount, 100_000 * (1 + fault.amount)
            moved = (
                f"SELECT id FROM (SELECT id FROM {TABLES[0]} WHERE id % 7 = {low} AND id < 100000) AS some"
            )
            self._database.run(self._name, f"UPDATE {TABLES[0]} SET id = id + {step} WHERE id IN ({moved})")
