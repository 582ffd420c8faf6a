"""A MariaDB connector moves from Kafka Connect with Debezium to a worker of ours and back, on the same topics, in traffic.

The tables are altered in every part of the way: Debezium can only go on where its schema history knows of it.
"""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from binloglab.traffic import HIDDEN, Traffic, create_tables, run
from binloglab.verdict import Found, Topics, judged

from tidings_connect.java.properties import load_properties
from tidings_jvm import PlainProgress
from tidings_stack.capture import CaptureWorker, CaptureWorkers, call
from tidings_stack.connect import ConnectServer
from tidings_stack.errors import ServerStartError
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.stack import Stack
from tidings_stack.waiting import wait_for

LAST = -999


class Mover:
    """One connector, which one of the two runs."""

    def __init__(
        self, mariadb: MariaDbServer, bootstrap: str, directory: Path, exits: contextlib.ExitStack
    ) -> None:
        self.name = f"m{secrets.token_hex(4)}"
        self.topics = Topics(bootstrap, self.name)
        self._db, self._bootstrap, self._columns = mariadb, bootstrap, 0
        self._workers = exits.enter_context(CaptureWorkers(directory, bootstrap))
        self._properties = self._workers.properties(
            f"moving-{self.name}",
            {
                "exactly.once.source.support": "enabled",
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "offset.flush.interval.ms": "100",
            },
        )
        settings = load_properties(self._properties)
        own = {n: v for n, v in settings.items() if n not in {"bootstrap.servers", "listeners"}}
        stack = exits.enter_context(Stack(members=(), progress=PlainProgress(print)))
        self.connect = stack.add(
            lambda place: ConnectServer(
                place, bootstrap=bootstrap, settings=own, plugins=("debezium-mariadb",)
            )
        )
        self.config = {
            **HIDDEN,
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(mariadb.port),
            "database.user": "admin",
            "database.password": mariadb.password,
            "database.server.id": "184077",
            "database.include.list": self.name,
            "topic.prefix": self.name,
            "provide.transaction.metadata": "true",
            "schema.history.internal.kafka.bootstrap.servers": bootstrap,
            "schema.history.internal.kafka.topic": f"history-of-{self.name[1:]}",
            "schema.history.internal.store.only.captured.databases.ddl": "true",
        }

    def there(self) -> None:
        """It runs in Kafka Connect."""
        if not self.connect.running:
            self.connect.start()

        wait_for("Debezium to run", lambda: self._debezium() == "RUNNING", 120)

    def _debezium(self) -> str | None:
        """The state of Debezium's task; fails with the trace of one that has failed."""
        status, body = call("GET", f"{self.connect.url}/connectors/{self.name}/status")
        task = body["tasks"][0] if status == 200 and body["tasks"] else {"state": None}
        assert task["state"] != "FAILED", task["trace"]
        return task["state"]

    def here(self) -> CaptureWorker:
        """It runs in a worker of ours."""

        def started() -> CaptureWorker | None:
            try:
                return self._workers.start(self._properties)
            except ServerStartError as error:
                if "is in use by workers of Kafka Connect" not in str(error):
                    raise
                return None

        worker: CaptureWorker = wait_for("Kafka Connect to leave", started, 60)
        worker.wait_task(self.name, "RUNNING")
        return worker

    def wait_stream(self) -> None:
        """Wait until rows come from the log: those of before are the snapshot's. A row below zero is none of the traffic's."""

        def streams() -> bool:
            low = f"SELECT LEAST(MIN(id), 0) - 1, 0 FROM (SELECT id FROM {self.name}.a UNION SELECT 0) known"
            run(self._db, f"INSERT INTO {self.name}.a (id, n) {low}")
            return any(value["op"] == "c" for _, value in self.topics.read()["a"] if value)

        wait_for("the log to be read", streams, 120)

    def more(self, count: int = 100) -> None:
        """Records go on to come, also behind a changed table."""
        before = self.topics.ends()
        wait_for("more records", lambda: self.topics.ends() >= before + count, 120)
        self._columns += 1
        column = f"x{self._columns}"
        run(self._db, f"ALTER TABLE {self.name}.a ADD COLUMN {column} INT DEFAULT {self._columns} AFTER id")
        try:
            self.topics.wait_column("a", column)
        except AssertionError as error:
            log = self.connect.log_tail() if self.connect.running else ""
            state = self._debezium() if self.connect.running else "not there"
            raise AssertionError(f"{error}; Debezium's task is {state}\n{log}") from error

    def found(self) -> Found:
        """All records up to a last row."""
        run(self._db, f"INSERT INTO {self.name}.a (id, n) VALUES ({LAST}, 0)")
        found: Found = {}

        def caught_up() -> bool:
            found.update(self.topics.read())
            return any(value and value["after"] and value["after"]["id"] == LAST for _, value in found["a"])

        wait_for("the last row", caught_up, 180)
        return found


@pytest.fixture
def mover(mariadb: MariaDbServer, kafka_bootstrap: str, tmp_path: Path) -> Iterator[Mover]:
    with contextlib.ExitStack() as exits:
        made = Mover(mariadb, kafka_bootstrap, tmp_path, exits)
        create_tables(mariadb, made.name)
        yield made
        made.connect.kill()  # a graceful end takes its time
    run(mariadb, f"DROP DATABASE {made.name}")


@pytest.mark.long
@pytest.mark.timeout(900)  # two starts of a JVM on a machine that has other work
def test_from_kafka_connect_to_tidings_and_back_in_the_middle_of_traffic(
    mover: Mover, mariadb: MariaDbServer
) -> None:
    call("PUT", f"{mover.connect.url}/connectors/{mover.name}/config", mover.config)
    mover.there()
    mover.wait_stream()
    # Debezium has to keep up, on a slow machine too.
    with Traffic(lambda: mariadb, mover.name, seed=7, pauses=(0.4, 1.2)):
        mover.more()
        mover.connect.stop()
        worker = mover.here()
        mover.more()
        assert worker.stop() == 0
        mover.there()
        mover.more()
    found = mover.found()
    assert judged(mariadb, mover.name, found, transactions=False) == []
    rows = [value["after"] for _, value in found["a"] if value and value["after"]]
    assert {f"x{number}" for number in range(1, 4)} <= rows[-1].keys()
    for row in rows:
        added = [name for name in row if name.startswith("x")]
        assert added == sorted(added, reverse=True), "each new column stands before the last one"
