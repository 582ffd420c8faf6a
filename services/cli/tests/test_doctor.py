"""`tidings doctor` on a sound system and on a sick one, with logins; each fault by itself is in test_doctor_faults.py."""

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg.conninfo import make_conninfo

from tidings_cli.main import main
from tidings_stack.secured.registry import guarded
from tidings_stack.secured.servers import KAFKA_USER, SecuredServers
from tidings_stack.waiting import wait_for

pytestmark = pytest.mark.stack

SOUND = {"max_slot_wal_keep_size": "10GB"}
SICK = {
    "wal_level": "replica",
    "max_replication_slots": "1",
    "wal_sender_timeout": "5s",
    "idle_session_timeout": "1h",
    "idle_in_transaction_session_timeout": "1h",
}
Write = Callable[..., list[str]]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def make_topics(bootstrap: str, *topics: NewTopic) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(list(topics)).values():
        future.result(30)


def test_nothing_is_found_on_a_sound_system(
    pg_server: Callable[..., Any],
    kafka_bootstrap: str,
    unique_name: str,
    write: Write,
    doctor: Any,
    tmp_path: Path,
) -> None:
    with_server = pg_server("16", **SOUND)
    run(
        with_server.url,
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
    )
    make_topics(
        kafka_bootstrap,
        *(
            NewTopic(f"{unique_name}-{kind}", 1, 1, config={"cleanup.policy": "compact"})
            for kind in ("config", "offset", "status")
        ),
        NewTopic(f"{unique_name}.public.a", 2, 1, config={"retention.ms": "-1"}),
    )
    files = write(with_server.url, kafka_bootstrap)
    assert doctor([*files, "--lakehouse", str(tmp_path / "lake"), "--strict"]) == (0, set())
    with_server.close()


def test_what_is_planted_in_a_database_is_found(
    pg_server: Callable[..., Any],
    unique_name: str,
    write: Write,
    doctor: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = pg_server("16", **SICK)
    run(
        server.url,
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE keyless (id int)",
        "SELECT pg_create_physical_replication_slot('forgotten', true)",
        "INSERT INTO a SELECT generate_series(1, 10000)",
        f"CREATE ROLE {unique_name} LOGIN PASSWORD 'secret-word'",
    )
    weak = make_conninfo(server.url, user=unique_name, password="secret-word")
    code, found = doctor([*write(weak, publication_autocreate_mode="filtered"), "--retained", "1kB"])
    assert code == 3
    assert found == {
        "wal-level", "no-slot-left", "no-replication", "no-select", "no-publication", "no-replica-identity",
        "unlimited-wal", "slot-unused", "wal-sender-timeout",  "idle-session-timeout",
        "idle-in-transaction-session-timeout",
    }  # fmt: skip
    # Without a connector's file: the server, and all tables as they would be published.
    assert "no-replica-identity" in doctor([server.url])[1]
    # For people: the statement that mends it, and no password.
    assert main(["doctor", *write(weak)]) == 3
    told = capsys.readouterr().out
    assert f'GRANT SELECT ON "public"."a" TO "{unique_name}"' in told
    assert "ALTER SYSTEM SET wal_level = logical" in told
    assert "secret-word" not in told

    # Nothing was changed.
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (1,)
    server.close()


def test_logins_are_used_and_their_refusal_is_found(
    secured_servers: SecuredServers,
    registry_url: str,
    doctor: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka, authorities = secured_servers.kafka, tmp_path / "root.pem"
    authorities.write_text(secured_servers.authority.certificate)
    with guarded(registry_url, secured_servers.authority, tmp_path) as (url, password):
        given = {
            "KAFKA": kafka.sasl_bootstrap, "KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "PLAIN",
            "KAFKA_SASL_USERNAME": KAFKA_USER, "KAFKA_SASL_PASSWORD": kafka.password, "KAFKA_CA_FILE": str(authorities),
            "REGISTRY": url, "REGISTRY_USERNAME": "reg", "REGISTRY_PASSWORD": password, "REGISTRY_CA_FILE": str(authorities),
        }  # fmt: skip
        for name, text in given.items():
            monkeypatch.setenv(f"TIDINGS_{name}", text)
        assert doctor([]) == (0, set())
        monkeypatch.setenv("TIDINGS_REGISTRY_PASSWORD", "wrong")
        monkeypatch.setenv("TIDINGS_KAFKA_SASL_PASSWORD", "wrong")
        assert doctor([]) == (3, {"login-refused", "unreachable"})

        # The worker's own, in its properties.
        worker = tmp_path / "worker.properties"
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{KAFKA_USER}"'
        avro = "io.confluent.connect.avro.AvroConverter"
        lines = {
            "bootstrap.servers": kafka.sasl_bootstrap, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{login} password="{kafka.password}";',
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authorities), "group.id": "doctor",
            **{f"{kind}.storage.topic": f"doctor-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.converter": avro for kind in ("key", "value")},
            **{f"{kind}.converter.schema.registry.url": url for kind in ("key", "value")},
            **{f"{kind}.converter.schema.registry.ssl.truststore.type": "PEM" for kind in ("key", "value")},
            **{f"{kind}.converter.schema.registry.ssl.truststore.location": str(authorities) for kind in ("key", "value")},
            **{f"{kind}.converter.basic.auth.credentials.source": "USER_INFO" for kind in ("key", "value")},
            **{f"{kind}.converter.basic.auth.user.info": f"reg:{password}" for kind in ("key", "value")},
        }  # fmt: skip
        monkeypatch.delenv("TIDINGS_REGISTRY")
        monkeypatch.delenv("TIDINGS_KAFKA")
        worker.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        assert doctor(["--worker", str(worker)]) == (0, set())
        worker.write_text(worker.read_text().replace(f"reg:{password}", "reg:wrong"))
        assert doctor(["--worker", str(worker)]) == (3, {"login-refused"})


def test_workers_of_kafka_connect_in_the_group_are_found(
    connect_url: str, kafka_bootstrap: str, write: Write, doctor: Any, pg_database: str, tmp_path: Path
) -> None:
    wait_for("Kafka Connect", lambda: urllib.request.urlopen(connect_url, timeout=10).close() is None, 120)
    files = write(pg_database, kafka_bootstrap)
    worker = tmp_path / "worker.properties"
    worker.write_text(worker.read_text() + "group.id=connect\n")
    assert "group-of-kafka-connect" in doctor(files)[1]


def test_servers_that_are_away_are_found(doctor: Any) -> None:
    assert doctor(["postgresql://u:secret@127.0.0.1:1/d"]) == (3, {"unreachable"})
    assert doctor(["--kafka", "127.0.0.1:1"]) == (3, {"unreachable"})
