"""One schedule: a source, a sink, traffic, the faults, peace; then the target is the source."""

import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Self

import psycopg
from faultlab.fault import Fault
from faultlab.lab_faults import LINKS, LabFaults
from faultlab.servers import Lab

from sinklab.targets import TABLES, Target
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for

LIGHT = (
    *("kill_task", "kill_worker", "rebalance", "alter", "rewind"),
    *(f"{server}_{how}" for server in ("target", "kafka") for how in LINKS),
)
HEAVY = ("target_restart", "target_restart", "kafka_kill")


def make_schedule(seed: int, *, faults: int = 5, heavy: float = 0.5) -> tuple[Fault, ...]:
    """The faults of a seed; `heavy` is how likely one of them stops a server."""
    chance = random.Random(f"sinks {seed}")
    kinds = [chance.choice(LIGHT) for _ in range(chance.randint(2, faults))]
    if chance.random() < heavy:
        kinds[chance.randrange(len(kinds))] = chance.choice(HEAVY)
    return tuple(
        Fault(
            kind,
            seconds=chance.uniform(0.01, 0.15) if kind.endswith("delay") else chance.uniform(0.2, 2.5),
            amount=chance.randint(1, 40_000) if kind.endswith("cut_after") else chance.randint(0, 6),
            records=chance.randint(20, 200),
        )
        for kind in kinds
    )


class Traffic:
    """Transactions over three tables, in a thread of its own."""

    def __init__(self, url: str, seed: int) -> None:
        self._url, self._random = url, random.Random(seed)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.transactions = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        r = self._random
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._ended.wait(0.02):
                with connection.transaction():
                    for _ in range(r.randrange(1, 6)):
                        table, key = r.choice(TABLES), r.randrange(60)
                        if r.random() < 0.2:
                            connection.execute(f"DELETE FROM {table} WHERE id = %s".encode(), (key,))
                        else:
                            connection.execute(
                                f"INSERT INTO {table} (id, n) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET n = excluded.n".encode(),
                                (key, self.transactions),
                            )
                self.transactions += 1


class Run(LabFaults):
    """One schedule on a lab."""

    def __init__(
        self, lab: Lab, target: Target, seed: int, faults: tuple[Fault, ...], say: Callable[[str], None]
    ) -> None:
        super().__init__(lab, lambda _: time.sleep(0.5))
        self._target, self._seed, self._faults, self._say = target, seed, faults, say
        self._name = f"s{seed}x{secrets.token_hex(3)}"
        self._sink = f"{self._name}-sink"
        self._columns = 0
        self._url = ""

    def run(self) -> dict[str, Any]:
        """Run it; what it did.

        Raises:
            AssertionError: the target did not become the source.
        """
        began, lab, name = time.monotonic(), self.lab, self._name
        self._url = create_database(lab.pg.url, name)
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                for table in TABLES:
                    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int NOT NULL)".encode())
            lab.worker.ask(
                "PUT", f"/connectors/{name}/config", lab.connector(name, "|".join(TABLES)), 200, 201
            )
            lab.worker.wait_task(name)
            lab.worker.ask("PUT", f"/connectors/{self._sink}/config", self._config(), 200, 201)
            with Traffic(self._url, self._seed) as traffic:
                for fault in self._faults:
                    before = traffic.transactions
                    wait_for("traffic", lambda: traffic.transactions >= before + fault.records // 4)  # noqa: B023
                    self._say(f"  {time.monotonic() - began:.1f} {fault}")
                    self.strike(fault)
            lab.heal()
            self._target.proxy.heal()
            self._target.server.start()
            truth = self._source()
            try:
                wait_for("the target to be the source", lambda: self._rows() == truth, 120)
            except AssertionError as error:
                found = self._rows()
                differs = {
                    table: sorted(set(truth[table].items()) ^ set(found.get(table, {}).items()))[:6]
                    for table in TABLES
                }
                raise AssertionError(f"{error}; {differs}; {lab.worker.task(self._sink)}") from None
            return {
                "transactions": traffic.transactions,
                "rows": sum(map(len, truth.values())),
                "seconds": round(time.monotonic() - began, 1),
            }
        finally:
            with contextlib.suppress(Exception):
                lab.heal()
                self._target.proxy.heal()
                self._target.server.start()
                for connector in (self._sink, name):
                    lab.worker.ask("DELETE", f"/connectors/{connector}", None, 204, 404)
            drop_database(lab.pg.url, name)

    def _config(self) -> dict[str, str]:
        own = self._target.connector(self._name, self._name)
        more = "|transaction" if "tidings.transactions" in own else ""
        flat = {
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        }
        return {
            "topics.regex": f"{self._name}[.](public[.].*{more})",
            "tasks.max": "2",
            "errors.retry.delay.initial.ms": "100",
            "errors.retry.delay.max.ms": "500",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.max.poll.records": "50",
            **({} if "Jdbc" in own["connector.class"] else flat),
            **own,
        }

    def _source(self) -> dict[str, dict[int, Any]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            return {
                table: dict(connection.execute(f"SELECT id, n FROM {table}".encode()).fetchall())
                for table in TABLES
            }

    def _rows(self) -> dict[str, dict[int, Any]]:
        with contextlib.suppress(Exception):  # the server starts
            return self._target.rows(self._name, self._name)
        return {}

    # --- faults

    def strike(self, fault: Fault) -> None:
        """See `LabFaults`; links of the target, too."""
        server, _, how = fault.kind.partition("_")
        if server == "target" and how in LINKS:
            getattr(self, f"_link_{how}")(self._target.proxy, fault)
        else:
            super().strike(fault)

    def target_restart(self, _: Fault) -> None:
        """The target stops, and comes back."""
        self._target.server.stop()
        self._target.server.start()

    def rebalance(self, fault: Fault) -> None:
        """The sink gets more or fewer tasks, among which partitions move."""
        more = {"tasks.max": str(1 + fault.amount % 3)}
        self.lab.worker.ask("PUT", f"/connectors/{self._sink}/config", self._config() | more, 200, 201)

    def alter(self, _: Fault) -> None:
        """A table gets a column, in mid-stream."""
        self._columns += 1
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE orders ADD COLUMN x{self._columns} int DEFAULT 7".encode())

    def rewind(self, _: Fault) -> None:
        """Offsets are altered: everything is read again."""
        worker, path = self.lab.worker, f"/connectors/{self._sink}"
        worker.ask("PUT", f"{path}/stop", None, 202, 204)
        worker.ask("DELETE", f"{path}/offsets", None, 200)
        worker.ask("PUT", f"{path}/resume", None, 202, 204)
