"""Everything asks for TLS and a password: Kafka, PostgreSQL, the registry, the REST API; and nothing tells a secret.

The database's user has exactly the rights that docs/security.md says.
"""

import json
import re
import secrets
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from raw_topics import read_raw

from tidings_stack.secured.registry import guarded, header
from tidings_stack.secured.servers import KAFKA_USER, SecuredServers
from tidings_stack.waiting import wait_for

PROVIDERS = "org.apache.kafka.common.config.provider."
BASIC = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
CONFLUENT = "io.confluent.connect.avro.AvroConverter"
pytestmark = pytest.mark.timeout(600)  # a broker, a database and a registry start for the first test


@pytest.fixture
def registry(registry_url: str, secured_servers: SecuredServers, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """URL and password of the registry."""
    with guarded(registry_url, secured_servers.authority, tmp_path) as found:
        yield found


@dataclass
class Rest:
    """A client of the REST API, over https."""

    url: str
    context: ssl.SSLContext
    authorization: str
    answers: list[str]

    def __call__(self, method: str, path: str, body: Any = None, *, login: bool = True) -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": self.authorization} if login else {}
        )
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.context) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read().decode()
        self.answers.append(text)
        return status, text


def documented_sql() -> list[str]:
    page = (Path(__file__).parents[4] / "docs" / "security.md").read_text()
    block = re.search(r"```sql\n(CREATE ROLE capture.*?)```", page, re.DOTALL)
    assert block is not None
    return block.group(1).split(";\n")[:-1]


def make_shop(servers: SecuredServers, password: str) -> str:
    """A database in which nobody has a right that the documented statements have not given; its URL."""
    with psycopg.connect(servers.pg.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")  # of a run that has failed
        connection.execute("CREATE DATABASE shop")
        connection.execute("REVOKE ALL ON DATABASE shop FROM PUBLIC")
    url = servers.pg.database_url("shop")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
        connection.execute("INSERT INTO orders SELECT i, 'x' FROM generate_series(1, 5) i")
        for statement in documented_sql():
            connection.execute(statement.replace("change me", password))  # type: ignore[call-overload]
        connection.execute(
            "CREATE TABLE later (id int PRIMARY KEY)"
        )  # default privileges and the publication
    return url


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.mark.turns
def test_a_worker_in_a_place_where_everything_is_locked(
    secured_servers: SecuredServers,
    registry: tuple[str, str],
    start_worker: Callable[[Path], Any],
    tmp_path: Path,
) -> None:
    servers, authority = secured_servers, secured_servers.authority
    registry_url, registry_password = registry
    database_password, rest_password, store_password = (secrets.token_urlsafe(12) for _ in range(3))
    hidden = [servers.kafka.password, registry_password, database_password, rest_password, store_password]
    url = make_shop(servers, database_password)

    (tmp_path / "root.pem").write_text(authority.certificate)
    (tmp_path / "rest.p12").write_bytes(authority.issue("worker").pkcs12(store_password))
    (tmp_path / "users.properties").write_text(f"operator={rest_password}\n")
    (tmp_path / "shop.properties").write_text(f"user=capture\npassword={database_password}\n")
    (tmp_path / "kafka.properties").write_text(f"password={servers.kafka.password}\nstore={store_password}\n")
    (tmp_path / "registry").write_text(f"reg:{registry_password}")
    http, https = free_ports(2)
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / "root.pem")}
    avro = {
        "": CONFLUENT,
        ".schema.registry.url": registry_url,
        ".basic.auth.credentials.source": "USER_INFO",
        ".basic.auth.user.info": f"${{dir:{tmp_path}:registry}}",
        **{f".schema.registry.{name}": value for name, value in trust.items()},
    }
    properties = {
        "bootstrap.servers": servers.kafka.sasl_bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{KAFKA_USER}" password="${{file:{tmp_path}/kafka.properties:password}}";',
        **trust,
        "listeners": f"http://127.0.0.1:{http},https://127.0.0.1:{https}",
        "listeners.https.ssl.keystore.location": str(tmp_path / "rest.p12"),
        "listeners.https.ssl.keystore.password": f"${{file:{tmp_path}/kafka.properties:store}}",
        **{f"listeners.https.{name}": value for name, value in trust.items()},
        "rest.advertised.listener": "https",
        "rest.extension.classes": BASIC,
        "tidings.rest.credentials.file": str(tmp_path / "users.properties"),
        "group.id": "secured",
        **{f"{kind}.storage.topic": f"secured-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{side}.converter{name}": value for side in ("key", "value") for name, value in avro.items()},
        "config.providers": "file,dir",
        "config.providers.file.class": PROVIDERS + "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "config.providers.dir.class": PROVIDERS + "DirectoryConfigProvider",
    }
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    worker = start_worker(file)

    context = ssl.create_default_context(cadata=authority.certificate)
    rest = Rest(f"https://127.0.0.1:{https}", context, header("operator", rest_password), [])
    assert rest("GET", "/connectors", login=False) == (401, "User cannot access the resource.")
    assert rest("GET", "/metrics", login=False)[0] == 401
    assert rest("GET", "/healthz", login=False)[0] == 200
    assert "kafka" in json.loads(rest("GET", "/readyz", login=False)[1])["components"]
    assert worker.request("GET", "/connectors")[0] == 401  # the listener without TLS asks as well
    assert rest("GET", "/connectors") == (200, "[]")

    shop = f"${{file:{tmp_path}/shop.properties"
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(servers.pg.port),
        "database.user": shop + ":user}",
        "database.password": shop + ":password}",
        "database.dbname": "shop",
        "database.sslmode": "verify-full",
        "database.sslrootcert": str(tmp_path / "root.pem"),
        "topic.prefix": "secured",
        "slot.name": "secured",
        "publication.name": "capture",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.*",
        "signal.data.collection": "capture.signals",
        "errors.retry.delay.max.ms": "500",
    }
    wrong = config | {"database.password": shop + ":pasword}"}
    status, text = rest("PUT", "/connectors/shop/config", wrong)
    assert status == 400
    assert "database.password" in text
    assert "pasword" in text
    status, text = rest("PUT", "/connectors/shop/config", config)
    assert status == 201, text

    def state() -> str:
        answer = json.loads(rest("GET", "/connectors/shop/status")[1])
        assert answer["tasks"][0]["state"] != "FAILED", answer
        return str(answer["tasks"][0]["state"])

    def records() -> int:
        return len(read_raw(servers.kafka.bootstrap, "secured.public.orders"))

    def keys() -> set[bytes | None]:
        return {key for key, _ in read_raw(servers.kafka.bootstrap, "secured.public.orders")}

    wait_for("the task to run", lambda: state() == "RUNNING")
    wait_for("the snapshot's rows", lambda: records() == 5)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO orders VALUES (6, 'streamed')")
        connection.execute("INSERT INTO later VALUES (1)")
        wait_for("the streamed row", lambda: records() == 6)
        connection.execute(
            "INSERT INTO capture.signals VALUES ('1', 'execute-snapshot', '{\"data-collections\": [\"public.orders\"]}')"
        )
        wait_for("the incremental snapshot's rows", lambda: records() == 12)
        assert connection.execute(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'capture'"
        ).fetchone() == (True,)
        wait_for("WAL metrics", lambda: "pg_wal_size_bytes{" in (rest("GET", "/metrics")[1] or ""))

        # A password is rotated: file, then database; the task that comes back uses the new one.
        rotated = secrets.token_urlsafe(12)
        hidden.append(rotated)
        (tmp_path / "shop.properties").write_text(f"user=capture\npassword={rotated}\n")
        connection.execute(f"ALTER ROLE capture PASSWORD '{rotated}'")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'capture'")
        connection.execute("INSERT INTO orders VALUES (7, 'after')")
        try:
            # By keys, because what was sent just before the connection was cut may come twice.
            wait_for("the row after the rotation", lambda: len(keys()) == 7)
        except AssertionError as error:
            raise AssertionError(f"{error}; {rest('GET', '/connectors/shop/status')[1]}") from None

    shown = json.loads(rest("GET", "/connectors/shop/config")[1])
    assert shown["database.password"] == config["database.password"]
    for path in ("/connectors?expand=info&expand=status", "/connectors/shop", "/connectors/shop/tasks", "/metrics",
                 "/connectors/shop/status"):  # fmt: skip
        assert rest("GET", path)[0] == 200
    rest("PUT", "/connector-plugins/PostgresConnector/config/validate", config)
    told = {
        "REST": "\n".join(rest.answers),
        "logs": worker.log.read_text(),
        "config topic": repr(read_raw(servers.kafka.bootstrap, "secured-config")),
        "status topic": repr(read_raw(servers.kafka.bootstrap, "secured-status")),
        "processes": "".join(
            (Path(f"/proc/{pid}") / what).read_text()
            for pid in (worker.process.pid, worker.task_pid())
            for what in ("cmdline", "environ")
        ),
    }
    assert config["database.password"] in told["config topic"]
    for where, text in told.items():
        assert not [secret for secret in hidden if secret in text], f"a secret is in {where}"

    # A second worker of the group: whichever is not the leader forwards, over https and with the client's password.
    http, https = free_ports(2)
    another = properties | {"listeners": f"http://127.0.0.1:{http},https://127.0.0.1:{https}"}
    file = tmp_path / "another.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in another.items()))
    second_worker = start_worker(file)
    second = Rest(f"https://127.0.0.1:{https}", context, rest.authorization, [])
    wait_for("the second worker to know the connector", lambda: second("GET", "/connectors")[1] == '["shop"]')
    for client, action in ((rest, "pause"), (second, "resume"), (second, "pause")):
        status, text = client("PUT", f"/connectors/shop/{action}")
        assert status == 202, text
    assert second("PUT", "/connectors/shop/resume", login=False)[0] == 401
    assert second_worker.stop() == 0
    assert worker.stop() == 0
