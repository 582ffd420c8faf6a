"""Reads the dead-letter topic and writes to it and to the change sets' topic, for ``tidings-translator dead-letters``.

A command of a person's: plain, idempotent writes. What must be exactly once is done by the translator that gets them.
"""

import time
from collections.abc import Iterable, Iterator

from confluent_kafka import (
    OFFSET_BEGINNING,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tidings_domain.routing.record_sizes import MAX_RECORD_BYTES
from tidings_envelope.headers.reading import read_headers
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import BrokerError
from tidings_translator.base.records import Output
from tidings_translator.dead_letters.letters import Letter, read_letter
from tidings_translator.kafka.clients import KafkaAdmin, KafkaConsumer, KafkaProducer, broken
from tidings_translator.kafka.reading import arrived

_REQUEST_SECONDS = 30.0
_STALL_SECONDS = 120.0
_TO_THE_END_MILLISECONDS = 10
_FOLLOWING_MILLISECONDS = 500


class LetterBox:
    """The dead-letter topic, which has one partition. Its methods raise BrokerError when Kafka is away or refuses."""

    def __init__(self, kafka: KafkaAccess, topic: str) -> None:
        self._kafka = kafka
        self.topic = topic

    def letters(self, *, start: int | None = None, payload: bool = False) -> Iterator[Letter]:
        """Every record from offset `start` (None: the oldest) to the end; values only with `payload`."""
        return self._read(start, payload=payload)

    def one(self, number: int) -> Letter | None:
        """The letter at an offset with its value; None when there is none."""
        if number >= self.end():
            return None
        return next(
            (one for one in self._read(number, payload=True, stop_at=number) if one.number == number), None
        )

    def follow(self, start: int, seconds: float) -> Iterator[Letter]:
        """What comes from offset `start` on, for so many seconds."""
        return self._read(start, payload=False, seconds=seconds)

    def end(self) -> int:
        """One past the last record."""
        consumer = self._consumer(_TO_THE_END_MILLISECONDS)
        try:
            return consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=_REQUEST_SECONDS)[1]
        except KafkaException as error:
            raise broken(error, f"{self.topic} cannot be read", consumer) from error
        finally:
            consumer.close()

    def forget(self, before: int) -> None:
        """Delete the records below an offset: rows are in them."""
        admin = KafkaAdmin(self._kafka)
        place = TopicPartition(self.topic, 0, before)
        try:
            for future in admin.delete_records([place], request_timeout=_REQUEST_SECONDS).values():
                future.result()
        except KafkaException as error:
            raise broken(error, f"{self.topic} cannot be trimmed", admin) from error

    def send(self, outputs: Iterable[Output]) -> None:
        """Write records and wait until Kafka has them."""
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        producer = KafkaProducer(
            self._kafka,
            {
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,  # as the translator's
                "message.max.bytes": MAX_RECORD_BYTES,
                "delivery.timeout.ms": int(_REQUEST_SECONDS * 1000),
            },
        )
        try:
            for output in outputs:
                headers = list(output.headers or ())
                producer.produce(
                    output.topic,
                    output.value,
                    output.key,
                    output.partition,
                    on_delivery=delivered,
                    headers=headers,  # type: ignore[arg-type]  # lists are invariant
                )
                producer.poll(0)
            left = producer.flush(_REQUEST_SECONDS + 5)
        except KafkaException as error:
            raise broken(error, "the request cannot be written", producer) from error
        if refused:
            raise broken(KafkaException(refused[0]), "the request cannot be written", producer)
        if left:
            raise BrokerError("the request cannot be written: no answer", hint="is TIDINGS_KAFKA right?")

    def _consumer(self, fetch_milliseconds: int) -> KafkaConsumer:
        """
        Args:
            fetch_milliseconds: how long a fetch that finds nothing waits for more; it also tells of the end.
        """
        return KafkaConsumer(
            self._kafka,
            "tidings-dead-letters",
            {
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": fetch_milliseconds,
            },
        )

    def _read(
        self, start: int | None, *, payload: bool, stop_at: int | None = None, seconds: float | None = None
    ) -> Iterator[Letter]:
        consumer = self._consumer(_TO_THE_END_MILLISECONDS if seconds is None else _FOLLOWING_MILLISECONDS)
        moved = begun = time.monotonic()
        try:
            if self.topic not in consumer.list_topics(timeout=_REQUEST_SECONDS).topics:
                raise BrokerError(
                    f"Kafka has no topic {self.topic}",
                    hint="is TIDINGS_SOURCE the topic prefix of the source, and have sequencer and translator run?",
                )
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING if start is None else start)])
            while seconds is None or time.monotonic() - begun < seconds:
                for message in arrived(consumer, 500, 0.2):
                    moved = time.monotonic()
                    error = message.error()
                    if error is None:
                        letter = _letter(message, payload=payload)
                        yield letter
                        if stop_at is not None and letter.number >= stop_at:
                            return
                    elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                        raise broken(KafkaException(error), f"{self.topic} cannot be read", consumer)
                    elif seconds is None:
                        return
                if seconds is None and time.monotonic() - moved > _STALL_SECONDS:
                    raise BrokerError(
                        f"{self.topic} cannot be read: no answer", hint="is TIDINGS_KAFKA right?"
                    )
        except KafkaException as error:
            raise broken(error, f"{self.topic} cannot be read", consumer) from error
        finally:
            consumer.close()


def _letter(message: Message, *, payload: bool) -> Letter:
    key, value = message.key(), message.value()
    assert key is None or isinstance(key, bytes)
    assert value is None or isinstance(value, bytes)
    headers = read_headers(message)
    return read_letter(message.offset() or 0, message.timestamp()[1], key, value, headers, payload=payload)
