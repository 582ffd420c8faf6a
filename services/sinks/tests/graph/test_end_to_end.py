"""The example's graph of customers, orders and products: real capture, Kafka, registry and sinks, whose worker is killed; by the
shop's tables and by its business events it is what SQL says."""

import io
import json
import random
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import psycopg
import pytest
from confluent_kafka import Producer
from end_to_end import GROUP, capture_config, put_connectors, random_seed, stop_connectors
from event_records import register
from graph_parts import Asking

from tidings_stack.capture import CaptureWorkers
from tidings_stack.neo4j import Neo4jServer
from tidings_stack.waiting import wait_for

_ROOT = Path(__file__).parents[4]
_EXAMPLES = _ROOT / "examples/read-models/graph"
_PLACED = json.loads((_ROOT / "schemas/shop/order-placed/v2.avsc").read_text("utf-8"))
_ITEMS = "SELECT line_no, product_id, quantity, unit_price, discount, round(quantity * unit_price * (1 - discount), 2) FROM order_items WHERE order_id = %s ORDER BY 1"
_SAME = [
    (
        "SELECT id, first_name, city FROM customers ORDER BY 1",
        "MATCH (c:Customer) WHERE NOT c:Placeholder RETURN c.id, c.first_name, c.city ORDER BY c.id",
    ),
    (
        "SELECT id, category::text, price::text FROM products ORDER BY 1",
        "MATCH (p:Product) WHERE NOT p:Placeholder RETURN p.id, p.category, p.price ORDER BY p.id",
    ),
    (
        "SELECT id, status::text, customer_id, required_on::text FROM orders ORDER BY 1",
        "MATCH (o:Order)-[:PLACED_BY]->(c:Customer) RETURN o.id, o.status, c.id, toString(o.required_on) ORDER BY o.id",
    ),
    (
        "SELECT order_id, line_no, product_id, quantity, discount::text FROM order_items ORDER BY 1, 2",
        "MATCH (o:Order)-[r:HAS]->(p:Product) RETURN o.id, r.line_no, p.id, r.quantity, r.discount ORDER BY o.id, r.line_no",
    ),
    ("SELECT 0", "MATCH (n:Placeholder) RETURN count(n)"),
]


def traffic(url: str, seed: random.Random, count: int) -> None:
    """Random changes of the shop's tables."""
    order = "(SELECT id FROM orders ORDER BY random() LIMIT 1)"
    customer = "(SELECT id FROM customers ORDER BY random() LIMIT 1)"
    product = "(SELECT id FROM products ORDER BY random() LIMIT 1)"
    item = "(SELECT order_id, line_no FROM order_items ORDER BY random() LIMIT 1)"
    statements = [
        "INSERT INTO customers (email, first_name, last_name, city) VALUES (gen_random_uuid()::text, 'A', 'B', 'Oslo')",
        f"UPDATE customers SET city = CASE WHEN city IS NULL THEN 'Rome' END WHERE id = {customer}",
        "INSERT INTO products (sku, name, category, price) VALUES (gen_random_uuid(), 'x', 'bike', round(random()::numeric * 100, 2))",
        f"UPDATE products SET price = price + 1 WHERE id = {product}",
        *[f"INSERT INTO orders (customer_id, required_on) SELECT {customer}, '2026-02-03' WHERE {customer} IS NOT NULL"] * 2,
        f"UPDATE orders SET customer_id = {customer}, status = 'paid' WHERE id = {order}",
        *[f"INSERT INTO order_items SELECT o, (random() * 1e9)::int, p, 2, 9.99, 0.05 FROM (SELECT {order} o, {product} p) x WHERE o + p > 0"] * 3,
        f"UPDATE order_items SET product_id = {product}, quantity = 7 WHERE (order_id, line_no) = {item}",
        f"UPDATE order_items SET line_no = (random() * 1e9)::int WHERE (order_id, line_no) = {item}",
        f"DELETE FROM order_items WHERE (order_id, line_no) = {item}",
        f"WITH gone AS (SELECT {order} id), items AS (DELETE FROM order_items USING gone WHERE order_id = gone.id) SELECT 1",
        "DELETE FROM orders WHERE id IN (SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM order_items WHERE order_id = o.id) LIMIT 1)",
        "DELETE FROM customers WHERE id IN (SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders WHERE customer_id = c.id) LIMIT 1)",
    ]  # fmt: skip
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(count):
            connection.execute(seed.choice(statements).encode())


def publish(url: str, kafka: str, registry: str, topic: str) -> dict[int, list[Any]]:
    """The business events of the orders that are there, each twice; gives what the graph of them holds, by order."""
    schema_id = register(registry, f"{topic}-value", _PLACED)
    parsed = fastavro.parse_schema(_PLACED)
    producer = Producer({"bootstrap.servers": kafka})
    found: dict[int, list[Any]] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        orders = connection.execute(
            "SELECT o.id, c.id, c.city FROM orders o JOIN customers c ON c.id = customer_id"
        ).fetchall()
        for order, customer, city in orders:
            items = connection.execute(_ITEMS, (order,)).fetchall()
            names = ("line_no", "product_id", "quantity", "unit_price", "discount", "amount")
            lines = [dict(zip(names, item, strict=True)) for item in items]
            total = sum((line["amount"] for line in lines), start=Decimal(0))
            person = {
                "customer_id": customer,
                "email": "e",
                "first_name": "A",
                "last_name": "B",
                "city": city,
            }
            out = io.BytesIO()
            out.write(b"\0" + schema_id.to_bytes(4, "big"))
            event = {
                "order_id": order,
                "customer": person,
                "total": total,
                "currency": "EUR",
                "placed_at": 0,
                "lines": lines,
            }
            fastavro.schemaless_writer(out, parsed, event)
            for _ in range(2):
                producer.produce(
                    topic, out.getvalue(), str(order), headers=[("ce_id", f"e-{order}".encode())]
                )
            found[order] = [
                f"{total:.2f}",
                f"e-{order}",
                customer,
                sorted([line["line_no"], line["product_id"], f"{line['amount']:.2f}"] for line in lines),
            ]
    assert producer.flush(60) == 0
    return found


@pytest.fixture
def ask(neo4j: Neo4jServer) -> Iterator[Asking]:
    """Asks the server, whose graph is empty."""
    with closing(Asking(neo4j.url)) as asking:
        asking.clear()
        yield asking


@pytest.mark.turns
@pytest.mark.timeout(600)
def test_the_shop_s_graph_is_what_sql_says(
    pg_database: str,
    neo4j: Neo4jServer,
    ask: Asking,
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    tmp_path: Path,
) -> None:
    source = random.Random(random_seed())
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute((_ROOT / "examples/shop/tidings_shop/schema.sql").read_bytes())
    traffic(pg_database, source, 150)

    def example(name: str) -> dict[str, str]:
        text = (_EXAMPLES / f"{name}.json").read_text("utf-8").replace("shop.", f"{unique_name}.")
        config: dict[str, str] = json.loads(text)
        logins = [key for key in config if key.startswith("neo4j.authentication.")]
        return {key: value for key, value in config.items() if key not in logins} | {
            "neo4j.uri": neo4j.url,
            "neo4j.authentication.type": "NONE",
        }

    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": registry_url,
    }
    connectors = {
        unique_name: capture_config(pg_database, unique_name),
        f"{unique_name}-tables": example("tables") | {"neo4j.batch-size": "30"},
        f"{unique_name}-events": example("orders-placed") | avro,
    }

    def differences() -> list[str]:
        with psycopg.connect(pg_database, autocommit=True) as connection:
            return [
                statement
                for query, statement in _SAME
                if [list(row) for row in connection.execute(query.encode()).fetchall()] != ask(statement)
            ]

    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        put_connectors(worker, connectors)
        wait_for("the first orders", lambda: ask("MATCH (o:Order) RETURN count(o) > 0") == [[True]], 60)
        traffic(pg_database, source, 100)
        worker.kill()
        worker = workers.start(properties)
        traffic(pg_database, source, 100)
        placed = publish(pg_database, kafka_bootstrap, registry_url, f"{unique_name}.order-placed.v2")
        try:
            wait_for("the graph to be the tables", lambda: not differences(), 120)
        finally:
            print(differences(), worker.request("GET", f"/connectors/{unique_name}-tables/status"))

        def graph_of_events() -> dict[int, list[Any]]:
            rows = ask(
                "MATCH (b:Buyer)-[:PLACED]->(o:PlacedOrder) OPTIONAL MATCH (o)-[r:OF]->(a:Article)"
                " WITH o, b, [x IN collect([r.line, a.id, r.amount]) WHERE x[0] IS NOT NULL] AS lines"
                " RETURN o.id, o.total, o.event, b.id, lines"
            )
            return {row[0]: [*row[1:4], sorted(row[4])] for row in rows}

        wait_for("the graph to be the events", lambda: graph_of_events() == placed, 60)
        stop_connectors(worker, connectors)
