"""One schedule: a connector, traffic, the faults, peace, and whether the topics are the database's history, once."""

import contextlib
import json
import random
import secrets
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pymysql
from confluent_kafka import Consumer, TopicPartition
from faultlab.fault import Fault
from faultlab.lab_faults import LINKS, LabFaults

from mariadblab.servers import MariaLab
from mariadblab.traffic import Traffic, create_tables, run
from tidings_stack.waiting import wait_for

LIGHT: Final = (
    *("kill_task", "kill_task", "kill_worker", "terminate", "rotate", "rotate", "alter"),
    *(f"{server}_{how}" for server in ("db", "kafka") for how in LINKS),
)
HEAVY: Final = ("crash", "restart_database", "kafka_kill", "kafka_restart")
LAST: Final = -999
"""The row behind all others."""


@dataclass
class Outcome:
    """How a schedule ended."""

    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    transactions: int = 0
    records: int = 0


def make_schedule(seed: int, *, faults: int = 5, heavy: float = 0.5) -> tuple[Fault, ...]:
    """The faults of a seed; `heavy` is how likely one of them stops a server."""
    chance = random.Random(f"mariadb {seed}")
    kinds = [chance.choice(LIGHT) for _ in range(chance.randint(2, faults))]
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice(HEAVY)
    return tuple(
        Fault(
            kind,
            seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5),
            amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
            records=chance.randint(20, 2_000),
        )
        for kind in kinds
    )


class Run(LabFaults):
    """One schedule on a lab."""

    def __init__(
        self, lab: MariaLab, seed: int, faults: tuple[Fault, ...], say: Callable[[str], None]
    ) -> None:
        super().__init__(lab, self._more_records)  # type: ignore[arg-type]  # what it asks of a lab is there
        self._maria, self._seed, self._faults, self._say = lab, seed, faults, say
        self._name = f"m{seed}x{secrets.token_hex(3)}"
        self._columns = 0

    def run(self) -> Outcome:
        """Run it to the verdict.

        Raises:
            AssertionError: the connector did not come back, or did not catch up.
        """
        began, lab, name = time.monotonic(), self._maria, self._name
        create_tables(lab.db, name)
        try:
            lab.worker.ask("PUT", f"/connectors/{name}/config", lab.connector(name), 200, 201)
            lab.worker.wait_task(name)
            wait_for("the connector to read", self._reads)
            with Traffic(lab.db, name, self._seed) as traffic:
                for fault in self._faults:
                    self._more_records(fault.records)
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self.strike(fault)
                self._more_records(200)
            self._say(f"  {time.monotonic() - began:.1f} peace")
            lab.heal()
            run(lab.db, f"INSERT INTO {name}.a (id, n) VALUES ({LAST}, 0)")
            lab.worker.wait_task(name)
            found: dict[str, list[Any]] = {}

            def caught_up() -> bool:
                found.update(self._read())
                ids = [value["after"]["id"] for _, value in found["a"][-3:] if value and value["after"]]
                return LAST in ids

            wait_for("the last row", caught_up, 180)
            outcome = Outcome(self._judged(found), transactions=traffic.transactions)
            outcome.records = sum(map(len, found.values()))
        finally:
            with contextlib.suppress(Exception):
                lab.heal()
                lab.worker.ask("DELETE", f"/connectors/{name}", None, 204, 404)
            run(lab.db, f"DROP DATABASE {name}")
        outcome.seconds = time.monotonic() - began
        return outcome

    # --- faults

    def strike(self, fault: Fault) -> None:
        """See `LabFaults`; links of the database, too."""
        server, _, how = fault.kind.partition("_")
        if server == "db" and how in LINKS:
            getattr(self, f"_link_{how}")(self._maria.db_proxy, fault)
        else:
            super().strike(fault)

    def terminate(self, _: Fault) -> None:
        """An administrator ends the connector's connections."""
        found = run(
            self._maria.db,
            "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'",
        )
        for (number,) in found:
            with contextlib.suppress(pymysql.Error):  # it has ended by itself
                run(self._maria.db, f"KILL {number}")

    def rotate(self, _: Fault) -> None:
        """The log goes on in another file; those that nobody reads any more are removed."""
        run(self._maria.db, "FLUSH BINARY LOGS")

    def alter(self, _: Fault) -> None:
        """A table gets a column, in mid-stream."""
        self._columns += 1
        run(self._maria.db, f"ALTER TABLE {self._name}.a ADD COLUMN x{self._columns} INT DEFAULT 7 AFTER id")

    def crash(self, _: Fault) -> None:
        """The server is killed."""
        self._maria.crash_database()
        self._maria.db.start()

    def restart_database(self, _: Fault) -> None:
        """The server is restarted."""
        self._maria.db.stop()
        self._maria.db.start()

    # --- what is there

    def _reads(self) -> bool:
        """Whether a row that is written now arrives."""
        run(
            self._maria.db,
            f"INSERT INTO {self._name}.a (id, n) SELECT LEAST(MIN(id), 0) - 1, 0 FROM (SELECT id FROM"
            f" {self._name}.a UNION SELECT 0) known",
        )
        return bool(self._read()["a"])

    def _more_records(self, count: int) -> None:
        """Wait for records; not for ever: some faults end with a connector that is down for a while."""
        first, deadline = self._ends(), time.monotonic() + 5
        while time.monotonic() < deadline and self._ends() < first + count:
            time.sleep(0.2)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._maria.kafka.bootstrap,
                "group.id": "faults-verdict",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )

    def _topic(self, table: str) -> str:
        return f"{self._name}.transaction" if table == "transaction" else f"{self._name}.{self._name}.{table}"

    def _ends(self) -> int:
        consumer = self._consumer()
        try:
            return sum(
                consumer.get_watermark_offsets(TopicPartition(self._topic(table), 0), timeout=20)[1]
                for table in "ab"
            )
        except Exception:  # noqa: BLE001 - the broker is away, or there is no topic yet
            return 0
        finally:
            consumer.close()

    def _read(self) -> dict[str, list[Any]]:
        """Keys and values of the three topics, committed ones only."""
        found: dict[str, list[Any]] = {"a": [], "b": [], "transaction": []}
        consumer = self._consumer()
        try:
            known = consumer.list_topics(timeout=30).topics
            for table, records in found.items():
                if self._topic(table) not in known:
                    continue
                consumer.assign([TopicPartition(self._topic(table), 0, 0)])
                deadline = time.monotonic() + 60
                while True:
                    assert time.monotonic() < deadline, f"{self._topic(table)} cannot be read"
                    message = consumer.poll(5)
                    if message is None:
                        continue
                    if message.error():
                        break  # its end
                    records.append(
                        (json.loads(message.key() or b"null"), json.loads(message.value() or b"null"))
                    )
        finally:
            consumer.close()
        return found

    def _judged(self, found: dict[str, list[Any]]) -> list[str]:
        problems: list[str] = []
        name, db = self._name, self._maria.db
        wanted: dict[Any, list[Any]] = defaultdict(list)
        for tab, op, number, former, later in run(
            db, f"SELECT tab, op, id, former, later FROM {name}.history WHERE id >= 0 ORDER BY seq"
        ):
            wanted[tab, number].append((op, former, later))
        told: dict[Any, list[Any]] = defaultdict(list)
        orders: dict[str, list[int]] = defaultdict(list)
        for table in "ab":
            for _, value in found[table]:
                if value is None:
                    continue
                before, after = value["before"], value["after"]
                orders[value["transaction"]["id"]].append(value["transaction"]["total_order"])
                number = (after or before)["id"]
                if number >= 0:
                    told[table, number].append((value["op"], before and before["n"], after and after["n"]))
        for place in sorted(wanted.keys() | told.keys()):
            if wanted.get(place) != told.get(place):
                problems.append(
                    f"row {place}: the database did {wanted.get(place, [])[:8]}, the topic has {told.get(place, [])[:8]}"
                )
        state = {
            number: changes[-1][2]
            for (table, number), changes in told.items()
            if table == "a" and changes[-1][0] != "d"
        }
        rows = dict(run(db, f"SELECT id, n FROM {name}.a WHERE id >= 0"))
        if state != rows:
            problems.append(
                f"{len(state)} rows in the topic's last state, {len(rows)} in the table, or other values"
            )
        marks: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for _, value in found["transaction"]:
            marks[value["id"]].append((value["status"], value["event_count"]))
        for number, placed in orders.items():
            if sorted(placed) != list(range(1, len(placed) + 1)):
                problems.append(f"transaction {number} has the orders {sorted(placed)[:20]} ...")
            if marks[number] != [("BEGIN", None), ("END", len(placed))]:
                problems.append(f"transaction {number} of {len(placed)} rows is told as {marks[number]}")
        return problems[:10]
