"""`tidings doctor` finds each planted fault by itself: a sound system on real servers, one thing wrong, and that one finding.

`PLANTED` has them by name. What needs servers of its own (a registry's and a broker's logins, Kafka Connect in the group, the
lake's catalog and bucket) is planted in test_doctor.py and test_doctor_lake.py; what needs three brokers is not planted.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tidings_capture.postgres.client import Replication, read_url
from tidings_cli.doctor import database as of_database
from tidings_stack.postgres import create_database, drop_database
from tidings_stack.waiting import wait_for

pytestmark = pytest.mark.stack

MOST = 3
"""Slots, and senders, of the server."""
KEPT = "10GB"
"""Its max_slot_wal_keep_size."""


@dataclass
class Lab:
    """A sound system: a database with a published table, a worker's topics; `arguments` look at all of it."""

    url: str
    bootstrap: str
    name: str
    directory: Path
    write: Callable[..., list[str]]
    monkeypatch: pytest.MonkeyPatch
    pg_server: Callable[..., Any]
    more: ExitStack
    options: dict[str, str] = field(default_factory=dict)
    also: list[str] = field(default_factory=list)
    with_kafka: bool = False

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def topic(self, suffix: str, partitions: int = 1, **config: str) -> None:
        self.with_kafka = True
        topic = NewTopic(
            self.name + suffix, partitions, 1, config={k.replace("_", "."): v for k, v in config.items()}
        )
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # its requests end with it
        admin.create_topics([topic])[topic.topic].result(30)

    def setting(self, name: str, value: str) -> None:
        """Of the server, until the test ends."""
        before = self._read(name)
        self._set(name, value)
        self.more.callback(self._set, name, before)

    def _set(self, name: str, value: str) -> None:
        self.run(f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
        wait_for(f"the server to read {name}", lambda: self._read(name) == value, 60)

    def _read(self, name: str) -> str:
        with psycopg.connect(self.url) as connection:
            (value,) = connection.execute("SELECT current_setting(%s)", (name,)).fetchone() or ("",)
        return str(value)

    def slot(self, name: str, url: str | None = None, *, plugin: str | None = None) -> None:
        """A slot that retains WAL from now on, until the test ends."""
        make = (
            f"SELECT pg_create_physical_replication_slot('{name}', true)"
            if plugin is None
            else f"SELECT pg_create_logical_replication_slot('{name}', '{plugin}')"
        )
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            connection.execute(make.encode())
        self.more.callback(self.run, f"SELECT pg_drop_replication_slot('{name}')")

    def write_wal(self, segments: int) -> None:
        """So many segments of 16 MB, begun and left."""
        for _ in range(segments):
            self.run("INSERT INTO a SELECT coalesce(max(id), 0) + 1 FROM a", "SELECT pg_switch_wal()")

    def as_role(self, attributes: str, *grants: str) -> None:
        """Have the connector log in as a role that may only this."""
        role = f"r_{self.name}"
        self.run(f"CREATE ROLE {role} LOGIN PASSWORD 'secret-word' {attributes}")
        self.more.callback(self.run, f"DROP OWNED BY {role}; DROP ROLE {role}")
        self.run(*(grant.format(role=role) for grant in grants))
        self.login(role)

    def login(self, role: str) -> None:
        self.options |= {"database_user": role, "database_password": "secret-word"}

    def between(self, between: "Between") -> None:
        """Have the connector come by a pooler or a proxy."""
        self.more.callback(between.close)
        self.options |= {
            "database_hostname": "127.0.0.1", "database_port": between.port, "database_sslmode": "disable",
        }  # fmt: skip

    def arguments(self) -> list[str]:
        options = {"publication_autocreate_mode": "disabled", "publication_name": "sound", **self.options}
        return [*self.write(self.url, self.bootstrap if self.with_kafka else None, **options), *self.also]


class Between:
    """A pooler or a proxy before a real PostgreSQL; a process, because libpq holds Python's lock while it connects."""

    def __init__(self, url: str, *options: str) -> None:
        place = conninfo_to_dict(url)
        script = Path(__file__).with_name("between.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), str(place["host"]), str(place["port"]), *options],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.port = self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


Planter = Callable[[Lab], None]
PLANTED: dict[str, tuple[str, Planter]] = {}
"""By the fault's name: the finding's code, and what makes it."""


def planted(code: str, name: str | None = None) -> Callable[[Planter], Planter]:
    def add(planter: Planter) -> Planter:
        PLANTED[name or planter.__name__] = (code, planter)
        return planter

    return add


# The server


@planted("wal-level")
def wal_level_replica(lab: Lab) -> None:
    server = lab.pg_server("16", wal_level="replica", max_slot_wal_keep_size=KEPT)
    lab.more.callback(server.close)
    lab.url = server.url
    lab.options["publication_autocreate_mode"] = "filtered"
    lab.run("CREATE TABLE a (id int PRIMARY KEY)")


@planted("unreachable")
def no_server(lab: Lab) -> None:
    lab.options["database_port"] = "1"


@planted("no-slot-left")
def every_slot_taken(lab: Lab) -> None:
    for number in range(MOST):
        lab.slot(f"{lab.name}_{number}")


@planted("no-sender-left")
def every_sender_taken(lab: Lab) -> None:
    for _ in range(MOST):
        lab.more.enter_context(closing(Replication(read_url(lab.url))))


@planted("unlimited-wal")
def slots_may_fill_the_disk(lab: Lab) -> None:
    lab.setting("max_slot_wal_keep_size", "-1")


@planted("slot-unused")
def a_slot_that_nobody_reads(lab: Lab) -> None:
    lab.slot(lab.name + "_left")
    lab.write_wal(1)
    lab.also += ["--retained", "1kB"]


@planted("slot-lost")
def a_slot_that_has_lost_wal(lab: Lab) -> None:
    lab.slot(lab.name + "_left")
    lab.setting("max_slot_wal_keep_size", "1MB")
    lab.write_wal(6)
    lab.run("CHECKPOINT")
    lab.setting("max_slot_wal_keep_size", KEPT)


@planted("slot-in-danger")
def a_slot_with_little_left(lab: Lab) -> None:
    lab.setting("max_slot_wal_keep_size", "160MB")
    lab.slot(lab.name + "_left")
    lab.write_wal(10)


@planted("no-failover-slot")
def a_standby_and_a_slot_that_stays_behind(lab: Lab) -> None:
    lab.slot(lab.name + "_standby")
    conninfo = make_conninfo(lab.url, replication="true")
    standby = pq.PGconn.connect(conninfo.encode())
    lab.more.callback(standby.finish)
    where = standby.exec_(b"IDENTIFY_SYSTEM").get_value(0, 2)
    assert where is not None
    answer = standby.exec_(b"START_REPLICATION SLOT " + f"{lab.name}_standby PHYSICAL ".encode() + where)
    assert answer.status == pq.ExecStatus.COPY_BOTH


@planted("wal-sender-timeout")
def impatient_senders(lab: Lab) -> None:
    lab.setting("wal_sender_timeout", "5s")


@planted("idle-session-timeout")
def sessions_are_cut(lab: Lab) -> None:
    lab.setting("idle_session_timeout", "1h")


@planted("idle-in-transaction-session-timeout")
def snapshots_are_cut(lab: Lab) -> None:
    lab.setting("idle_in_transaction_session_timeout", "1h")


@planted("idle-slot-timeout")
def slots_are_taken_away(lab: Lab) -> None:
    lab.setting("idle_replication_slot_timeout", "1d")


@planted("old-transaction")
def a_transaction_without_end(lab: Lab) -> None:
    writer = lab.more.enter_context(psycopg.connect(lab.url))
    writer.execute("INSERT INTO a VALUES (1)")
    lab.monkeypatch.setattr(of_database, "_LONG_SECONDS", 0.0)


@planted("drift")
def clocks_that_differ(lab: Lab) -> None:
    ours = time.time
    lab.monkeypatch.setattr(of_database.time, "time", lambda: ours() + 60)


# The way to it


@planted("pooler")
def a_pooler_between(lab: Lab) -> None:
    lab.between(Between(lab.url, "--pools"))


@planted("stream-refused")
def no_replication_through_the_proxy(lab: Lab) -> None:
    lab.between(Between(lab.url, "--no-streams"))


@planted("idle-cut")
def a_proxy_that_ends_what_is_silent(lab: Lab) -> None:
    lab.between(Between(lab.url, "--idle", "4"))
    lab.also += ["--idle", "6"]


# The role


@planted("no-replication")
def a_role_without_replication(lab: Lab) -> None:
    lab.as_role("", "GRANT SELECT ON a TO {role}")


@planted("no-select")
def a_role_that_may_not_read(lab: Lab) -> None:
    lab.as_role("REPLICATION")


@planted("no-publication")
def a_role_that_does_not_own_what_it_publishes(lab: Lab) -> None:
    lab.options |= {"publication_name": "of_nobody", "publication_autocreate_mode": "filtered"}
    lab.as_role(
        "REPLICATION", "GRANT SELECT ON a TO {role}", f"GRANT CREATE ON DATABASE {lab.name} TO {{role}}"
    )


# Tables, publication and slot


@planted("no-publication")
def a_publication_that_is_not_there(lab: Lab) -> None:
    lab.options["publication_name"] = "of_nobody"


@planted("not-published")
def a_publication_that_lacks_a_table(lab: Lab) -> None:
    lab.run("CREATE TABLE b (id int PRIMARY KEY)")


@planted("operations-not-published")
def a_publication_without_deletes(lab: Lab) -> None:
    lab.run("ALTER PUBLICATION sound SET (publish = 'insert, update')")


@planted("partition-root")
def partitions_by_another_name(lab: Lab) -> None:
    lab.run("ALTER PUBLICATION sound SET (publish_via_partition_root = true)")


@planted("no-replica-identity")
def a_keyless_table(lab: Lab) -> None:
    lab.run("CREATE TABLE keyless (id int)", "ALTER PUBLICATION sound ADD TABLE keyless")


@planted("no-replica-identity")
def an_identity_of_nothing(lab: Lab) -> None:
    lab.run("ALTER TABLE a REPLICA IDENTITY NOTHING")


@planted("table-missing")
def a_table_that_is_not_there(lab: Lab) -> None:
    # Without a worker's file a reference is a variable of whoever asks.
    lab.monkeypatch.setenv("OF_THE_CONNECTOR", "public.c")
    lab.options["table_include_list"] = "${env:OF_THE_CONNECTOR}"


@planted("slot-of-another")
def a_slot_of_another_database(lab: Lab) -> None:
    lab.slot(lab.name, make_conninfo(lab.url, dbname="postgres"), plugin="pgoutput")


@planted("option")
def an_option_that_does_not_exist(lab: Lab) -> None:
    lab.options["snapshot_mode"] = "sometimes"


@planted("no-transactions")
def no_markers_of_transactions(lab: Lab) -> None:
    lab.options["provide_transaction_metadata"] = "false"


# Kafka, the worker's group, the registry


@planted("unreachable")
def no_kafka(lab: Lab) -> None:
    lab.with_kafka, lab.bootstrap = True, "127.0.0.1:1"


@planted("partitions")
def configurations_in_three_partitions(lab: Lab) -> None:
    lab.topic("-config", 3, cleanup_policy="compact")


@planted("not-compacted")
def offsets_that_are_forgotten(lab: Lab) -> None:
    lab.topic("-offset", cleanup_policy="delete")


@planted("retention")
def rows_that_are_kept_for_an_hour(lab: Lab) -> None:
    lab.topic(".public.a", retention_ms="3600000")


@planted("compacted")
def rows_that_are_compacted(lab: Lab) -> None:
    lab.topic(".public.a", cleanup_policy="compact")


@planted("small-records")
def a_topic_for_small_records(lab: Lab) -> None:
    lab.topic(".public.a", retention_ms="-1", max_message_bytes="1000")


@planted("min-insync")
def a_topic_that_nobody_can_write_to(lab: Lab) -> None:
    lab.topic(".public.a", retention_ms="-1", min_insync_replicas="2")


@planted("worker-unreachable")
def a_worker_that_tells_a_wrong_address(lab: Lab) -> None:
    lab.more.enter_context(in_group(lab, "http://127.0.0.1:1"))


@planted("group-of-others")
def an_application_in_the_group(lab: Lab) -> None:
    lab.more.enter_context(in_group(lab, "an-application"))


@planted("unreachable")
def no_registry(lab: Lab) -> None:
    lab.also += ["--registry", "http://127.0.0.1:1"]


@planted("not-writable")
def a_lake_in_a_file(lab: Lab) -> None:
    (lab.directory / "file").touch()
    lab.also += ["--lakehouse", str(lab.directory / "file")]


@contextmanager
def in_group(lab: Lab, client: str) -> Iterator[None]:
    """A member of the worker's group."""
    lab.topic("-members")
    member = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.name, "client.id": client})
    with closing(member):
        member.subscribe([lab.name + "-members"])

        def joined() -> bool:
            member.poll(0.1)
            return bool(member.assignment())

        wait_for("the member to join", joined, 120)
        yield


@pytest.fixture(scope="module")
def server(pg_server: Callable[..., Any]) -> Iterator[str]:
    """A sound PostgreSQL with few slots and senders."""
    owned = pg_server("18", max_replication_slots=str(MOST), max_wal_senders=str(MOST))
    with psycopg.connect(
        owned.url, autocommit=True
    ) as connection:  # what a server is started with cannot be altered
        connection.execute(f"ALTER SYSTEM SET max_slot_wal_keep_size = '{KEPT}'".encode())
        connection.execute(b"SELECT pg_reload_conf()")
    yield owned.url
    owned.close()


@pytest.fixture
def lab(
    server: str,
    kafka_bootstrap: str,
    unique_name: str,
    tmp_path: Path,
    write: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    pg_server: Callable[..., Any],
) -> Iterator[Lab]:
    url = create_database(server, unique_name)
    with ExitStack() as more:
        made = Lab(url, kafka_bootstrap, unique_name, tmp_path, write, monkeypatch, pg_server, more)
        made.run("CREATE TABLE a (id int PRIMARY KEY)", "CREATE PUBLICATION sound FOR TABLE a")
        yield made
    drop_database(server, unique_name)


def test_nothing_is_found_before_a_fault_is_planted(lab: Lab, doctor: Any) -> None:
    lab.topic("-config", cleanup_policy="compact")
    lab.topic(".public.a", retention_ms="-1")
    lab.between(Between(lab.url))  # a proxy that passes bytes on
    lab.also += ["--lakehouse", str(lab.directory / "lake"), "--idle", "1"]
    assert doctor([*lab.arguments(), "--strict"]) == (0, set())


@pytest.mark.parametrize("fault", sorted(PLANTED))
def test_a_planted_fault_is_found_and_nothing_else(fault: str, lab: Lab, doctor: Any) -> None:
    code, plant = PLANTED[fault]
    plant(lab)
    found = doctor([*lab.arguments(), "--strict"])
    assert found == (3, {code})


def test_more_than_twenty_faults_are_planted() -> None:
    assert len(PLANTED) >= 40
    assert len({code for code, _ in PLANTED.values()}) >= 35
