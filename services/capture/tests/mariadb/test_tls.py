"""MariaDB's connector over TLS (``database.ssl.mode``): the snapshot, the binary log, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings_capture.mysql.client import Endpoint, Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.errors import MariaDbError
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_jvm import PlainProgress
from tidings_stack.mariadb import MariaDbServer, is_published
from tidings_stack.secured.authority import Authority
from tidings_stack.stack import Stack

DATABASE = "secured"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``ca``, and of a server on the loopback interface ``cert`` and ``key``; ``other`` is another authority's."""
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority()
    issued = authority.issue("mariadb", hosts=("127.0.0.1",))
    for name, text in (
        ("ca", authority.certificate),
        ("cert", issued.certificate),
        ("key", issued.key),
        ("other", Authority("Another").certificate),
    ):
        (directory / name).write_text(text)
    return directory


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[MariaDbServer]:
    """A server that takes connections over TLS only."""
    if not is_published():
        pytest.skip("MariaDB's binaries are published for Linux on x86-64 only")
    own = {f"ssl_{name}": str(files / name) for name in ("ca", "cert", "key")}
    with Stack(members=(), progress=PlainProgress(lambda _: None)) as stack:
        yield stack.add(
            lambda place: MariaDbServer(
                place, settings={"ssl": "ON", "require_secure_transport": "ON", **own}
            )
        )


def endpoint(server: MariaDbServer, mode: str, host: str = "127.0.0.1") -> Endpoint:
    return Endpoint(host, server.port, "admin", server.password, mode)


@pytest.mark.parametrize("mode", ["trust", "verify-full"])
def test_the_snapshot_and_the_log_are_read_over_tls(
    server: MariaDbServer, files: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / ("ca" if mode == "verify-full" else "other")))
    session = Session(endpoint(server, mode))
    session.rows(f"CREATE OR REPLACE DATABASE {DATABASE}")
    session.rows(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, filler MEDIUMTEXT)")
    session.rows(f"INSERT INTO {DATABASE}.t VALUES (1, 'a')")
    config = {
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.ssl.mode": mode,
        "database.include.list": DATABASE,
        "topic.prefix": "p",
    }
    with MemoryWorker(MariaDbConnector(), "c") as worker:
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
    ("mode", "host", "authority", "words"),
    [
        ("disable", "127.0.0.1", "ca", "insecure transport"),
        ("verify-ca", "127.0.0.1", "other", "certificate"),
        ("verify-full", "localhost", "ca", "certificate"),
    ],
)
def test_what_cannot_be_trusted_is_refused(
    server: MariaDbServer,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    host: str,
    authority: str,
    words: str,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / authority))
    with pytest.raises(MariaDbError, match=words):
        Session(endpoint(server, mode, host))


def test_the_name_is_not_compared_where_only_the_authority_is(
    server: MariaDbServer, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / "ca"))
    session = Session(endpoint(server, "verify-ca", "localhost"))
    assert session.rows("SHOW STATUS LIKE 'Ssl_version'")[0][1].startswith("TLSv1.")
    session.close()
