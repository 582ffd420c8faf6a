"""A backlog of the shop's technical events, written as capture writes them (its own conversion plans, no database).

The mix is an order's life: placed with one to five lines, paid, mostly shipped, now and then a new customer, a new
product, a price change. One row in the figures is one technical event; markers are not counted.
"""

import random
import time
from collections.abc import Iterable, Iterator
from typing import Literal
from zlib import crc32

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidings_capture.cdc.encoding.markers import MarkerPlan
from tidings_capture.cdc.encoding.options import ConversionOptions, DecimalHandling
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.tables import Column, Table
from tidings_capture.postgres.encoding.plan import compile_plan
from tidings_connect.converters.encoding import AvroConverter, Converter, JsonConverter
from tidings_connect.data.records import Record
from tidings_envelope.json_codec import JsonCodec
from tidings_envelope.registry import RegistryClient

Format = Literal["avro", "json"]
_MONEY = (10 << 16 | 2) + 4
_ENUM = 90_000


def _column(
    name: str, oid: int, type_name: str, *, key: int | None = None, null: bool = False, mod: int = -1
) -> Column:
    return Column(name, oid, mod, type_name, not null, key)


def _enum(name: str, type_name: str, *labels: str) -> Column:
    return Column(name, _ENUM, -1, type_name, not_null=True, enum_labels=labels)


TABLES = {
    "customers": (
        _column("id", 20, "int8", key=1),
        _column("email", 25, "text"),
        _column("first_name", 25, "text"),
        _column("last_name", 25, "text"),
        _column("phone", 25, "text", null=True),
        _column("city", 25, "text", null=True),
        _column("newsletter", 16, "bool"),
        _column("created_at", 1184, "timestamptz"),
    ),
    "products": (
        _column("id", 20, "int8", key=1),
        _column("sku", 2950, "uuid"),
        _column("name", 25, "text"),
        _enum("category", "product_category", "bike", "part", "clothing", "accessory"),
        _column("price", 1700, "numeric", mod=_MONEY),
        _column("weight_kg", 701, "float8", null=True),
        _column("attributes", 3802, "jsonb", null=True),
        _column("active", 16, "bool"),
        _column("created_at", 1184, "timestamptz"),
    ),
    "orders": (
        _column("id", 20, "int8", key=1),
        _column("customer_id", 20, "int8"),
        _enum("status", "order_status", "placed", "paid", "shipped", "cancelled"),
        _column("currency", 1042, "bpchar", mod=7),
        _column("note", 25, "text", null=True),
        _column("ordered_at", 1184, "timestamptz"),
        _column("required_on", 1082, "date", null=True),
        _column("updated_at", 1114, "timestamp"),
    ),
    "order_items": (
        _column("order_id", 20, "int8", key=1),
        _column("line_no", 23, "int4", key=2),
        _column("product_id", 20, "int8"),
        _column("quantity", 23, "int4"),
        _column("unit_price", 1700, "numeric", mod=_MONEY),
        _column("discount", 1700, "numeric", mod=(4 << 16 | 2) + 4),
    ),
    "payments": (
        _column("id", 20, "int8", key=1),
        _column("order_id", 20, "int8"),
        _column("amount", 1700, "numeric", mod=_MONEY),
        _column("method", 25, "text"),
        _column("paid_at", 1184, "timestamptz"),
    ),
    "shipments": (
        _column("id", 20, "int8", key=1),
        _column("order_id", 20, "int8"),
        _column("carrier", 25, "text"),
        _column("tracking_code", 2950, "uuid"),
        _column("shipped_at", 1184, "timestamptz"),
        _column("delivered", 16, "bool"),
    ),
}
_AT = b"2026-11-20 10:00:00.123456+00"
_LOCAL = b"2026-11-20 10:00:00.123456"
_UUID = b"0d3adb3e-3e5c-4ac2-a9a5-4c5d4f5f1c11"

Cells = list[bytes | None]
Step = tuple[str, str, Cells]


class Shop:
    """An endless row of transactions: lists of (table, op, cells)."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._orders = self._customers = self._products = 0

    def transactions(self, large: int = 0) -> Iterator[Iterable[Step]]:
        yield [self._customer() for _ in range(50)] + [self._product() for _ in range(50)]
        if large:
            yield self._many(large)
        while True:
            chance = self._random.random()
            if chance < 0.1:
                yield [self._customer()]
            elif chance < 0.2:
                yield [self._product()]
            order = self._next_order()
            yield [
                ("orders", "c", self._order(order, b"placed")),
                *(self._line(order, number) for number in range(1, self._random.randint(2, 6))),
            ]
            yield [self._payment(order), ("orders", "u", self._order(order, b"paid"))]
            if chance < 0.8:
                yield [self._shipment(order), ("orders", "u", self._order(order, b"shipped"))]

    def _many(self, orders: int) -> Iterator[Step]:
        for _ in range(orders):
            order = self._next_order()
            yield "orders", "c", self._order(order, b"placed")
            for number in range(1, self._random.randint(2, 6)):
                yield self._line(order, number)

    def _next_order(self) -> int:
        self._orders += 1
        return self._orders

    def _customer(self) -> Step:
        self._customers += 1
        id_ = b"%d" % self._customers
        cells: Cells = [id_, b"c%s@example.org" % id_, b"Ada", b"Byron", None, b"Porto", b"t", _AT]
        return "customers", "c", cells

    def _product(self) -> Step:
        self._products += 1
        id_ = b"%d" % self._products
        cells: Cells = [
            id_,
            _UUID,
            b"bike %s" % id_,
            b"bike",
            b"499.00",
            b"11.5",
            b'{"color": "red"}',
            b"t",
            _AT,
        ]
        return "products", "c", cells

    def _order(self, order: int, status: bytes) -> Cells:
        customer = b"%d" % (order % self._customers + 1)
        return [
            b"%d" % order,
            customer,
            status,
            b"EUR",
            b"a note for the warehouse",
            _AT,
            b"2026-12-01",
            _LOCAL,
        ]

    def _line(self, order: int, number: int) -> Step:
        product = b"%d" % ((order + number) % self._products + 1)
        return "order_items", "c", [b"%d" % order, b"%d" % number, product, b"2", b"499.00", b"0.05"]

    def _payment(self, order: int) -> Step:
        return "payments", "c", [b"%d" % order, b"%d" % order, b"948.10", b"card", _AT]

    def _shipment(self, order: int) -> Step:
        return "shipments", "c", [b"%d" % order, b"%d" % order, b"DHL", _UUID, _AT, b"f"]


def write_backlog(
    bootstrap: str,
    registry: str,
    prefix: str,
    rows: int,
    form: Format,
    *,
    large: int = 0,
    partitions: int = 1,
) -> list[str]:
    """Write about `rows` technical events and their markers; returns the topics.

    Args:
        large: as many orders come in one transaction.
        partitions: of each table's topic; the transaction topic has one.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    forget_former_sources(admin)
    topics = [f"{prefix}.transaction", *(f"{prefix}.public.{table}" for table in TABLES)]
    new = [NewTopic(topic, 1 if topic == topics[0] else partitions, 1) for topic in topics]
    for future in admin.create_topics(new).values():
        future.result()
    options = ConversionOptions(
        topic_prefix=prefix,
        database="shop",
        provide_transaction_metadata=True,
        decimal_handling=DecimalHandling.PRECISE if form == "avro" else DecimalHandling.STRING,
    )
    key, value = _converters(registry, form)
    plans = {
        name: compile_plan(
            Table("public", name, 16_000, columns), options, key, value, f"{prefix}.public.{name}"
        )
        for name, columns in TABLES.items()
    }
    markers = MarkerPlan(options, key, value)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 500_000}
    )

    def send(topic: str, record: Record) -> None:
        partition = crc32(record[0] or b"") % partitions if topic != topics[0] else 0
        while True:
            try:
                producer.produce(topic, record[1], record[0], partition)
                return
            except BufferError:
                producer.poll(0.05)

    context = EventContext()
    lsn, last, written = 10_000, None, 0
    now = time.time_ns()
    for txid, steps in enumerate(Shop().transactions(large), 700):
        context.begin(txid, now // 1000, last)
        context.now_ns = now
        context.position = lsn
        send(markers.transaction_topic, markers.begin(context))
        for table, op, cells in steps:
            lsn += 100
            context.position = lsn
            plan = plans[table]
            made = plan.insert(cells, context) if op == "c" else plan.update(None, None, cells, context)
            for record in made:
                send(plan.topic, record)
            written += 1
        lsn += 100
        context.position = last = lsn
        send(markers.transaction_topic, markers.end(context))
        producer.poll(0)
        if written >= rows:
            break
    assert producer.flush(120) == 0
    return topics


def forget_former_sources(admin: AdminClient) -> None:
    """Let a new source have the domain of those that were measured before, whose stages have ended."""
    ledgers = [topic for topic in admin.list_topics(timeout=10).topics if topic.endswith(".generations")]
    for future in admin.delete_topics(ledgers).values() if ledgers else ():
        future.result()


def _converters(registry: str, form: Format) -> tuple[Converter, Converter]:
    if form == "avro":
        client = RegistryClient(registry)
        return AvroConverter(client, is_key=True), AvroConverter(client, is_key=False)
    json = JsonConverter(JsonCodec(), schemas_enable=False)
    return json, json
