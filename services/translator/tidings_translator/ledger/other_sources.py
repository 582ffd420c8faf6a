"""Refuses a domain whose events another source makes already.

A domain's business topics have the events of one source: neither an event's id nor its key says which source it is of, and
positions of two databases have no common order. The ledger of every source names its domains, so a source that begins looks
into the others', as far as it may read them.
"""

from collections.abc import Iterable, Mapping

from tidings_service import Retry, get_logger
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError, GenerationError
from tidings_translator.base.naming import ledger_topic, source_of_ledger
from tidings_translator.base.records import Partition
from tidings_translator.ledger.ledger import Ledger
from tidings_translator.ledger.records import read_partitions

log = get_logger("tidings_translator.other_sources")


def check_alone(kafka: KafkaAccess, topics: Iterable[str], source: str, domain: str) -> None:
    """See that no other source makes a domain's events.

    Args:
        topics: every topic that Kafka shows.
        source: the own one.

    Raises:
        GenerationError: another one does.
        BrokerError: Kafka is away.
    """
    others = {
        topic: name for topic in topics if (name := source_of_ledger(topic)) is not None and name != source
    }
    if not others:
        return
    ledgers = {topic: Ledger() for topic in others}
    try:
        _read(kafka, ledgers)
    except BrokerError as error:
        if error.retry is not Retry.MANUAL:
            raise
        log.warning(
            "ledgers of other sources may not be read: whether one of them makes this domain's events is not known",
            reason=str(error),
        )
    for topic, ledger in sorted(ledgers.items()):
        if domain in ledger.domains:
            raise GenerationError(
                f"source '{others[topic]}' makes the events of domain '{domain}' already; '{source}' would write to the"
                " same business topics, where nothing tells the sources apart",
                hint=f"give each source a domain of its own (TIDINGS_DOMAIN); or, when '{others[topic]}' is no more,"
                f" delete the topic {ledger_topic(others[topic])}",
            )


def _read(kafka: KafkaAccess, ledgers: Mapping[str, Ledger]) -> None:
    for partition, message in read_partitions(kafka, [Partition(topic, 0) for topic in ledgers]):
        key, value = message.key(), message.value()
        if key is None or value is None:
            continue
        try:
            ledgers[partition.topic].load(key, value)
        except GenerationError as error:
            # Of another release, maybe: it is theirs to judge, and what it says of domains is read all the same.
            log.warning(
                "another source's ledger has a record that is not known",
                topic=partition.topic,
                reason=str(error),
            )
