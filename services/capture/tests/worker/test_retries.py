"""The table of errors, and what the supervisor makes of it."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from tidings_capture.postgres.client import Endpoint
from tidings_capture.postgres.client.refusals import refused
from tidings_capture.postgres.errors import PostgresError, retry_of_sqlstate
from tidings_connect.config.retries import RetryOptions
from tidings_connect.errors import _KAFKA, retry_of_kafka
from tidings_connect.herder.local_task import _pause, _trace
from tidings_connect.kafka.producer import describe_failure
from tidings_connect.task.channel import Failure
from tidings_service import Retry

UNLIMITED = RetryOptions(-1, 0.3, 10.0)


@pytest.mark.parametrize(
    ("sqlstate", "retry"),
    [
        ("28P01", Retry.NEVER),
        ("28000", Retry.NEVER),
        ("57P01", Retry.TIMED),
        ("55006", Retry.TIMED),
        ("55000", Retry.MANUAL),
        ("42P01", Retry.MANUAL),
        ("3D000", Retry.MANUAL),
        (None, Retry.TIMED),
    ],
)
def test_sqlstates(sqlstate: str | None, retry: Any) -> None:
    assert retry_of_sqlstate(sqlstate) is retry
    assert PostgresError("x", sqlstate=sqlstate).retry is retry


def test_kafka() -> None:
    assert retry_of_kafka("_TRANSPORT") is Retry.TIMED
    assert retry_of_kafka("TOPIC_AUTHORIZATION_FAILED") is Retry.NEVER
    assert retry_of_kafka("_AUTHENTICATION") is Retry.TIMED  # a password that is being rotated
    assert retry_of_kafka("_FENCED") is Retry.MANUAL
    assert "max.request.size" in str(describe_failure("x", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)).hint)


def test_the_names_in_the_table_are_librdkafkas() -> None:
    names = {KafkaError(code).name() for code in [*range(-200, -1), *range(1, 120)]}
    assert _KAFKA.keys() <= names


@pytest.mark.parametrize(
    ("words", "sqlstate", "named"),
    [
        ('FATAL:  password authentication failed for user "u"', "28P01", "database.password"),
        ('FATAL:  no pg_hba.conf entry for host "h"', "28000", "database.user"),
        ('FATAL:  database "d" does not exist', "3D000", "database.dbname=d"),
        ("FATAL:  the database system is starting up", "57P03", "starting up"),
        ("connection refused\n\tIs the server running?", None, "database.port=5432"),
    ],
)
def test_refused_connections_name_the_setting(words: str, sqlstate: str | None, named: str) -> None:
    error = refused(Endpoint("h", 5432, "u", "d", password="hush"), words)
    assert error.sqlstate == sqlstate
    assert named in str(error)
    assert "hush" not in str(error)


def test_pauses_grow_to_the_limit_with_jitter() -> None:
    failure = Failure("postgres", "m", "timed", None, "")
    pauses = [_pause(failure, UNLIMITED, n) for n in range(1, 30)]
    assert 0.15 <= pauses[0] <= 0.3
    assert all(5.0 <= pause <= 10.0 for pause in pauses[8:])


@pytest.mark.parametrize("retry", ["manual", "never"])
def test_what_a_retry_cannot_cure_is_not_retried(retry: str) -> None:
    assert _pause(Failure("x", "m", retry, None, ""), UNLIMITED, 1) is None


def test_errors_max_retries_counts() -> None:
    failure = Failure("postgres", "m", "timed", None, "")
    limited = RetryOptions(2, 0.3, 10.0)
    assert _pause(failure, limited, 2) is not None
    assert _pause(failure, limited, 3) is None


def test_trace_says_what_to_do_and_when_comes_the_next_attempt() -> None:
    text = _trace(Failure("slot", "the slot is gone", "manual", "look", "Traceback ..."), None)
    assert text.splitlines() == [
        "slot: the slot is gone",
        "hint: look",
        "no further attempt",
        "Traceback ...",
    ]
    assert "next attempt in 2.0 seconds" in _trace(Failure("x", "m", "timed", None, ""), 2.0)
