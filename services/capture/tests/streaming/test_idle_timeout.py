"""A server that says nothing is asked, and blamed only when it does not answer."""

import pytest

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
