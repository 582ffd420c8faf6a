"""MySQL's connector with each `database.ssl.mode`, and with certificates of its own: the snapshot and the binary log."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MySqlConnector
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_capture.mysql.settings.config import read_config
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_jvm import SilentProgress
from tidings_stack.errors import PackagesUnavailableError
from tidings_stack.mysql import MySqlServer
from tidings_stack.secured.authority import Authority
from tidings_stack.stack import Stack

DATABASE = "secured"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``ca``, of a server on the loopback interface ``cert`` and ``key``, and ``own`` of the connector; ``other`` is another authority's."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority()
    issued, own = authority.issue("mysql", hosts=("127.0.0.1",)), authority.issue("capture")
    for name, text in (
        ("ca", authority.certificate),
        ("cert", issued.certificate),
        ("key", issued.key),
        ("own", own.certificate + own.key),
        ("other", Authority("Another").certificate),
    ):
        (directory / name).write_text(text)
    return directory


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[MySqlServer]:
    own = {f"ssl_{name}": str(files / name) for name in ("ca", "cert", "key")}
    with Stack(members=(), progress=SilentProgress()) as stack:
        try:
            yield stack.add(lambda place: MySqlServer(place, settings=own))
        except PackagesUnavailableError as error:
            pytest.skip(f"there is no MySQL: {error}")


def options(server: MySqlServer, mode: str, **more: str) -> dict[str, str]:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.ssl.mode": mode,
        "database.include.list": DATABASE,
        "topic.prefix": "p",
        **more,
    }


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required", "verify_ca", "verify_identity"])
def test_the_snapshot_and_the_log_are_read(
    server: MySqlServer, files: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The user's login is `caching_sha2_password`, without TLS and with it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files / "other"))
    session = Session(read_config(options(server, "required"), MYSQL).endpoint)
    user = f"u{mode}"
    session.rows(f"DROP DATABASE IF EXISTS {DATABASE}")
    session.rows(f"CREATE DATABASE {DATABASE}")
    session.rows(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, filler MEDIUMTEXT)")
    session.rows(f"INSERT INTO {DATABASE}.t VALUES (1, 'a')")
    needs = {"disabled": "", "verify_ca": " REQUIRE X509"}.get(mode, " REQUIRE SSL")  # of each connection
    session.rows(f"CREATE USER {user} IDENTIFIED WITH caching_sha2_password BY 'pw'{needs}")
    session.rows(f"GRANT ALL ON *.* TO {user}")
    config = options(server, mode, **{"database.user": user, "database.password": "pw"})
    if mode.startswith("verify"):
        config |= {"database.ssl.truststore": str(files / "ca"), "database.ssl.keystore": str(files / "own")}
    with MemoryWorker(MySqlConnector(), "c") as worker:
        worker.put(config)
        topic = f"p.{DATABASE}.t"
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, [])) == 1, "the snapshot")
        # Longer than a record of TLS (16 KB), and than what is received at a time.
        session.rows(f"INSERT INTO {DATABASE}.t VALUES (2, REPEAT('x', 1000000)), (3, 'c')")
        worker.wait_for(lambda: len(worker.kafka.topics[topic]) == 3, "the log")
        values = [json.loads(value)["after"] for _key, value, _headers in worker.kafka.topics[topic]]
    assert [(value["id"], len(value["filler"])) for value in values] == [(1, 1), (2, 1_000_000), (3, 1)]
    session.close()


@pytest.mark.parametrize(
    ("mode", "host", "authority"),
    [("verify_ca", "127.0.0.1", "other"), ("verify_identity", "localhost", "ca")],
)
def test_what_cannot_be_trusted_is_refused(
    server: MySqlServer, files: Path, mode: str, host: str, authority: str
) -> None:
    more = {"database.hostname": host, "database.ssl.truststore": str(files / authority)}
    with pytest.raises(MariaDbError, match="certificate"):
        Session(read_config(options(server, mode, **more), MYSQL).endpoint)
