"""The ledger of generations, read to its end at once and then followed, on a real Kafka."""

import pytest
from bikes.processes import wait_for

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.naming import ledger_topic
from tidings_translator.kafka.topics import TopicPlan, Topics
from tidings_translator.ledger.ledger import Fact
from tidings_translator.ledger.records import LedgerReader, LedgerWriter

pytestmark = pytest.mark.stack


def test_what_is_caught_up_with_and_what_is_followed_add_up(kafka_bootstrap: str, unique_name: str) -> None:
    """Each fact is there once it is written, whichever way it is read; a fact that was read is not told again."""
    kafka = KafkaAccess(kafka_bootstrap)
    Topics(kafka).create([TopicPlan(ledger_topic(unique_name), 1, compacted=True)], replication=1)
    reader = LedgerReader(kafka, unique_name)

    def stopped(generation: str) -> int | None:
        fact = reader.ledger.fact("stopped", generation)
        return None if fact is None else fact.at

    try:
        with LedgerWriter(kafka, unique_name) as turn:
            assert reader.catch_up().fact("stopped", "a") is None, "nothing is written yet"
            turn.write("stopped/a", Fact(1))
            reader.catch_up()
            assert stopped("a") == 1
            assert not reader.poll(0.5), "what was caught up with is not read again"
            turn.write("stopped/b", Fact(2))
            wait_for(lambda: reader.poll(0.1), "the fact to be followed")
            assert stopped("b") == 2
            turn.write("stopped/a", Fact(3))
            turn.write("stopped/c", Fact(4))
            reader.catch_up()
            assert (stopped("a"), stopped("c")) == (3, 4)
            assert not reader.poll(0.5), "what was caught up with is not read again"
            turn.write("stopped/d", Fact(5))
            wait_for(lambda: reader.poll(0.1), "the fact to be followed")
            assert stopped("d") == 5
    finally:
        reader.close()
