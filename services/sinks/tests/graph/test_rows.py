"""Rows of tables as a graph: nodes, foreign keys, relationships; the end does not depend on the order of topics."""

import os
import random
from typing import Any

import pytest
from graph_parts import TOLERANT, Graph, envelope
from structlog.testing import capture_logs

from tidings_envelope.toast import UNAVAILABLE

ORDERS = {"tidings.row.topic.orders": "(:Order {!id, *, -customer}), -[:BY]->(:Customer {!id: customer})"}
CUSTOMERS = {"tidings.row.topic.customers": "(:Customer {!id, *})"}
LINES = {
    "tidings.row.topic.lines": "(:Order {!id: order})-[:HAS {!order, !line, *, -product}]->(:Product {!id: product})"
}


def write(graph: Graph, topic: str, op: str, row: dict[str, Any], *keys: str) -> None:
    """The envelope of a row, and of a delete the tombstone after it too."""
    key = {name: row[name] for name in keys or ("id",)}
    deleted = op == "d"
    graph.send(topic, key, envelope(op, None if deleted else row, row if deleted else None))
    if deleted:
        graph.send(topic, key, None)


def test_rows_are_nodes_and_foreign_keys_are_relationships(graph: Graph) -> None:
    graph.run(ORDERS | CUSTOMERS)
    write(graph, "orders", "c", {"id": 1, "total": "1.50", "customer": 7})
    write(graph, "orders", "c", {"id": 2, "total": "2.50", "customer": None})
    graph.wait()
    assert graph.nodes("Order", "id", "total", "customer") == [[1, "1.50", None], [2, "2.50", None]]
    assert graph.nodes("Customer", "id") == [], "its own row has not come"
    assert graph.relationships("BY") == [[1, 7]]
    write(graph, "customers", "r", {"id": 7, "name": "Ann"})
    write(graph, "orders", "u", {"id": 1, "total": "1.75", "customer": 8})
    graph.wait()
    assert graph.nodes("Customer", "id", "name") == [[7, "Ann"]]
    assert graph.relationships("BY") == [[1, 8]]
    write(graph, "orders", "u", {"id": 1, "total": None, "customer": None})
    graph.wait()
    assert graph.ask("MATCH (c:Customer) RETURN c.id") == [[7]], "nothing tells of 8 any more"
    assert graph.nodes("Order", "id", "total") == [[1, None], [2, "2.50"]]


def test_a_row_that_others_refer_to_goes_when_the_last_of_them_does(graph: Graph) -> None:
    graph.run(ORDERS | CUSTOMERS)
    write(graph, "customers", "c", {"id": 7, "name": "Ann"})
    write(graph, "orders", "c", {"id": 1, "customer": 7})
    graph.wait()
    write(graph, "customers", "d", {"id": 7})
    graph.wait()
    assert graph.ask("MATCH (c:Customer) RETURN properties(c), labels(c)") == [
        [{"id": 7}, ["Customer", "Placeholder"]]
    ]
    write(graph, "customers", "c", {"id": 7, "name": "Bob"})
    graph.wait()
    assert graph.relationships("BY") == [[1, 7]], "the relationship is the order's"
    write(graph, "customers", "d", {"id": 7})
    write(graph, "orders", "d", {"id": 1})
    graph.wait()
    assert graph.ask("MATCH (n) WHERE NOT n:TidingsPosition RETURN n") == []


def test_a_row_that_comes_and_goes_and_comes_in_one_batch(graph: Graph) -> None:
    for op, name in (("c", "a"), ("d", ""), ("c", "b"), ("d", ""), ("c", "c"), ("u", "d")):
        write(graph, "customers", op, {"id": 1, "name": name})
    for op in "cdcd":
        write(graph, "customers", op, {"id": 2, "name": "x"})
    graph.run(CUSTOMERS)
    graph.wait()
    assert graph.nodes("Customer", "id", "name") == [[1, "d"]]


def test_rows_are_relationships(graph: Graph) -> None:
    graph.run(LINES)
    write(graph, "lines", "c", {"order": 1, "line": 1, "product": 5, "count": 2}, "order", "line")
    write(graph, "lines", "c", {"order": 1, "line": 2, "product": 5, "count": 3}, "order", "line")
    graph.wait()
    found = "MATCH (o:Order)-[r:HAS]->(p:Product) RETURN o.id, r.line, r.count, p.id ORDER BY r.line"
    assert graph.ask(found) == [[1, 1, 2, 5], [1, 2, 3, 5]]
    write(graph, "lines", "u", {"order": 1, "line": 1, "product": 6, "count": 4}, "order", "line")
    write(graph, "lines", "u", {"order": 1, "line": 2, "product": UNAVAILABLE, "count": 9}, "order", "line")
    graph.wait()
    assert graph.ask(found) == [[1, 1, 4, 6], [1, 2, 9, 5]]
    write(graph, "lines", "d", {"order": 1, "line": 1}, "order", "line")
    write(graph, "lines", "u", {"order": 1, "line": 2, "product": None, "count": 9}, "order", "line")
    graph.wait()
    assert graph.ask("MATCH (n) WHERE NOT n:TidingsPosition RETURN n") == []


def test_what_was_not_sent_stays(graph: Graph) -> None:
    graph.run(ORDERS)
    write(graph, "orders", "c", {"id": 1, "big": "long", "total": "1", "customer": "ann"})
    graph.wait()
    write(graph, "orders", "u", {"id": 1, "big": UNAVAILABLE, "total": "2", "customer": UNAVAILABLE})
    graph.wait()
    write(graph, "orders", "u", {"id": 1, "big": "other", "total": "3", "customer": "bob"})
    write(graph, "orders", "u", {"id": 1, "big": UNAVAILABLE, "total": "4", "customer": UNAVAILABLE})
    write(graph, "orders", "c", {"id": 2, "big": UNAVAILABLE, "total": "1", "customer": None})
    graph.wait()
    assert graph.nodes("Order", "id", "big", "total") == [[1, "other", "4"], [2, None, "1"]]
    assert graph.relationships("BY") == [[1, "bob"]]


def test_a_key_that_changes_is_another_node(graph: Graph) -> None:
    graph.run(ORDERS)
    write(graph, "orders", "c", {"id": 1, "total": "1", "customer": 7})
    write(graph, "orders", "d", {"id": 1, "total": "1", "customer": 7})
    write(graph, "orders", "c", {"id": 2, "total": "1", "customer": 7})
    graph.wait()
    assert graph.nodes("Order", "id") == [[2]]
    assert graph.relationships("BY") == [[2, 7]]


def test_flat_records_and_tombstones(graph: Graph) -> None:
    """As `ExtractNewRecordState` makes them, and with a key that is no struct."""
    graph.run(CUSTOMERS)
    graph.send("customers", 1, {"id": 1, "name": "Ann"})
    graph.send("customers", {"id": 2}, {"id": 2, "name": "Bob"})
    graph.wait()
    graph.send("customers", 1, None)
    graph.wait()
    assert graph.nodes("Customer", "id", "name") == [[2, "Bob"]]


def test_bad_records_are_letters_and_the_rest_is_written(graph: Graph) -> None:
    graph.run(CUSTOMERS | ORDERS, **{name.replace(".", "_"): text for name, text in TOLERANT.items()})
    write(graph, "customers", "c", {"id": 1, "name": "a"})
    graph.send("customers", None, {"name": "no key"})
    graph.send("customers", {"id": 2}, "no fields")
    graph.send("customers", {"id": 3}, envelope("t"))
    graph.send("customers", {"id": 4}, {"id": 4, "number": 2**63})
    graph.send("customers", {"id": 5}, {"id": [5]})
    write(graph, "customers", "c", {"id": 6, "name": "b"})
    write(graph, "customers", "c", {"id": 7, "": "no property is called so"})
    graph.wait()
    assert graph.nodes("Customer", "id", "name") == [[1, "a"], [6, "b"]]
    assert len(graph.letters()) == 6


def test_what_the_server_refuses_is_found_and_the_rest_is_written(graph: Graph) -> None:
    """Neo4j has no savepoints: halves of the batch are transactions of their own."""
    graph.ask("CREATE CONSTRAINT FOR (n:Customer) REQUIRE n.mail IS UNIQUE")
    for number in range(1, 21):
        write(
            graph, "customers", "c", {"id": number, "mail": "same" if number in (3, 4, 17) else str(number)}
        )
    graph.run(CUSTOMERS, **{name.replace(".", "_"): text for name, text in TOLERANT.items()})
    graph.wait()
    assert [row[0] for row in graph.nodes("Customer", "id")] == [n for n in range(1, 21) if n not in (4, 17)]
    assert len(graph.letters()) == 2
    ((offset,),) = graph.ask("MATCH (p:TidingsPosition {topic: 'customers'}) RETURN p.offset")
    assert offset == 19


def test_without_letters_a_bad_record_ends_the_task_and_names_no_value(graph: Graph) -> None:
    graph.ask("CREATE CONSTRAINT FOR (n:Customer) REQUIRE n.mail IS UNIQUE")
    graph.run(CUSTOMERS)
    write(graph, "customers", "c", {"id": 1, "mail": "secret"})
    write(graph, "customers", "c", {"id": 2, "mail": "secret"})
    with pytest.raises(AssertionError, match="the task failed"):
        graph.wait()
    assert "ConstraintValidationFailed" in str(graph.worker.error)
    assert "offset 1" in str(graph.worker.error)
    assert "secret" not in str(graph.worker.error)
    assert graph.nodes("Customer", "id") == [[1]]


def test_business_events_by_id_and_by_subject(graph: Graph) -> None:
    topic = "shop.order-placed.v1"
    graph.run({f"tidings.row.topic.{topic}": "(:OrderPlaced {!id: __header.ce_id, subject: __key, total})"})

    def send(event: str, subject: str, total: str, **more: str) -> None:
        attributes = {"ce_id": event, "ce_subject": subject, **more}
        headers = [(name, text.encode()) for name, text in attributes.items()]
        graph.send(topic, subject, {"order_id": 1, "total": total}, headers=headers)

    with capture_logs() as logs:
        send("11111111-0000-0000-0000-000000000001", "order-1", "1.00")
        send("11111111-0000-0000-0000-000000000001", "order-1", "1.00")
        send("11111111-0000-0000-0000-000000000002", "order-2", "2.00", ce_deprecated="true")
        send("11111111-0000-0000-0000-000000000003", "order-2", "2.00", ce_deprecated="true")
        graph.wait()
    assert [row[1:] for row in graph.nodes("OrderPlaced", "id", "subject", "total")] == [
        ["order-1", "1.00"],
        ["order-2", "2.00"],
        ["order-2", "2.00"],
    ]
    assert sum("deprecated" in line["event"] for line in logs) == 1


@pytest.mark.parametrize("tasks", ["1", "2"])
def test_any_order_of_topics_ends_in_the_same_graph(graph: Graph, tasks: str) -> None:
    """Random changes of two tables that refer to one another, whose topics come in turns of any length, or at the same time."""
    seed = int(os.environ.get("TIDINGS_SEED", "") or random.SystemRandom().randrange(10**6))
    print(f"TIDINGS_SEED={seed}")
    source = random.Random(seed)
    customers: dict[int, str] = {}
    orders: dict[int, int | None] = {}
    streams: dict[str, list[tuple[str, dict[str, Any]]]] = {"customers": [], "orders": []}
    for number in range(150):
        match source.choice(["c", "c", "o", "o", "dc", "do"]):
            case "c":
                key = source.randrange(5)
                streams["customers"].append(
                    ("u" if key in customers else "c", {"id": key, "name": str(number)})
                )
                customers[key] = str(number)
            case "o" if customers:
                key, customer = source.randrange(8), source.choice([None, *customers])
                streams["orders"].append(("u" if key in orders else "c", {"id": key, "customer": customer}))
                orders[key] = customer
            case "do" if orders:
                key = source.choice(list(orders))
                del orders[key]
                streams["orders"].append(("d", {"id": key}))
            case "dc" if customers:
                key = source.choice(list(customers))
                for order in [order for order, customer in orders.items() if customer == key]:
                    del orders[order]
                    streams["orders"].append(("d", {"id": order}))
                del customers[key]
                streams["customers"].append(("d", {"id": key}))
    graph.run(ORDERS | CUSTOMERS, tasks_max=tasks)
    while any(streams.values()):
        topic = source.choice([topic for topic, left in streams.items() if left])
        for _ in range(min(source.randrange(1, 12), len(streams[topic]))):
            write(graph, topic, *streams[topic].pop(0))
        if source.random() < 0.3:
            graph.wait()
    graph.wait()
    assert graph.nodes("Customer", "id", "name") == sorted([key, name] for key, name in customers.items())
    assert [row[0] for row in graph.nodes("Order", "id")] == sorted(orders)
    assert graph.relationships("BY") == sorted([key, to] for key, to in orders.items() if to is not None)
    assert graph.ask("MATCH (n:Placeholder) RETURN count(n)") == [[0]]


def test_the_lag_since_the_commit_is_over_when_a_row_is_written(graph: Graph) -> None:
    """And not only when the group has committed, a minute later."""
    graph.worker.flush_ms = 3_600_000
    graph.run({"tidings.row.topic.t": "(:Late {!id, *})"})
    graph.send(
        "t", {"id": 1}, {**envelope("c", {"id": 1}), "source": {"table": "t", "ts_ms": 1_600_000_000_000}}
    )
    graph.worker.wait_for(lambda: graph.nodes("Late", "id") == [[1]], "the node")
    (task,) = graph.worker._tasks
    graph.worker.wait_for(lambda: task.supervision.last.sink.commit_lag_seconds == 0, "no lag")
