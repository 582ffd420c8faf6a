"""`tidings sinks rebuild`: the example's graph of events, from zero beside the live one, switched over while somebody asks, killed at
each step; and what of labels can be told from a connector's options."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from graph_parts import Asking
from rebuild_parts import Events, Place, looking, status_of

from tidings_sinks.errors import RebuildError
from tidings_sinks.graph import options as names
from tidings_sinks.graph.versions import _labels_of, _with_labels
from tidings_stack.capture import CaptureWorkers
from tidings_stack.neo4j import Neo4jServer
from tidings_stack.waiting import wait_for

NAME = "placed-graph"
SUFFIX = "__placed_graph_v"
LOOK = (
    "OPTIONAL MATCH (m:TidingsReadModel {name: 'placed-graph'}) WITH coalesce(m.suffix, '') AS suffix"
    " MATCH (:$('Buyer' + suffix))-[:PLACED]->(o)-[:OF]->(:$('Article' + suffix)) RETURN count(o)"
)


@pytest.fixture
def events(kafka_bootstrap: str, registry_url: str, unique_name: str) -> Events:
    events = Events(kafka_bootstrap, registry_url, f"{unique_name}.order-placed.v2")
    events.more(30)
    return events


@pytest.fixture
def ask(neo4j: Neo4jServer) -> Iterator[Asking]:
    ask = Asking(neo4j.url)
    ask.clear()
    yield ask
    ask.clear()
    ask.close()


@pytest.fixture
def place(
    neo4j: Neo4jServer,
    ask: Asking,
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    tmp_path: Path,
    events: Events,
) -> Iterator[Place]:
    ask("CREATE CONSTRAINT one_order FOR (o:PlacedOrder) REQUIRE o.id IS UNIQUE")
    ask("CREATE INDEX by_city FOR (b:Buyer) ON (b.city)")
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        place = Place(
            workers, tmp_path, unique_name, registry_url, {"graph-user": "u", "graph-password": "p"}
        )
        place.create(
            NAME, "graph/orders-placed.json", events.topic, neo4j_uri=neo4j.url, neo4j_authentication_type="NONE"
        )  # fmt: skip
        yield place


def labels(ask: Asking) -> set[str]:
    return {label for (label,) in ask("MATCH (n) UNWIND labels(n) AS l RETURN DISTINCT l")}


@pytest.mark.turns
def test_a_graph_is_rebuilt_killed_at_each_step_and_taken_back(
    place: Place, ask: Asking, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for("the first orders", lambda: ask(LOOK) == [[events.last]], 60)
    place.create(
        "others",
        "graph/orders-placed.json",
        events.topic,
        neo4j_uri=ask.url,
        neo4j_authentication_type="NONE",
    )
    assert place.rebuild(NAME) == 1
    assert "others writes Article, Buyer, PlacedOrder as well" in capsys.readouterr().err
    place.worker.request("DELETE", "/connectors/others")
    with looking(lambda: int(ask(LOOK)[0][0]), events, 0.1) as seen:
        place.rebuild_until("rebuild.resumed", NAME)
        place.rebuild_until("rebuild.forgotten", NAME, "--abort")
        assert place.rebuild(NAME, "--abort") == 0
        assert not {label for label in labels(ask) if SUFFIX in label}
        for point in ("prepared", "stopped", "switched", "forgotten", "dropped"):
            place.rebuild_until(f"rebuild.{point}", NAME)
        assert place.rebuild(NAME) == 0
        assert place.names() == {f"{NAME}-v2"}
        assert {label for label in labels(ask) if not label.startswith("Tidings")} == {
            f"{label}{SUFFIX}2" for label in ("Buyer", "PlacedOrder", "Article")
        }
        assert place.rebuild(NAME, "--keep") == 0
        assert place.rebuild(NAME, "--undo") == 0
        assert status_of(place, NAME, capsys)["live"] == 2
        assert place.rebuild(NAME, "--abort") == 0
        assert place.names() == {f"{NAME}-v2"}
    assert len(seen) > 50
    constraints = "SHOW CONSTRAINTS YIELD labelsOrTypes AS l WHERE NOT l[0] STARTS WITH 'Tidings' RETURN l"
    assert ask(constraints) == [[[f"PlacedOrder{SUFFIX}2"]]]
    indexes = "SHOW INDEXES YIELD labelsOrTypes AS l, owningConstraint AS c, properties WHERE c IS NULL AND l IS NOT NULL RETURN l"
    assert ask(indexes) == [[[f"Buyer{SUFFIX}2"]]]


@pytest.mark.parametrize(
    ("option", "text", "wanted"),
    [
        (names.ROW, "(:Order {!id, *, -c}), -[:BY]->(:Customer {!id: c})", "(:Order2 {!id, -c, *}), -[:BY]->(:Customer2 {!id: c})"),
        (names.ROW, "(:A:B {!id})<-[:HAS {!n}]-(:`odd one` {!k})", "(:`odd one2` {!k})-[:HAS {!n, *}]->(:A2:B2 {!id})"),
        (names.PATTERN, "User{!id} BOUGHT{!order} Product{!id: product}", "(:User2 {!id})-[:BOUGHT {!order, *}]->(:Product2 {!id: product})"),
        (names.CYPHER, "MERGE (o:Order {id: event.id, t: '(x:Y {'}) MERGE (o)-[:BY]->(:`C c` {id: 1})", "MERGE (o:Order2 {id: event.id, t: '(x:Y {'}) MERGE (o)-[:BY]->(:`C c2` {id: 1})"),
        (names.CYPHER, "MATCH (o:Order) WHERE o.id = event.id // (a:B)\nSET o += {a: 1}", "MATCH (o:Order2) WHERE o.id = event.id // (a:B)\nSET o += {a: 1}"),
        (names.CYPHER, "MATCH (o:Order) WHERE EXISTS { (o)-[:BY]->(:C {id: 1}) } AND o.a IS NOT NULL RETURN o {.id, b: 1}", "MATCH (o:Order2) WHERE EXISTS { (o)-[:BY]->(:C2 {id: 1}) } AND o.a IS NOT NULL RETURN o {.id, b: 1}"),
        (names.CYPHER, "MATCH (o:Order WHERE o.id = 1) MATCH (o)-[r:R|S*1..3]->(p) DELETE r", "MATCH (o:Order2 WHERE o.id = 1) MATCH (o)-[r:R|S*1..3]->(p) DELETE r"),
    ],
)  # fmt: skip
def test_labels_get_another_name(option: str, text: str, wanted: str) -> None:
    assert _with_labels(f"{option}t", text, lambda label: f"{label}2") == wanted


@pytest.mark.parametrize(
    "text",
    [
        "MERGE (o:Order:Paid {id: 1})",
        "MERGE (o:Order {id: 1}) SET o:Paid",
        "MERGE (o:Order {id: 1}) REMOVE o:Paid",
        "MATCH (o:Order|Offer {id: 1}) DELETE o",
        "MATCH (o:$(event.label) {id: 1}) DELETE o",
        "MATCH (o:Order {id: 1}) WHERE o:Paid DELETE o",
        "MATCH (o IS Order {id: 1}) DELETE o",
        "CREATE (o {id: event.id})",
        "MATCH (o:Order {id: 1}) SET o.a = 1, o:Paid",
        "MATCH (o:Order&!Paid {id: 1}) DELETE o",
        "MATCH (o:Order {id: 1}) SET o:$(event.label)",
        "MATCH (o:Order {id: 1}) CALL (o) { SET o:Paid }",
        "MATCH (o:Order {id: 1}) SET o.n = size([x IN nodes(o) WHERE x:Paid])",
    ],
)
def test_labels_that_cannot_be_told_are_refused(text: str) -> None:
    with pytest.raises(RebuildError, match=r"neo4j\.cypher\.topic\.t"):
        _with_labels(f"{names.CYPHER}t", text, lambda label: f"{label}2")


def test_the_examples_labels_are_known() -> None:
    config = {"tidings.row.topic.o": "(:Order {!id}), -[:BY]->(:Customer {!id: c})", "neo4j.uri": "x:Y"}
    assert _labels_of(config) == {"Order", "Customer"}
