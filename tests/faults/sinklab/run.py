"""One schedule: a source, a sink, traffic, the faults, peace; then the target is what its sink claims, and nothing is there twice."""

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import psycopg
from faultlab.connector_faults import ConnectorFaults
from faultlab.fault import Fault
from faultlab.servers import Lab
from faultlab.verdict import read_topics

from sinklab.schedule import Schedule
from sinklab.target import TABLES, Claim, FileTarget, RecordPlace, Target
from sinklab.traffic import Traffic, create_tables, source_rows
from sinklab.verdict import Verdict, judge_copy, judge_places
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for

WORKER = {"exactly.once.source.support": "enabled", "scheduled.rebalance.max.delay.ms": "500"}
"""Properties of the workers."""
SECONDS = 180
"""How long the target may take, when all is well again."""


class Run(ConnectorFaults):
    """One schedule on a lab."""

    def __init__(
        self, lab: Lab, target: Target, name: str, schedule: Schedule, say: Callable[[str], None]
    ) -> None:
        self._sink = f"{name}-sink"
        super().__init__(lab, lambda _: time.sleep(0.5), self._sink, "target", target.proxy)
        self._target, self._schedule, self._say, self._name = target, schedule, say, name
        self._columns: list[int] = []
        self._altered = 0
        self._url = ""

    def run(self) -> dict[str, Any]:
        """Run it; what it did.

        Raises:
            AssertionError: the target did not become what it has to be, or something is there twice.
        """
        began, lab, name = time.monotonic(), self.lab, self._name
        self._url = create_database(lab.pg.url, name)
        try:
            create_tables(self._url)
            lab.worker.ask("PUT", f"/connectors/{name}/config", self._source_config(), 200, 201)
            lab.worker.wait_task(name)
            lab.worker.ask("PUT", f"/connectors/{self._sink}/config", self._config(), 200, 201)
            with Traffic(self._url, self._schedule.seed, bursts=self._schedule.wire == "avro") as traffic:
                for fault in self._schedule.faults:
                    before = traffic.transactions
                    wait_for("traffic", lambda: traffic.transactions >= before + fault.records // 4)  # noqa: B023
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self.strike(fault)
            self._heal()
            verdict = self._verdict()
            return {
                "transactions": traffic.transactions,
                "written": verdict.written,
                "doubled": verdict.doubled,
                "seconds": round(time.monotonic() - began, 1),
            }
        finally:
            with contextlib.suppress(Exception):
                self._heal()
                for connector in (self._sink, name):
                    lab.worker.ask("DELETE", f"/connectors/{connector}", None, 204, 404)
            drop_database(lab.pg.url, name)

    def _heal(self) -> None:
        self.heal_workers()
        self._target.heal()

    def _source_config(self) -> dict[str, str]:
        return {
            **self.lab.connector(self._name, "|".join(TABLES)),
            **self._converters(),
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.groups": "transactions",
            "topic.creation.transactions.include": ".*[.]transaction",
            "topic.creation.transactions.partitions": "1",
            "topic.creation.transactions.replication.factor": "1",
        }

    def _converters(self) -> dict[str, str]:
        match self._schedule.wire:
            case "avro":
                return self.lab.avro()
            case "schemas":
                return self.lab.json()
            case _:
                return {}

    def _config(self) -> dict[str, str]:
        own = self._target.connector(self._name)
        more = "|transaction" if "tidings.transactions" in own else ""
        return {
            "topics.regex": f"{self._name}[.](public[.].*{more})",
            "tasks.max": str(self._target.tasks),
            "errors.retry.delay.initial.ms": "100",
            "errors.retry.delay.max.ms": "500",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.max.poll.records": "500" if self._schedule.wire == "avro" else "50",
            **self._converters(),
            **own,
        }

    # --- what has to be there in the end

    def _verdict(self) -> Verdict:
        truth = source_rows(self._url)
        if self._target.claim is Claim.COPY:

            def look() -> Verdict:
                return judge_copy(truth, self._target.rows(self._name))
        else:
            records = self._captured(truth)

            def look() -> Verdict:
                return judge_places(
                    records,
                    self._target.places(self._name),
                    self._target.claim,
                    in_order=self._target.in_order,
                )

        last: list[Verdict | Exception] = []

        def ended() -> Verdict | None:
            try:
                last[:] = [look()]
            except Exception as error:  # noqa: BLE001 - the server starts
                last[:] = [error]
                return None
            return last[0] if isinstance(last[0], Verdict) and last[0].ends else None

        try:
            found: Verdict = wait_for("the target to be the source", ended, SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; {last}; {self._states()}") from None
        if self._target.claim is not Claim.OBJECTS:  # whose last records stay open
            self._await_commit()
            found = look()  # nothing comes any more
        if found.wrong or (found.doubled and self._target.claim is not Claim.AT_LEAST_ONCE):
            raise AssertionError(f"{found.doubled} of {found.written} are there twice; {found.wrong}")
        return found

    def _await_commit(self) -> None:
        """Until the group goes on after the last record of every partition."""
        read = read_topics(self.lab.kafka.bootstrap, f"{self._name}.public", bytes)
        ends = {place: records[-1].offset + 1 for place, records in read.items() if records}

        def short() -> dict[tuple[str, int], tuple[int, int]]:
            status, answer = self.lab.worker.request("GET", f"/connectors/{self._sink}/offsets")
            found = {
                (entry["partition"]["kafka_topic"], entry["partition"]["kafka_partition"]): entry["offset"][
                    "kafka_offset"
                ]
                for entry in (answer["offsets"] if status == 200 else ())
            }
            return {
                place: (found.get(place, 0), end) for place, end in ends.items() if found.get(place, 0) < end
            }

        try:
            wait_for("the commit of the last records", lambda: not short(), 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {short()}; {self._states()}") from None

    def _captured(self, truth: dict[str, dict[int, Any]]) -> list[RecordPlace]:
        """The places of all records but tombstones, once the topics tell the source's rows."""
        records: list[RecordPlace] = []

        def captured() -> bool:
            records.clear()
            rows: dict[str, dict[int, Any]] = defaultdict(dict)
            for (topic, partition), read in read_topics(
                self.lab.kafka.bootstrap, f"{self._name}.public"
            ).items():
                table = topic.rpartition(".")[2]
                for record in read:
                    if record.value is None:
                        continue
                    records.append(RecordPlace(topic, partition, record.offset))
                    key, value = (each.get("payload", each) for each in (record.key, record.value))
                    if value["op"] == "d":
                        rows[table].pop(key["id"], None)
                    else:
                        rows[table][key["id"]] = value["after"]["n"]
            return all(rows[table] == truth[table] for table in TABLES)

        wait_for("the topics to tell the source's rows", captured)
        return records

    def _states(self) -> Any:
        """What is wrong may be that nobody reads a partition: the group's offsets tell."""
        ask = self.lab.worker.request
        return [ask("GET", f"/connectors/{self._sink}/{what}")[1] for what in ("status", "offsets")]

    # --- faults

    def target_restart(self, _: Fault) -> None:
        """The target stops, and comes back."""
        assert self._target.server is not None
        self._target.server.stop()
        self._target.server.start()

    def target_kill(self, _: Fault) -> None:
        """The target crashes."""
        assert self._target.server is not None
        self._target.server.kill()
        self._target.server.start()

    def target_forget(self, fault: Fault) -> None:
        """The target crashes and has forgotten everything, so that the sink is told to begin anew."""
        self.target_kill(fault)
        self.rewind(fault)

    def target_freeze(self, fault: Fault) -> None:
        """The target answers nothing for a while."""
        self._target.freeze(fault)

    def target_occupy(self, fault: Fault) -> None:
        """Somebody else keeps the target busy."""
        assert isinstance(self._target, FileTarget)
        with self._target.occupied(self._name):
            time.sleep(fault.seconds)

    def rebalance(self, fault: Fault) -> None:
        """The sink gets more or fewer tasks, among which partitions move."""
        more = {"tasks.max": str(min(1 + fault.amount % 3, 3 if self._target.tasks > 1 else 1))}
        self.lab.worker.ask("PUT", f"/connectors/{self._sink}/config", self._config() | more, 200, 201)

    def alter(self, _: Fault) -> None:
        """A table gets a column, in mid-stream."""
        self._altered += 1
        self._columns.append(self._altered)
        self._change(f"ADD COLUMN x{self._altered} int DEFAULT 7")

    def drop(self, fault: Fault) -> None:
        """A table loses a column that it got."""
        if not self._columns:
            self.alter(fault)
        self._change(f"DROP COLUMN x{self._columns.pop()}")

    def _change(self, how: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE orders {how}".encode())

    def rewind(self, _: Fault) -> None:
        """Offsets are altered: everything is read again."""
        worker, path = self.lab.worker, f"/connectors/{self._sink}"
        worker.ask("PUT", f"{path}/stop", None, 202, 204)
        worker.ask("DELETE", f"{path}/offsets", None, 200)
        worker.ask("PUT", f"{path}/resume", None, 202, 204)
