"""Producers that write to topics that have just been created, by hand: ``python -m tests.faults.new_topics --rounds 60``.

Each round creates a topic and writes to it at once, while the broker is still making itself its partitions' leader. With one
request in flight, capture's default, nothing is lost. ``--in-flight 5`` shows why it is the default: librdkafka 2.16 loses a
partition's first records in about one round of twenty (40 partitions, Kafka 4.3.1), and says that they were delivered.
"""

import argparse
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tidings_connect.kafka.producer import IN_FLIGHT, RecordProducer
from tidings_connect.kafka.topics import TopicAdmin
from tidings_stack import Stack

_WRITE_SECONDS = 0.6
_KEYS = 20


def main() -> int:
    """The command; 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.new_topics", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--partitions", type=int, default=40)
    parser.add_argument("--in-flight", type=int, default=1)
    given = parser.parse_args()
    lost = 0
    with Stack(members=("kafka",)) as stack:
        settings = {"bootstrap.servers": stack.kafka.bootstrap}
        admin = TopicAdmin(settings)
        reader = Consumer({**settings, "group.id": "ends"})
        producer = RecordProducer({**settings, IN_FLIGHT: given.in_flight})
        for number in range(given.rounds):
            topic = f"new-{number}"
            admin.ensure_topic(topic, partitions=given.partitions, replication_factor=1, config={})
            sent = _write(producer, topic)
            found = sum(_end(reader, topic, partition) for partition in range(given.partitions))
            if found != sent:
                lost += 1
                print(f"{topic}: {sent} records were sent and acknowledged, {found} are there", flush=True)
        reader.close()
    print(f"{given.rounds} new topics, records were lost in {lost}")
    return 1 if lost else 0


def _write(producer: RecordProducer, topic: str) -> int:
    """Small batches in quick succession, until all are acknowledged; how many records."""
    sent, stop = 0, time.monotonic() + _WRITE_SECONDS
    while time.monotonic() < stop:
        producer.send(topic, [(b"%d" % key, b"%d" % sent, None) for key in range(_KEYS)])
        sent += _KEYS
        producer.poll()
        time.sleep(0.002)
    while not producer.flush(1.0):
        pass
    return sent


def _end(reader: Consumer, topic: str, partition: int) -> int:
    deadline = time.monotonic() + 60
    while True:
        try:
            return int(reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1])
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
