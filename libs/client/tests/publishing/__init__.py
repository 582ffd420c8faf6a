"""Business events on a real broker, as the translator writes them, without the translator."""

import io
import json
import time
import urllib.request
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import fastavro
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from odd_headers import write_record

LINE = {
    "type": "record", "name": "Line", "doc": "A line.",
    "fields": [{"name": "product_id", "type": "long"}, {"name": "quantity", "type": "int"}],
}  # fmt: skip
FIELDS = {
    1: [{"name": "order_id", "type": "long"}],
    2: [
        {"name": "order_id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "required_on", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
    ],
}


class Publisher:
    """Publishes both versions of one event, in Kafka transactions."""

    def __init__(self, bootstrap: str, registry: str, name: str, *, partitions: int = 3) -> None:
        self.event = f"{name}.order-placed"
        self.topics = {major: f"{self.event}.v{major}" for major in FIELDS}
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._partitions = partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
        self._producer.init_transactions(60)
        self._schemas: dict[int, tuple[Any, bytes]] = {}
        self._registry = registry
        self.count = 0

    def create(self, major: int) -> None:
        """The topic and its contract."""
        topic = self.topics[major]
        for future in self._admin.create_topics([NewTopic(topic, self._partitions, 1)]).values():
            future.result()
        schema = {"type": "record", "name": "OrderPlaced", "doc": "An order.", "fields": FIELDS[major]}
        request = urllib.request.Request(
            f"{self._registry}/subjects/{topic}-value/versions",
            json.dumps({"schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            number = int(json.load(answer)["id"])
        self._schemas[major] = (fastavro.parse_schema(schema), b"\0" + number.to_bytes(4, "big"))

    def publish(self, orders: list[int], *, commit: bool = True) -> None:
        """One event for each order, in every version that there is."""
        self._producer.begin_transaction()
        for order in orders:
            self.count += 1
            for major in self._schemas:
                self._produce(major, order)
        assert self._producer.flush(60) == 0
        if commit:
            self._producer.commit_transaction(60)
        else:
            self._producer.abort_transaction(60)
        self._wait_for_the_end_of_the_transaction()

    def _wait_for_the_end_of_the_transaction(self) -> None:
        """Until readers of committed records can read all there is; the broker's markers come after the producer's answer."""
        places = [
            TopicPartition(self.topics[major], number)
            for major in self._schemas
            for number in range(self._partitions)
        ]
        deadline = time.monotonic() + 120
        while not self._is_readable(places):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _is_readable(self, places: list[TopicPartition]) -> bool:
        """Whether readers of committed records see the ends; not known while a partition's leader takes up its work."""
        try:
            stable, high = (
                [
                    future.result().offset
                    for future in self._admin.list_offsets(
                        dict.fromkeys(places, OffsetSpec.latest()), isolation_level=level
                    ).values()
                ]
                for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False
        return bool(stable == high)

    def publish_beside(
        self, major: int, order: int, headers: list[tuple[object, bytes | None]], bootstrap: str
    ) -> None:
        """One event of a version, with further headers, outside of a transaction."""
        self.count += 1
        value, own = self._event(major, order)
        write_record(bootstrap, self.topics[major], str(order).encode(), value, [*headers, *own])

    def _produce(self, major: int, order: int) -> None:
        value, headers = self._event(major, order)
        self._producer.produce(self.topics[major], value, str(order).encode(), headers=headers)

    def _event(self, major: int, order: int) -> tuple[bytes, list[tuple[str, bytes]]]:
        schema, header = self._schemas[major]
        fields = {"order_id": order, "customer": "Ann", "lines": [{"product_id": 5, "quantity": order}]}
        out = io.BytesIO()
        fastavro.schemaless_writer(
            out, schema, {name: fields.get(name) for name in (f["name"] for f in FIELDS[major])}
        )
        sequence = f"{self.count:016X}-0000000"
        headers = {
            "ce_specversion": "1.0",
            "ce_type": self.topics[major],
            "ce_source": "/tidings/shop/order",
            "ce_id": str(uuid5(NAMESPACE_URL, f"{self.topics[major]}{order}{self.count}")),
            "ce_time": "2026-01-01T00:00:00.000000Z",
            "ce_subject": str(order),
            "ce_sequence": sequence,
            "content-type": "application/avro",
        }
        return header + out.getvalue(), [(name, text.encode()) for name, text in headers.items()]
