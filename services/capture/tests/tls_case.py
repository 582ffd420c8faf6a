"""What the tests of MariaDB's and MySQL's connectors over TLS share: certificates, and what is read over a connection."""

import json
from pathlib import Path
from typing import Final

from mariadb_worker import CONNECTORS

from tidings_capture.mysql.client import Session
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.secured.authority import Authority, Issued

DATABASE: Final = "secured"


def write_certificates(directory: Path, server: str) -> tuple[Authority, Issued]:
    """``ca``, and of a server on the loopback interface ``cert`` and ``key``; ``own.pem`` is the connector's certificate and key,
    ``other`` another authority's.

    Returns:
        the authority, and what it has issued to the connector.
    """
    authority = Authority()
    issued, own = authority.issue(server, hosts=("127.0.0.1",)), authority.issue("capture")
    for name, text in (
        ("own.pem", own.certificate + own.key),
        ("ca", authority.certificate),
        ("cert", issued.certificate),
        ("key", issued.key),
        ("other", Authority("Another").certificate),
    ):
        (directory / name).write_text(text)
    return authority, own


def server_settings(files: Path) -> dict[str, str]:
    """Of a server with the certificate."""
    return {f"ssl_{name}": str(files / name) for name in ("ca", "cert", "key")}


def make_table(session: Session) -> None:
    """The table that `read_both` reads, in a new database."""
    session.rows(f"DROP DATABASE IF EXISTS {DATABASE}")
    session.rows(f"CREATE DATABASE {DATABASE}")
    session.rows(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, filler MEDIUMTEXT)")
    session.rows(f"INSERT INTO {DATABASE}.t VALUES (1, 'a')")


def read_both(config: dict[str, str], session: Session) -> None:
    """A connector reads the snapshot and the log."""
    topic = f"{config['topic.prefix']}.{DATABASE}.t"
    with MemoryWorker(CONNECTORS[config["connector.class"]](), "c") as worker:
        worker.put(config)
        worker.wait_for(lambda: len(worker.kafka.topics.get(topic, [])) == 1, "the snapshot")
        # Longer than a record of TLS (16 KB), and than what is received at a time.
        session.rows(f"INSERT INTO {DATABASE}.t VALUES (2, REPEAT('x', 1000000)), (3, 'c')")
        worker.wait_for(lambda: len(worker.kafka.topics[topic]) == 3, "the log")
        values = [json.loads(value)["after"] for _key, value, _headers in worker.kafka.topics[topic]]
    assert [(value["id"], len(value["filler"])) for value in values] == [(1, 1), (2, 1_000_000), (3, 1)]
