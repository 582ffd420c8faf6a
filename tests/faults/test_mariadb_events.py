"""Business events from MariaDB and MySQL: what the rules tell is what SQL tells of the store's own history, each event once.

The domain is the translator's lab's, and the database is the only thing that differs. Processes are killed under traffic. A
second connector reads a snapshot anew after a while of which nobody was told: events go on from what it has read. Beside
PostgreSQL, in one worker, one Kafka and one registry, each source's events are its own.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from binloglab.store import TABLES, Customer, create_store
from confluent_kafka import Consumer, KafkaException, TopicPartition
from faultlab.servers import Lab
from faultlab.topics import create_topics
from translatorlab.pipeline import open_pipeline
from translatorlab.processes import StageProcess, Supervisor
from translatorlab.published import Published
from translatorlab.store import Customers
from translatorlab.truth import count, expected_of_history

from tidings_stack.mariadb import MySqlLikeServer
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
_PARTITIONS = 3
_CATCH_UP_SECONDS = 240.0
_MARIADB = "io.debezium.connector.mariadb.MariaDbConnector"
_MYSQL = "io.debezium.connector.mysql.MySqlConnector"


class Pipeline:
    """A store, a connector, and both stages."""

    def __init__(self, lab: Lab, server: MySqlLikeServer, directory: Path) -> None:
        self.lab, self.name, self._server = lab, f"m{secrets.token_hex(4)}", server
        create_store(server, self.name)
        self.customer = Customer(server, self.name, seed=11)
        self.told: set[int] = set()
        """Transactions of which the connector tells."""
        self.read: set[int] = set()
        """Orders that a snapshot has read."""
        self.published = Published(lab.kafka.bootstrap, self.name)
        tables = [f"{self.name}.{table}" for table in TABLES]
        create_topics(lab.kafka.bootstrap, self.name, tables, _PARTITIONS)
        settings = {
            "TIDINGS_KAFKA": lab.kafka.bootstrap,
            "TIDINGS_REGISTRY": lab.registry.url,
            "TIDINGS_SOURCE": self.name,
            "TIDINGS_LAB_NAME": self.name,
            "TIDINGS_LAB_SCHEMA": self.name,
            "TIDINGS_SESSION_TIMEOUT_SECONDS": "6",
            "TIDINGS_TRANSACTION_TIMEOUT_SECONDS": "6",
        }
        self._supervisor = Supervisor()
        self.stages = [
            self._supervisor.add(StageProcess(kind, "1", directory, settings))
            for kind in ("sequencer", "translator")
        ]

    def start(self) -> None:
        for stage in self.stages:
            stage.start()

    def connect(self, connector: str) -> None:
        """Start a connector of the source, and wait until it has begun to read a snapshot."""
        before = self._records()
        self.read |= self.customer.orders()
        self.configure(connector)
        wait_for("the snapshot to begin", lambda: self._records() > before, seconds=120)

    def configure(self, connector: str) -> None:
        """Have a connector read the server, and wait until it does."""
        config = {
            "connector.class": _MYSQL if isinstance(self._server, MySqlServer) else _MARIADB,
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self._server.port),
            "database.user": "admin",
            "database.password": self._server.password,
            "database.include.list": self.name,
            "table.include.list": rf"{self.name}\.({'|'.join(TABLES)})",
            "include.schema.changes": "false",
            "topic.prefix": self.name,
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            "read.only": "true",
            "incremental.snapshot.chunk.size": "50",
            **self.lab.avro(),
        }
        self.lab.worker.ask("PUT", f"/connectors/{connector}/config", config, 200, 201)
        self.lab.worker.wait_task(connector)

    def disconnect(self, connector: str) -> None:
        self.lab.worker.ask("DELETE", f"/connectors/{connector}", None, 204, 404)

    def traffic(self, transactions: int, *, big: int = 0) -> None:
        """Of which the connector tells."""
        self.told |= self.customer.transactions(transactions, big=big)

    def read_again(self) -> None:
        """An incremental snapshot of all tables."""
        self.read |= self.customer.orders()
        data = {"data-collections": [f"{self.name}.{table}" for table in TABLES]}
        signal = {"id": "1", "type": "execute-snapshot", "data": data}
        self.lab.worker.wait_task(self.name)
        self.lab.worker.ask("POST", f"/connectors/{self.name}/signals", signal, 202)

    def settle(self) -> None:
        """Everything that has to be published is, and is right."""
        want = expected_of_history(self.lab.pg.url, self.customer.history(), self.told)
        for order in self.read:  # by a rule that asks for rows of snapshots
            want["order-seen.v1"].setdefault(str(order), [{"order_id": order}])
        try:
            wait_for("all events", lambda: self.published.read() >= count(want), seconds=_CATCH_UP_SECONDS)
        except AssertionError:
            print(*(stage.tail() for stage in self.stages), self.lab.worker.tail(), sep="\n")
        verdict = self.published.judge(want)
        assert verdict.problems == []
        assert verdict.found == verdict.expected > 0

    def _records(self) -> int:
        consumer = Consumer(
            {"bootstrap.servers": self.lab.kafka.bootstrap, "group.id": "ends", "log_level": 0}
        )
        try:
            places = [TopicPartition(f"{self.name}.{self.name}.orders", n) for n in range(_PARTITIONS)]
            return sum(consumer.get_watermark_offsets(place, timeout=60)[1] for place in places)
        except KafkaException:
            return 0  # a new topic has no leader yet
        finally:
            consumer.close()

    def close(self) -> None:
        self._supervisor.close()
        self.customer.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> MySqlLikeServer:
    """A MariaDB, or what a test's parameter names."""
    found = request.getfixturevalue(getattr(request, "param", "mariadb"))
    assert isinstance(found, MySqlLikeServer)
    return found


@pytest.fixture
def run(lab: Lab, server: MySqlLikeServer, tmp_path: Path) -> Iterator[Pipeline]:
    with ExitStack() as stack:
        made = Pipeline(lab, server, tmp_path)
        stack.callback(made.close)
        for connector in (made.name, f"{made.name}-again"):
            stack.callback(made.disconnect, connector)
        yield made


@pytest.mark.turns
def test_events_are_those_of_the_database_whoever_is_killed(run: Pipeline) -> None:
    run.customer.transactions(40)  # in the snapshot, which is nobody's news
    run.connect(run.name)
    run.traffic(40)
    run.start()
    run.traffic(40, big=700)
    wait_for("the first events", lambda: run.published.read() > 20, seconds=_CATCH_UP_SECONDS)
    for stage in run.stages:
        stage.kill()
        run.traffic(30)
    run.lab.worker.kill()
    run.traffic(30)
    run.lab.worker.start()
    run.traffic(30)
    run.read_again()
    run.settle()

    run.disconnect(run.name)
    run.customer.transactions(40)  # nobody is told of these
    run.connect(f"{run.name}-again")
    run.traffic(60)
    run.settle()


@pytest.mark.long
@pytest.mark.parametrize("server", ["mariadb", "mysql"], indirect=True)
def test_both_databases_at_once_in_one_kafka(lab: Lab, run: Pipeline) -> None:
    """Their orders have the same numbers, their connectors one worker, and that is killed while both write and one truncates."""
    run.customer.transactions(10)
    run.connect(run.name)
    run.start()
    with open_pipeline(lab, "avro") as postgres:
        with Customers(postgres.url, 23) as customers:
            run.traffic(40)
            wait_for("events of PostgreSQL", lambda: postgres.published.read() > 20, _CATCH_UP_SECONDS)
            wait_for("events of the other", lambda: run.published.read() > 20, _CATCH_UP_SECONDS)
            lab.worker.kill()
            run.traffic(20)
            run.customer.truncate("payments")
            lab.worker.start()
            run.traffic(20)
        assert customers.transactions > 0
        run.settle()
        assert "TRUNCATE does not say which rows" in run.stages[0].tail(1 << 20)
        verdict = postgres.settle()
        assert verdict.problems == [], postgres.logs()
        assert verdict.found == verdict.expected > 0
        there, here = postgres.published, run.published
        assert not there.ids & here.ids
        numbers = {name: set(there.events[name]) & set(here.events[name]) for name in there.events}
        assert numbers["order-placed.v2"], "the same numbers of orders"
