"""The stages' transactions go on when the connections to all brokers were cut and are there again."""

import secrets
import threading

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from faultlab.servers import Lab

from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.records import Output, Partition
from tidings_translator.kafka.clients import KafkaAdmin
from tidings_translator.kafka.offsets import partition_ends
from tidings_translator.kafka.reading import read_partition
from tidings_translator.kafka.transactions import Membership, TransactionalProducer

_CUTS = 15
pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]


@pytest.fixture
def topic(lab: Lab) -> str:
    name = f"cut-{secrets.token_hex(4)}"
    admin = AdminClient({"bootstrap.servers": lab.kafka.bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 1)]).values():
        made.result(60)
    return name


def values(lab: Lab, topic: str) -> list[bytes | None]:
    kafka, place = KafkaAccess(lab.kafka.bootstrap), Partition(topic, 0)
    end = partition_ends(KafkaAdmin(kafka), [place])[place]
    return [one.value for one in read_partition(kafka, place, end)]


def test_transactions_with_offsets_go_on_behind_a_cut(lab: Lab, topic: str) -> None:
    """The group's coordinator was known before."""
    producer = TransactionalProducer(
        KafkaAccess(lab.kafka.proxied), f"{topic}-stage", transaction_timeout_seconds=30
    )
    producer.begin_life()

    def transact() -> None:
        for number in range(_CUTS):
            outputs = [Output(topic, b"k", b"%d" % number, None, 0)]
            producer.transact(
                outputs, {Partition(topic, 0): number + 1}, Membership(f"{topic}-group", "", -1, None)
            )
            lab.kafka_proxy.cut()

    thread = threading.Thread(target=transact, daemon=True)
    thread.start()
    thread.join(50)
    assert not thread.is_alive(), "a transaction hangs"
    assert values(lab, topic) == [b"%d" % number for number in range(_CUTS)]
