"""The same tables and changes for the real Debezium and for our conversion plans.

The `scenario` fixture makes a database with the tables of `types.sql`, a publication and a logical slot of its own;
`reference` runs the changes of `changes.sql` past a real Debezium and collects its records; `ours` reads the very same
changes from the slot and gives them to our plans. Nothing here depends on the capture runtime.
"""

import contextlib
import os
import re
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from plans.records import READABLE, convert, session
from plans.scenario import TYPES, Records, Scenario, statements, transactions
from side_by_side import Pair, Side, rest, until

from tidings_connect.data.records import Record
from tidings_envelope.headers.left_out import HEADER as LEFT_OUT
from tidings_jvm import PlainProgress
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import REST_HEADERS, ConnectServer, connector_settings
from tidings_stack.stack import Stack

DEADLINE_SECONDS = 120


@pytest.fixture(scope="session")
def worker_url(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The REST API of one capture worker for all tests."""
    with CaptureWorkers(tmp_path_factory.mktemp("worker"), kafka_bootstrap) as workers:
        own = {"tidings.signal.directory": str(tmp_path_factory.getbasetemp())}
        yield workers.start(workers.properties(f"conformance-{os.getpid()}", REST_HEADERS | own)).url


@pytest.fixture(scope="session")
def plugins(kafka_bootstrap: str) -> Iterator[ConnectServer]:
    """A Kafka Connect with Debezium's MariaDB and MySQL connectors and JDBC sink, MongoDB's, and Kafka's for files, in a group of its own:
    two releases of Debezium do not go together in one class path, and the other Connect's has the PostgreSQL connector's."""
    own = {f"{kind}.storage.topic": f"connect-plugins-{kind}" for kind in ("config", "offset", "status")}
    own |= {"group.id": "connect-plugins", "offset.flush.interval.ms": "300"}
    with Stack(members=(), progress=PlainProgress(print)) as stack:
        yield stack.add(
            lambda place: ConnectServer(
                place,
                bootstrap=kafka_bootstrap,
                settings=own,
                plugins=(
                    "debezium-mariadb",
                    "debezium-mysql",
                    "debezium-jdbc",
                    "connect-file",
                    "mongo-kafka",
                ),
            )
        )


@pytest.fixture
def config(pg_database: str) -> dict[str, str]:
    """A connector's options; `{name}` stands for its name."""
    settings = connector_settings(
        pg_database,
        **{
            "topic.prefix": "{name}",
            "slot.name": "{name}",
            "publication.name": "{name}",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
    )
    del settings["tasks.max"]  # which the tests set themselves
    return settings


@pytest.fixture
def pair(
    pg_database: str, connect_url: str, worker_url: str, kafka_bootstrap: str
) -> Iterator[Callable[..., Pair]]:
    """Starts one configuration on both: `pair(options, setup, ..., suffix="")`; setup is SQL that runs before; `{mine}` and
    `{theirs}` in it are the connectors' names; `database` is another one's URL, `only_theirs` options that Debezium gets instead of ours."""
    made: list[Pair] = []

    def start(
        options: Mapping[str, str],
        *setup: str,
        suffix: str = "",
        database: str | None = None,
        only_theirs: Mapping[str, str] | None = None,
    ) -> Pair:
        token = secrets.token_hex(4)
        theirs = Side(connect_url, f"d{token}", kafka_bootstrap)
        mine = Side(worker_url, f"t{token}", kafka_bootstrap)
        made.append(Pair(database or pg_database, theirs, mine, options, suffix, only_theirs))
        for statement in setup:
            named = statement.replace("{mine}", mine.base).replace("{theirs}", theirs.base)
            made[-1].connection.execute(named)  # type: ignore[call-overload]
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.fixture
def compare(pair: Callable[..., Pair]) -> Callable[..., dict[tuple[str, int], list[Record]]]:
    """`compare(options, setup, [step, ...])`: the whole of it; returns our records, masked."""

    def run(
        options: Mapping[str, str],
        setup: str | Sequence[str],
        steps: Sequence[str | Sequence[str]],
        suffix: str = "",
    ) -> dict[tuple[str, int], list[Record]]:
        both = pair(options, *([setup] if isinstance(setup, str) else setup), suffix=suffix)
        both.run(*steps)
        return both.compare({LEFT_OUT})

    return run


@pytest.fixture
def scenario(pg_database: str, unique_name: str) -> Iterator[Callable[..., Scenario]]:
    """Makes the tables, a publication and the slot that `ours` reads."""
    with psycopg.connect(pg_database, autocommit=True) as connection:

        def make(options: Mapping[str, str], files: Sequence[tuple[str, str]] = TYPES) -> Scenario:
            for tables, _ in files:
                for statement in statements(tables):
                    connection.execute(statement)
            connection.execute("CREATE PUBLICATION reference FOR ALL TABLES")
            connection.execute(
                "SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [f"{unique_name}_raw"]
            )
            return Scenario(pg_database, unique_name, dict(options), tuple(files))

        yield make


@pytest.fixture
def reference(
    pg_database: str, connect_url: str, kafka_bootstrap: str
) -> Iterator[Callable[[Scenario], Records]]:
    """Runs the changes past the real Debezium and returns its records; asks for the database to end before it."""
    connectors: list[str] = []

    def run(scenario: Scenario) -> Records:
        connectors.append(scenario.prefix)
        create_topics(kafka_bootstrap, scenario)
        status, answer = rest(
            f"{connect_url}/connectors/{scenario.prefix}/config",
            "PUT",
            connector_settings(
                scenario.url,
                **{
                    "slot.name": f"{scenario.prefix}_dbz",
                    "publication.name": "reference",
                    "snapshot.mode": "no_data",
                    **scenario.properties(),
                },
            ),
        )
        assert status == 201, answer
        with psycopg.connect(scenario.url, autocommit=True) as connection:
            until(
                "Debezium's slot is active",
                lambda: slot_is_active(connection, f"{scenario.prefix}_dbz", connect_url),
            )
            changes = [statement for _, name in scenario.files for statement in statements(name)]
            for statement in changes:
                connection.execute(statement)
        return read_until_end(kafka_bootstrap, scenario.prefix, transactions(changes))

    yield run
    for name in connectors:
        rest(f"{connect_url}/connectors/{name}", "DELETE")
    with psycopg.connect(pg_database, autocommit=True) as connection:
        until("Debezium has let go of its slot", lambda: not any_slot_is_active(connection))


def create_topics(bootstrap: str, scenario: Scenario) -> None:
    """All topics at once: a topic that the broker makes for a producer costs Debezium a second."""
    with psycopg.connect(scenario.url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        )
        names = ["transaction", *(f"public.{name}" for (name,) in tables)]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(re.sub(r"[^A-Za-z0-9._-]", "_", f"{scenario.prefix}.{name}"), 1, 1) for name in names]
    for made in admin.create_topics(topics).values():
        made.result(DEADLINE_SECONDS)


def slot_is_active(connection: psycopg.Connection[Any], slot: str, connect_url: str) -> bool:
    row = connection.execute(
        # A slot that is just being created is active, too, and will not tell what is written meanwhile.
        "SELECT active_pid IN (SELECT pid FROM pg_stat_replication WHERE state IN ('catchup', 'streaming'))"
        " FROM pg_replication_slots WHERE slot_name = %s",
        [slot],
    ).fetchone()
    if row is None:
        name = slot.removesuffix("_dbz")
        status, answer = rest(f"{connect_url}/connectors/{name}/status")
        tasks = answer["tasks"] if status == 200 else []
        assert all(task["state"] != "FAILED" for task in tasks), tasks
    return row == (True,)


def any_slot_is_active(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE active AND database = current_database()"
    ).fetchone()
    return row != (0,)


def read_until_end(bootstrap: str, prefix: str, transaction_count: int) -> Records:
    """All records of a prefix's topics, once the BEGIN and END of all transactions are there."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": prefix,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # Else each question for the end of a topic waits behind the fetch of the one before.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        records: Records = defaultdict(list)
        next_offsets: dict[str, int] = {}

        def read_more() -> bool:
            topics = [t for t in consumer.list_topics(timeout=30).topics if t.startswith(f"{prefix}.")]
            for topic in sorted(topics):
                read_topic(consumer, topic, next_offsets, records)
            return len(records[f"{prefix}.transaction"]) >= 2 * transaction_count

        until("Debezium has written the last transaction", read_more, DEADLINE_SECONDS)
        read_more()  # rows may have come after their END, in topics that were read before it
        return records
    finally:
        consumer.close()


def read_topic(consumer: Consumer, topic: str, next_offsets: dict[str, int], records: Records) -> None:
    """Everything new in a topic of one partition."""
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    if next_offsets.setdefault(topic, 0) >= end:
        return
    consumer.assign([TopicPartition(topic, 0, next_offsets[topic])])
    while next_offsets[topic] < end:
        message = consumer.poll(30)
        assert message is not None, f"{topic} gives no more records"
        assert message.error() is None, message.error()
        headers: list[tuple[str, bytes]] = list(message.headers() or ())  # type: ignore[arg-type]  # pairs when read
        records[topic].append((message.key(), message.value(), headers))
        next_offsets[topic] += 1


@pytest.fixture
def ours(request: pytest.FixtureRequest) -> Callable[[Scenario], Records]:
    """Reads the changes from the scenario's slot and converts them with our plans, in both ways."""

    def run(scenario: Scenario) -> Records:
        settings = psycopg.conninfo.make_conninfo(scenario.url, options=f"-c {READABLE}")
        with psycopg.connect(settings, autocommit=True) as connection:
            raw = connection.execute(
                "SELECT (lsn - '0/0')::int8, data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
                " 'proto_version', '1', 'publication_names', 'reference')",
                [f"{scenario.prefix}_raw"],
            ).fetchall()
        with contextlib.closing(session(scenario.url)) as catalog_session:
            return convert(scenario, raw, catalog_session)

    return run
