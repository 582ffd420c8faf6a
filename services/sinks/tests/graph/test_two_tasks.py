"""Placeholders where two transactions, as two tasks have them, write about one node at the same time: none is left over."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import neo4j
import pytest
from graph_parts import Graph

from tidings_sinks.graph.patterns import parse_row
from tidings_sinks.graph.row_statements import RowStatements, Step
from tidings_sinks.graph.rows import RowChange
from tidings_stack.waiting import wait_for

PRODUCTS = RowStatements(parse_row("(:Product {!id, *})"), "Placeholder")
LINES = RowStatements(
    parse_row("(:Order {!id: order})-[:HAS {!line, *}]->(:Product {!id: product})"), "Placeholder"
)


@pytest.fixture
def sessions(graph: Graph) -> Iterator[tuple[neo4j.Session, neo4j.Session]]:
    """Two sessions of a server whose graph is empty."""
    with (
        closing(neo4j.GraphDatabase.driver(graph.ask.url, auth=None)) as driver,
        driver.session() as one,
        driver.session() as other,
    ):
        yield one, other


def deletes(statements: RowStatements, *keys: dict[str, Any]) -> list[Step]:
    """What deletes rows."""
    return list(
        statements.deletes([RowChange(None, tuple(key.values()), key, deletes=True) for key in keys])  # type: ignore[arg-type]
    )


def run(transaction: neo4j.Transaction | neo4j.ManagedTransaction, steps: list[Step]) -> None:
    for step in steps:
        transaction.run(step.statement, {"rows": step.events}).consume()


def start(session: neo4j.Session, steps: list[Step]) -> threading.Thread:
    """Write in a thread, again where the server finds a deadlock, as a task does."""
    thread = threading.Thread(
        target=lambda: session.execute_write(lambda transaction: run(transaction, steps)), daemon=True
    )
    thread.start()
    return thread


def waiting(graph: Graph) -> bool:
    """Whether some transaction waits for a lock."""
    return graph.ask("SHOW TRANSACTIONS YIELD status WHERE status STARTS WITH 'Blocked' RETURN count(*)") != [
        [0]
    ]


@pytest.mark.parametrize("relationships", [2, 200], ids=["few", "many"])
def test_two_halves_of_the_relationships_go(
    graph: Graph, sessions: tuple[neo4j.Session, neo4j.Session], relationships: int
) -> None:
    """Each still sees the other half; nodes of many relationships are locked by parts."""
    graph.ask(
        "CREATE (p:Product:Placeholder {id: 7}) WITH p UNWIND range(1, $many) AS line CREATE (:Order {id: line})-[:HAS {line: line}]->(p)",
        many=relationships,
    )
    first = sessions[0].begin_transaction()
    half = relationships // 2
    run(first, deletes(LINES, *[{"line": number} for number in range(1, half + 1)]))
    rest = deletes(LINES, *[{"line": number} for number in range(half + 1, relationships + 1)])
    thread = start(sessions[1], rest)
    wait_for("the second transaction", lambda: waiting(graph) or not thread.is_alive(), 30)
    first.commit()
    thread.join(30)
    assert not thread.is_alive()
    assert graph.ask("MATCH (n:Placeholder) RETURN n.id") == []


def test_a_row_goes_and_comes_with_its_relationship_in_one_transaction(
    graph: Graph, sessions: tuple[neo4j.Session, neo4j.Session]
) -> None:
    """The placeholder that the row leaves is deleted with its relationship, and the row is a new node."""
    graph.ask("CREATE CONSTRAINT FOR (p:Product) REQUIRE p.id IS UNIQUE")
    graph.ask("CREATE (:Order {id: 1})-[:HAS {line: 1}]->(:Product {id: 7, name: 'old'})")
    again = RowChange(None, (7,), {"id": 7}, properties={"name": "new"})  # type: ignore[arg-type]
    steps = deletes(PRODUCTS, {"id": 7}) + deletes(LINES, {"line": 1}) + list(PRODUCTS.writes([again]))
    sessions[0].execute_write(lambda transaction: run(transaction, steps))
    assert graph.ask("MATCH (p:Product) RETURN labels(p), p.name") == [[["Product"], "new"]]
