"""What whoever may post a connector must not be able to do: to the worker, to its secrets, to files and to databases."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from raw_topics import read_raw

from tidings_capture.cdc.signals.channels import consumer_settings
from tidings_capture.postgres.client import Session
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.settings.config import read_connector_config, read_endpoint
from tidings_connect.config.override_policy import check_overrides
from tidings_connect.config.secrets import masked, passwords, with_stored_secrets
from tidings_connect.errors import OptionError
from tidings_service import Retry
from tidings_stack.capture import CaptureWorker as Worker

PLUGIN = "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config/validate"


def errors_of(answer: tuple[int, dict[str, Any]]) -> dict[str, list[str]]:
    status, body = answer
    assert status == 200, body
    return {c["value"]["name"]: c["value"]["errors"] for c in body["configs"] if c["value"]["errors"]}


# Credentials go where they were meant for


@contextmanager
def listening(serve: Any = None) -> Iterator[tuple[int, list[bytes]]]:
    """A server of somebody's own: its port, and what it was sent."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        thread = threading.Thread(target=_answer, args=(server, serve, heard), daemon=True)
        thread.start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(30)


def _answer(server: Any, serve: Any, heard: Any) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(10)
            try:
                while data := connection.recv(65536):
                    heard.append(data)
                    if serve is not None:
                        connection.sendall(serve(data))
            except OSError:
                pass


def asks_for_the_password(data: bytes) -> bytes:
    """A PostgreSQL server that has neither TLS nor GSS and sends AuthenticationCleartextPassword."""
    if len(data) == 8 and struct.unpack(">II", data)[1] in {80877103, 80877104}:
        return b"N"
    return b"R" + struct.pack(">II", 8, 3)


def test_no_password_in_the_clear_to_a_server_that_has_not_proved_who_it_is(
    connector_config: dict[str, str],
) -> None:
    canary = "canary-of-the-database"
    with listening(asks_for_the_password) as (port, heard):
        config = connector_config | {
            "database.hostname": "127.0.0.1",
            "database.port": str(port),
            "database.password": canary,
        }
        with pytest.raises(PostgresError, match="in the clear") as caught:
            Session(read_endpoint(config))
        assert caught.value.retry == Retry.NEVER
        assert "tidings.database.require.auth" in str(caught.value.hint)
        assert heard
        assert canary.encode() not in b"".join(heard)
        # Whoever needs it may ask for it.
        with pytest.raises(PostgresError):
            Session(read_endpoint(config | {"tidings.database.require.auth": "password"}))
        assert canary.encode() in b"".join(heard)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_stored_password_goes_nowhere_else(
    worker: Worker, create: Callable[..., str], connector_config: dict[str, str], method: str
) -> None:
    name = create(connector_config | {"database.sslmode": "prefer"})
    shown = worker.request("GET", f"/connectors/{name}/config")[1]
    assert shown["database.password"] == "********"
    with listening(asks_for_the_password) as (port, heard):
        for change in (
            {"database.port": str(port), "database.hostname": "127.0.0.1"},
            {"database.user": "somebody"},
            {"database.sslmode": "disable"},
            {"tidings.database.require.auth": "password"},
        ):
            body = {**shown, **change} if method == "PUT" else change
            path = f"/connectors/{name}/config"
            status, answer = worker.request(method, path, body)
            assert status == 400, answer
            assert "database.password: give the value again" in answer["message"]
            assert next(iter(change)) in answer["message"]
        assert not heard
    # What does not say where it goes may change, and so may all of it for who knows the password.
    body = {
        **shown,
        "database.sslmode": "allow",
        "database.password": connector_config["database.password"],
        "heartbeat.interval.ms": "1000",
    }
    assert worker.request("PUT", f"/connectors/{name}/config", body)[0] == 200
    body = {**shown, "database.sslmode": "prefer", "heartbeat.interval.ms": "2000"}
    assert worker.request("PUT", f"/connectors/{name}/config", body)[0] == 200


@pytest.mark.listing
def test_every_kind_of_secret_has_its_target() -> None:
    consumer, producer, url = "signal.consumer.", "producer.override.", "value.converter.schema.registry.url"
    for secret, target in (
        (f"{consumer}sasl.jaas.config", "signal.kafka.bootstrap.servers"),
        (f"{producer}sasl.jaas.config", f"{producer}security.protocol"),
        (f"{producer}sasl.oauthbearer.client.secret", f"{producer}sasl.oauthbearer.token.endpoint.url"),
        (f"{producer}ssl.keystore.password", f"{producer}ssl.truststore.location"),
        ("consumer.override.sasl.jaas.config", "consumer.override.security.protocol"),
        ("consumer.override.ssl.keystore.password", "consumer.override.ssl.truststore.location"),
        ("value.converter.basic.auth.user.info", url),
        ("value.converter.basic.auth.user.info", "value.converter"),
        ("transforms.a.api.key", "transforms.a.endpoint"),
    ):
        stored = {secret: "hush", target: "https://token@here", "linger.ms": "1"}
        kept = with_stored_secrets(masked(stored) | {"linger.ms": "2"}, stored)
        assert kept == stored | {"linger.ms": "2"}
        for elsewhere in ({target: "https://there"}, {target: None}):
            asked = {
                name: value for name, value in {**masked(stored), **elsewhere}.items() if value is not None
            }
            with pytest.raises(OptionError, match="give the value again") as caught:
                with_stored_secrets(asked, stored)
            assert "hush" not in str(caught.value)
            assert target in str(caught.value)
        assert with_stored_secrets({secret: "new", target: "https://there"}, stored)[secret] == "new"


def signal_options(config: Any, **changes: Any) -> Any:
    changes = {f"signal.{name}": value for name, value in changes.items()}
    made = read_connector_config(
        "c", {**config, "signal.enabled.channels": "kafka", **changes}, {}, run_id="r"
    )
    return made.signals


def test_the_workers_login_to_kafka_stays_with_its_brokers(connector_config: dict[str, str]) -> None:
    client = {
        "bootstrap.servers": "a:9092,b:9092",
        "sasl.password": "canary",
        "security.protocol": "SASL_PLAINTEXT",
    }
    own = consumer_settings(client, signal_options(connector_config))
    assert own["sasl.password"] == "canary"
    assert consumer_settings(
        client, signal_options(connector_config, **{"kafka.bootstrap.servers": "B:9092"})
    ) == {
        **own,
        "bootstrap.servers": "B:9092",
    }
    other = {"kafka.bootstrap.servers": "b:9092,evil:9092", "consumer.security.protocol": "PLAINTEXT"}
    assert consumer_settings(client, signal_options(connector_config, **other)) == {
        "group.id": "kafka-signal",
        "bootstrap.servers": "b:9092,evil:9092",
        "security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize("policy", ["None", "Principal"])
def test_the_override_policy_is_for_signals_too(policy: str) -> None:
    config = {"signal.consumer.client.id": "x"}
    with pytest.raises(OptionError, match=r"signal\.consumer\.client\.id"):
        check_overrides(policy, config, "a:9092")
    check_overrides(policy, config | {"signal.kafka.bootstrap.servers": "evil:9092"}, "a:9092")


def test_the_workers_login_to_the_registry_stays_with_its_registry(connector_config: dict[str, str]) -> None:
    login = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://registry",
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": "worker:canary",
        "value.converter.schema.registry.ssl.keystore.password": "canary",
    }
    worker = login | {name.replace("value.", "key."): value for name, value in login.items()}

    def converters(**changes: Any) -> Any:
        config = {**connector_config, **{f"value.converter.{name}": value for name, value in changes.items()}}
        for name in (
            "key.converter",
            "value.converter",
            "key.converter.schemas.enable",
            "value.converter.schemas.enable",
        ):
            config.pop(name, None)
        return read_connector_config("c", config, worker, run_id="r").converters

    assert "canary" in str(converters())
    assert "canary" in str(converters(**{"schema.registry.url": "http://registry"}))
    for elsewhere in (
        {"schema.registry.url": "http://evil"},
        {"schema.registry.ssl.truststore.location": "/evil.pem"},
    ):
        made = converters(**elsewhere)
        assert "canary" not in str({n: v for n, v in made.items() if n.startswith("value.")})
        assert made["key.converter.basic.auth.user.info"] == "worker:canary"


# Code


def test_a_transform_names_no_module_that_the_worker_does_not_allow(
    worker: Worker, connector_config: dict[str, str]
) -> None:
    for kind, prefix in (("transforms", "transforms.t."), ("predicates", "predicates.p.")):
        config = connector_config | {kind: prefix[-2], f"{prefix}type": "lib2to3.__main__:main"}
        problems = errors_of(worker.request("PUT", PLUGIN, config))
        (text,) = problems[f"{prefix}type"]
        assert "tidings.transforms.allowed.modules" in text
    assert worker.request("GET", "/connectors")[0] == 200
    assert worker.process.poll() is None


def test_names_with_quotes_are_names(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    publication = "it's \"x\", y', proto_version '9"
    name = create(connector_config | {"publication.name": publication, "snapshot.mode": "no_data"})
    sql("INSERT INTO a VALUES (1)")
    wait_records(f"{name}.public.a", 1)
    assert (publication,) in sql("SELECT pubname FROM pg_publication")


# Secrets and cells


def test_no_secret_and_no_cell_is_told(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    tmp_path: Path,
    kafka_bootstrap: str,
) -> None:
    """A canary of each kind is looked for in everything that leaves the worker."""
    secret, salt, cell = "canary-of-a-secret", "canary-of-a-salt", "canary-of-a-cell"
    (tmp_path / "secrets.properties").write_text(f"it={secret}\n")
    reference = f"${{file:{tmp_path}/secrets.properties:it}}"
    provider = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    group = connector_config["topic.prefix"]
    properties = worker_properties(group, **provider)
    worker = start_worker(properties)
    answers = []

    def ask(method: Any, path: Any, body: Any = None) -> tuple[Any, ...]:
        status, answer = worker.request(method, path, body)
        answers.append(json.dumps(answer))
        return status, answer

    sql("CREATE TABLE a (id int PRIMARY KEY, note text)", f"INSERT INTO a VALUES (1, '{cell}')")
    sql(f"CREATE ROLE {group} LOGIN SUPERUSER PASSWORD '{secret}'")
    # What a check would quote.
    for name in ("snapshot.mode", "signal.enabled.channels", "slot.name", "table.include.list", "tasks.max",
                 "publication.autocreate.mode", "column.mask.with.x.chars", "no.such.option",
                 "database.hostname", "database.dbname", "key.converter"):  # fmt: skip
        config = connector_config | {"name": group, name: reference}
        if name == "table.include.list":
            config[name] = f"({reference}"
        status, answer = ask("PUT", PLUGIN, config)
        assert status == 200
        assert answer["error_count"] > 0, name
        assert ask("PUT", f"/connectors/{group}/config", config)[0] == 400
    # What a task would say: the server's words repeat a cell, and the option's name holds a salt.
    config = connector_config | {
        "database.user": group,
        "database.password": secret,
        f"column.mask.hash.SHA-256.with.salt.{salt}": "public.a.note",
        "table.include.list": "public.a",
        "snapshot.select.statement.overrides": "public.a",
        "snapshot.select.statement.overrides.public.a": "SELECT note::int AS id FROM a",
        "heartbeat.action.query": f"SELECT dblink_connect('password={secret}')",
        "heartbeat.interval.ms": "100",
    }
    assert ask("PUT", f"/connectors/{group}/config", config)[0] == 201
    worker.wait_task(group, "FAILED")
    status = ask("GET", f"/connectors/{group}/status")[1]
    assert "InvalidTextRepresentation" in status["tasks"][0]["trace"]
    for path in (
        "/metrics",
        "/connectors?expand=info&expand=status",
        f"/connectors/{group}",
        f"/connectors/{group}/config",
        f"/connectors/{group}/tasks",
    ):
        assert ask("GET", path)[0] == 200
    shown = ask("GET", f"/connectors/{group}/config")[1]
    name = "column.mask.hash.SHA-256.with.salt.********"
    assert shown[name] == "public.a.note"
    # What came back masked is what is stored: the salt is not replaced by its mask.
    assert (
        ask("PUT", f"/connectors/{group}/config", shown | {"snapshot.select.statement.overrides": ""})[0]
        == 200
    )
    worker.wait_task(group, "RUNNING")
    assert ask("GET", f"/connectors/{group}/config")[1][name] == "public.a.note"
    assert worker.request("DELETE", f"/connectors/{group}")[0] == 204
    assert worker.stop() == 0
    sql(f"REASSIGN OWNED BY {group} TO CURRENT_USER", f"DROP ROLE {group}")
    statuses = read_raw(kafka_bootstrap, f"{group}-status")
    assert b"InvalidTextRepresentation" in b"".join(value or b"" for _, value in statuses)
    told = {"REST": "\n".join(answers), "log": worker.log.read_text(), "status topic": repr(statuses)}
    for what in (secret, salt, cell):
        for where, text in told.items():
            assert what not in text, f"{what} is in {where}: {text[max(0, text.find(what) - 300) :][:400]}"


def test_names_and_values_that_are_secret() -> None:
    secret = {
        "value.converter.api.key": "x",
        "X.API_KEY": "x",
        "transforms.a.auth.token": "x",
        "transforms.a.passwd": "x",
        "transforms.a.PWD": "x",
        "transforms.a.credentials": "x",
        "transforms.a.private.key": "x",
        "producer.override.SASL.JAAS.CONFIG": "x",
        "value.converter.schema.registry.url": "https://token@registry",
        "heartbeat.action.query": "SELECT dblink_connect('host=a password=x')",
    }
    shown = {
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "message.key.columns": "public.tokens:id",
        "table.include.list": "public.password,public.api_key",
        "database.sslkey": "/a/path",
        "database.password": "${env:X}",
        "value.converter.schema.registry.url": "https://registry/a",
    }
    assert passwords(secret) == secret.keys()
    assert not passwords(shown)
    config = {
        f"column.mask.hash.{kind}.with.salt.{salt}": kind
        for kind in ("MD5", "v2.MD5")
        for salt in ("a", "b.c")
    }
    answer = masked(config)
    assert len(answer) == 4
    assert all("********" in name for name in answer)
    assert with_stored_secrets(answer, config) == config
