"""Writes records whose headers have names that are not UTF-8: Kafka's protocol forbids them, and no broker looks."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy


class Name:
    """A header's name in any bytes."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def encode(self, _encoding: str) -> bytes:
        return self._name


def write_record(
    bootstrap: str,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[object, bytes | None]],
    partition: int = 0,
) -> None:
    """Write one record; a header's name is a text or a `Name`."""
    asyncio.run(_write(bootstrap, topic, key, value, headers, partition))


async def _write(
    bootstrap: str,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[object, bytes | None]],
    partition: int,
) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        made = producer.create_batch()
        made._builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, 0, 1 << 20)
        assert made.append(key=key, value=value, timestamp=None, headers=headers) is not None
        await (await producer.send_batch(made, topic, partition=partition))
    finally:
        await producer.stop()
