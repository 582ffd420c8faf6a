"""`tidings doctor` finds each planted fault by itself: a sound system on real servers, one thing wrong, and that one finding.

`PLANTED` has them by name. What needs servers of its own (a registry's and a broker's logins, Kafka Connect in the group, the
lake's catalog and bucket) is planted in test_doctor.py and test_doctor_lake.py; what needs three brokers is not planted.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import doctor_database_faults  # noqa: F401 - plants
import doctor_other_faults  # noqa: F401 - plants
import psycopg
import pytest
from doctor_lab import KEPT, MOST, PLANTED, Between, Lab

from tidings_stack.postgres import create_database, drop_database

pytestmark = pytest.mark.stack


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
