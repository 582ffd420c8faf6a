"""Publishes the corrective events of a generation that was promoted (`corrections` says which these are)."""

from collections.abc import Iterator

from tidings_envelope.registry import RegistryClient
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.naming import shadow_topic
from tidings_translator.base.records import Output
from tidings_translator.generations.compare import Comparer
from tidings_translator.generations.corrections import Corrections
from tidings_translator.generations.diff import Difference, Notify, said_of
from tidings_translator.generations.generations import Generations
from tidings_translator.kafka.topics import Topics
from tidings_translator.ledger.ledger import Fact, Ledger
from tidings_translator.ledger.records import LedgerWriter, read_topic

_TRANSACTION_RECORDS = 2_000

Found = list[tuple[Difference, Corrections]]


class Corrector:
    """Corrects what was published before a generation was promoted.

    Args:
        kafka: the cluster.
        source: the topic prefix.
        registry: where the schemas of Avro values are.
    """

    def __init__(self, kafka: KafkaAccess, source: str, registry: RegistryClient) -> None:
        self._kafka = kafka
        self._source = source
        self._comparer = Comparer(kafka, source, registry)
        self._generations = Generations(kafka, source)
        self._topics = Topics(kafka)

    def look(self, name: str, *, topic: str | None = None) -> Found:
        """What `publish` would do, by business topic.

        Raises:
            GenerationError: the generation was not promoted.
        """
        self._check(name, self._generations.ledger())
        made: list[Corrections] = []

        def fresh() -> Notify:
            made.append(Corrections())
            return made[-1].note

        _, differences = self._comparer.compare(name, examples=0, topic=topic, notify=fresh)
        return list(zip(differences, made, strict=True))

    def publish(self, name: str, *, topic: str | None = None) -> Found:
        """Publish what is still to be corrected; what was published.

        Killed in its middle it is run again: what Kafka has of it is seen and left out. Of two runs at a time the later
        one ends the earlier.

        Raises:
            GenerationError: the generation was not promoted, or another command has begun meanwhile.
            BrokerError: Kafka is away; run it again.
        """
        with LedgerWriter(self._kafka, self._source) as turn:
            ledger = self._generations.ledger()
            self._check(name, ledger)
            switched = ledger.fact("switched", name)
            assert switched is not None
            # First: from here on a comparison looks for corrections among the live events.
            turn.write(f"corrected/{name}", Fact(switched.at))
            found = self.look(name, topic=topic)
            for difference, corrections in found:
                batch: list[Output] = []
                for output in self._outputs(name, difference.topic, corrections):
                    batch.append(output)
                    if len(batch) == _TRANSACTION_RECORDS:
                        turn.publish(batch)
                        batch = []
                if batch:
                    turn.publish(batch)
            return found

    def _outputs(self, name: str, business: str, corrections: Corrections) -> Iterator[Output]:
        if not corrections.changed and not corrections.missing:
            return
        shadow = shadow_topic(self._source, name, business)
        for record in read_topic(self._kafka, shadow, self._topics.partitions()[shadow]):
            output = corrections.event(name, business, record, said_of(shadow, *record))
            if output is not None:
                yield output

    def _check(self, name: str, ledger: Ledger) -> None:
        ledger.check_runs(name)
        if ledger.under_way is not None or ledger.live != name or ledger.fact("switched", name) is None:
            raise GenerationError(
                f"generation '{name}' is {ledger.status(name)}, and only the one that was promoted corrects what was published"
                " before",
                hint=f"tidings-translator generations promote {name}: until then wrong events go on to be published",
            )
