"""Who says nothing is asked, and blamed only when it does not answer: the server by capture, and capture by the server."""

import psycopg
import pytest

from tidings_capture.postgres.client import read_url
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.streaming.idle_timeout import IdleTimeout
from tidings_service import Retry


def test_a_server_that_speaks_is_left_alone() -> None:
    silence = IdleTimeout(10)
    assert not any(silence.question_due(now, last_heard=now - 4.9) for now in range(100))


def test_asked_once_and_lost_when_it_does_not_answer() -> None:
    silence = IdleTimeout(10)
    assert silence.question_due(5.0, last_heard=0)
    assert not silence.question_due(9.9, last_heard=0)
    with pytest.raises(PostgresError, match=r"10 seconds.*tidings\.receive\.timeout\.ms") as caught:
        silence.question_due(10.0, last_heard=0)
    assert caught.value.retry is Retry.TIMED


def test_an_answer_begins_it_anew() -> None:
    silence = IdleTimeout(10)
    assert silence.question_due(6, last_heard=0)
    assert not silence.question_due(7, last_heard=7)
    assert silence.question_due(12, last_heard=7)


def test_a_process_that_slept_asks_before_it_blames() -> None:
    silence = IdleTimeout(10)
    assert silence.question_due(1000, last_heard=0)
    assert not silence.question_due(1004, last_heard=0)
    assert not silence.question_due(1005, last_heard=1005)


def test_zero_is_for_ever() -> None:
    assert not IdleTimeout(0).question_due(1e9, last_heard=0)


@pytest.mark.stack
@pytest.mark.parametrize("replication", [False, True])
def test_the_server_ends_connections_whose_host_is_gone(pg_database: str, *, replication: bool) -> None:
    """By itself it asks after two hours, and keeps a snapshot's locks and its slot until then. It tells what its socket has."""
    with psycopg.connect(
        **read_url(pg_database).parameters(replication=replication), autocommit=True
    ) as connection:
        names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        told = [connection.pgconn.exec_(f"SHOW {name}".encode()).get_value(0, 0) for name in names]
    assert told == [b"30", b"10", b"3", b"0"]
