"""The transactional producer and its checkpoints by themselves, on a real Kafka: fenced, in time, and no more often than needed."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from tidings_capture.postgres.offsets.offset import SourceOffset, encode_offset
from tidings_connect.config.exactly_once import TransactionBoundary
from tidings_connect.errors import BrokerError, FencedError
from tidings_connect.kafka.producer import AcknowledgedProducer
from tidings_connect.kafka.topics import read_compacted
from tidings_connect.kafka.transactional_producer import TransactionalProducer
from tidings_connect.task.exactly_once import TransactionalCheckpoints


def test_a_zombie_that_has_not_listened_for_a_while_still_says_who_stopped_it(
    transactional: Callable[..., TransactionalProducer], unique_name: str
) -> None:
    """librdkafka refuses a record with ``_FATAL`` before it has called back with the reason."""
    zombie = transactional()
    zombie.send(unique_name, [(None, b'"zombie"', None)])
    assert zombie.flush(60)
    transactional()

    def send_until_refused() -> None:  # and nobody polls
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            zombie.send(unique_name, [(None, b'"zombie"', None)])
            time.sleep(0.05)

    with pytest.raises(FencedError, match=f"transactional.id={unique_name}"):
        send_until_refused()


def test_what_another_producer_has_not_ended_is_waited_for(
    kafka_bootstrap: str, transactional: Callable[..., TransactionalProducer], unique_name: str
) -> None:
    """A committed offset behind somebody's open transaction is not mistaken for none."""
    settings = {"bootstrap.servers": kafka_bootstrap}
    other = transactional(f"{unique_name}-other")
    other.send(unique_name, [(b"other", b"1", None)])
    assert other.flush(60)
    AcknowledgedProducer(settings).put_and_wait(unique_name, b"mine", b"2")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_compacted, settings, unique_name)
        wait([reading], timeout=4)  # long enough for a reader that does not wait to be done
        other.close()  # which aborts
        assert reading.result(60) == {b"mine": b"2"}


def test_settings_that_contradict_transactions_are_an_error_that_names_them(kafka_bootstrap: str) -> None:
    settings = {"bootstrap.servers": kafka_bootstrap, "acks": "1"}
    with pytest.raises(BrokerError, match="acks"):
        TransactionalProducer(settings, "x", on_wait=lambda: None)


def as_entry(offset: SourceOffset) -> dict[bytes, bytes]:
    return {b"k": encode_offset(offset)}


class _Records:
    """Stands for a producer where only time matters."""

    timeout_seconds = 60.0
    dirty = True
    opened = 0.0

    def open_seconds(self, now: float) -> float:
        return now - self.opened


@pytest.mark.parametrize(
    ("boundary", "after", "drained", "exact", "due"),
    [
        (TransactionBoundary("poll"), 0.06, True, True, True),
        (TransactionBoundary("poll"), 0.04, True, True, False),
        (TransactionBoundary("poll"), 0.9, False, True, False),
        (TransactionBoundary("poll"), 1.1, False, True, True),
        (TransactionBoundary("poll"), 1.1, True, False, False),
        (TransactionBoundary("poll"), 16.0, True, False, True),
        (TransactionBoundary("interval"), 0.9, True, True, False),
        (TransactionBoundary("interval"), 1.1, False, True, True),
        (TransactionBoundary("interval", 5.0), 4.9, True, True, False),
        (TransactionBoundary("interval", 5.0), 5.1, False, True, True),
        (TransactionBoundary("interval", 3600.0), 15.1, False, True, True),
    ],
)
def test_when_a_transaction_ends(boundary: Any, after: float, drained: bool, exact: bool, due: bool) -> None:
    records = _Records()
    checkpoints = TransactionalCheckpoints(records, "t", as_entry, boundary, interval_seconds=1.0)
    now = records.opened = checkpoints._last
    assert checkpoints.due(now + after, drained=drained, exact=exact) is due


def test_a_position_that_is_stored_costs_no_transaction(
    transactional: Callable[..., TransactionalProducer], unique_name: str
) -> None:
    producer = transactional()
    checkpoints = TransactionalCheckpoints(
        producer, unique_name, as_entry, TransactionBoundary(), interval_seconds=1.0
    )
    position = SourceOffset(done_lsn=1, lsn=1)
    checkpoints.take(position)
    checkpoints.take(position)
    assert producer.commits == 1
    assert not checkpoints.pending
    assert checkpoints.stored == position
