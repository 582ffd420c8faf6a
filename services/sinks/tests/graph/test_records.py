"""Statements of Cypher, patterns and the CUD format, as Neo4j's own connector has them."""

from typing import Any

import pytest
from graph_parts import TOLERANT, Graph

from tidings_sinks.errors import TargetError

TOLERATED = {name.replace(".", "_"): text for name, text in TOLERANT.items()}
PLACED = {
    "neo4j.cypher.topic.placed": "MERGE (o:Order {id: event.id}) SET o.total = event.total, o.by = __key"
}


def test_a_statement_knows_the_parts_of_a_record(graph: Graph) -> None:
    text = (
        "MERGE (n:N {id: __value.id}) SET n.same = event.id = __value.id, n.key = __key.k, n.header = __header.h,"
        " n.time = __timestamp WITH n, event UNWIND event.lines AS line MERGE (n)-[:HAS]->(:L {no: line.no})"
    )
    graph.run({"neo4j.cypher.topic.t": text})
    graph.send("t", {"k": "x"}, {"id": 1, "lines": [{"no": 1}, {"no": 2}]}, headers=[("h", b'"y"')])
    graph.wait()
    assert graph.nodes("N", "id", "same", "key", "header") == [[1, True, "x", "y"]]
    assert graph.relationships("HAS", end="no") == [[1, 1], [1, 2]]


def test_other_names_and_none(graph: Graph) -> None:
    more = {
        "neo4j.cypher.bind-value-as": "row",
        "neo4j.cypher.bind-value-as-event": "false",
        "neo4j.cypher.bind-key-as": "",
    }
    graph.run({"neo4j.cypher.topic.t": "MERGE (:N {id: row.id})", **more})
    graph.send("t", "k", {"id": 1})
    graph.wait()
    assert graph.nodes("N", "id") == [[1]]


def test_records_of_several_topics_keep_the_order_in_which_they_come(graph: Graph) -> None:
    topics = {
        "neo4j.cypher.topic.a": "MERGE (n:N {id: event.id}) SET n.seen = coalesce(n.seen, []) + event.n",
        "neo4j.cypher.topic.b": "MATCH (n:N {id: event.id}) DELETE n",
        "neo4j.pattern.topic.c": "(:N {!id, name})",
    }
    graph.run({**topics, "neo4j.pattern.merge-node-properties": "true", "neo4j.max-batched-queries": "2"})
    for number in range(3):
        graph.send("a", None, {"id": 1, "n": number})
        graph.wait()
    graph.send("c", None, {"id": 1, "name": "x"})
    graph.wait()
    assert graph.nodes("N", "id", "seen", "name") == [[1, [0, 1, 2], "x"]]
    graph.send("b", None, {"id": 1})
    graph.wait()
    assert graph.nodes("N", "id") == []


def test_a_statement_that_cannot_be_read_ends_the_task_before_a_record_does(graph: Graph) -> None:
    graph.send("t", None, {"id": 1})
    graph.run({"neo4j.cypher.topic.t": "MERG (n:N {id: event.id})"}, **TOLERATED)
    with pytest.raises(AssertionError, match="the task failed"):
        graph.wait()
    assert isinstance(graph.worker.error, TargetError)
    assert "neo4j.cypher.topic.t: Invalid input 'MERG'" in str(graph.worker.error)
    assert graph.letters() == []


def test_a_record_that_a_statement_fails_for_is_a_letter(graph: Graph) -> None:
    graph.run({"neo4j.cypher.topic.t": "MERGE (n:N {id: event.id}) SET n.day = date(event.day)"}, **TOLERATED)
    for number, day in ((1, "2026-01-01"), (2, "no day"), (3, "2026-01-03")):
        graph.send("t", None, {"id": number, "day": day})
    graph.wait()
    assert [row[0] for row in graph.nodes("N", "id")] == [1, 3]
    assert graph.letters() == [b'{"id": 2, "day": "no day"}']


def test_a_pattern_of_nodes(graph: Graph) -> None:
    graph.run({"neo4j.pattern.topic.t": "(:User {!id, *, -password, -address.zip})"})
    graph.send(
        "t", {"id": 1}, {"id": 1, "name": "a", "password": "p", "address": {"city": "Oslo", "zip": "1"}}
    )
    graph.send("t", {"id": 2}, {"id": 2})
    graph.wait()
    assert graph.ask("MATCH (n:User) RETURN properties(n) ORDER BY n.id") == [
        [{"id": 1, "name": "a", "address.city": "Oslo"}],
        [{"id": 2}],
    ]
    graph.send("t", {"id": 1}, {"id": 1, "age": 3})
    graph.send("t", {"id": 2}, None)
    graph.wait()
    assert graph.ask("MATCH (n:User) RETURN properties(n)") == [[{"id": 1, "age": 3}]], "they are replaced"


def test_a_pattern_of_relationships(graph: Graph) -> None:
    pattern = "(:User {!id: user.id, name: user.name})-[:BOUGHT {!order, amount}]->(:Product {!id: product})"
    options = {
        "neo4j.pattern.merge-node-properties": "true",
        "neo4j.pattern.merge-relationship-properties": "true",
    }
    graph.run({"neo4j.pattern.topic.t": pattern, **options}, **TOLERATED)
    graph.ask("CREATE (:User {id: 1, age: 30})")
    value: dict[str, Any] = {"user": {"id": 1, "name": "Ann"}, "product": 5, "order": 9, "amount": 2}
    graph.send("t", {"user": {"id": 1}, "product": 5, "order": 9}, value)
    graph.send("t", None, {**value, "product": None})
    graph.wait()
    found = "MATCH (u:User)-[r:BOUGHT]->(p:Product) RETURN properties(u), properties(r), p.id"
    assert graph.ask(found) == [[{"id": 1, "age": 30, "name": "Ann"}, {"order": 9, "amount": 2}, 5]]
    assert len(graph.letters()) == 1
    graph.send("t", {"user": {"id": 1}, "product": 5, "order": 9}, None)
    graph.wait()
    assert graph.ask(found) == []
    assert graph.nodes("User", "id") == [[1]]


def test_keys_from_the_record_s_key_and_its_headers(graph: Graph) -> None:
    graph.run({"neo4j.pattern.topic.t": "Event{!id: __header.ce_id, subject: __key, at: __timestamp, *}"})
    graph.send("t", "order-1", {"total": 3}, headers=[("ce_id", b"e1")])
    graph.wait()
    ((properties,),) = graph.ask("MATCH (n:Event) RETURN properties(n)")
    assert properties.pop("at").to_native().tzinfo is not None
    assert properties == {"id": "e1", "subject": "order-1", "total": 3}


def test_the_cud_format(graph: Graph) -> None:
    node = {"type": "node", "labels": ["A", "B c"]}
    ends = {
        "from": {"labels": ["A"], "ids": {"id": 1}},
        "to": {"labels": ["C"], "ids": {"id": 9}, "op": "merge"},
        "type": "RELATIONSHIP",
        "rel_type": "TO",
    }
    graph.config["neo4j.cud.topics"] = "t"
    graph.start("t", **TOLERATED)
    for value in (
        {**node, "op": "CREATE", "properties": {"id": 1, "x": 1}},
        {**node, "op": "merge", "ids": {"id": 2}, "properties": {"y": 2}},
        {**node, "op": "update", "ids": {"id": 1}, "properties": {"x": None, "z": 3}},
        {**ends, "op": "create", "properties": {"n": 1}},
        {**ends, "op": "merge", "ids": {"n": 2}, "properties": {}},
        {
            **ends,
            "op": "update",
            "to": {"labels": ["C"], "ids": {"id": 9}},
            "ids": {"n": 1},
            "properties": {"m": 5},
        },
        {**ends, "op": "delete", "to": {"labels": ["C"], "ids": {"id": 9}}, "ids": {"n": 2}},
        {**node, "op": "delete", "ids": {"id": 2}, "detach": True},
        {**node, "op": "vanish"},
        {**node, "op": "merge", "properties": {}},
        {**node, "op": "merge", "ids": {}, "properties": {}},
        {**node, "op": "create", "properties": {}, "colour": 1},
        {**ends, "op": "delete"},
        {**node, "op": "merge", "ids": {"_id": 2}, "properties": {}},
        "text",
    ):
        graph.send("t", None, value)
    graph.wait()
    assert graph.ask("MATCH (n:A:`B c`) RETURN properties(n)") == [[{"id": 1, "z": 3}]]
    assert graph.ask("MATCH (:A)-[r:TO]->(c:C {id: 9}) RETURN properties(r)") == [[{"n": 1, "m": 5}]]
    assert len(graph.letters()) == 7


def test_positions_of_neo4j_s_own_connector_are_gone_on_from(graph: Graph) -> None:
    for number in range(4):
        graph.send("placed", None, {"id": number, "total": number})
    graph.ask("CREATE (:KafkaOffset {strategy: 'CYPHER', topic: 'placed', partition: 0, offset: 1})")
    graph.run({**PLACED, "neo4j.eos-offset-label": "KafkaOffset"})
    graph.wait()
    assert [row[0] for row in graph.nodes("Order", "id")] == [2, 3]
    assert graph.ask("MATCH (p:KafkaOffset) RETURN p.strategy, p.topic, p.partition, p.offset, p.epoch") == [
        ["CYPHER", "placed", 0, 3, 1]
    ]
    graph.worker.stop()
    graph.worker.reset_offsets()
    graph.worker.resume()
    graph.wait()
    assert [row[0] for row in graph.nodes("Order", "id")] == [0, 1, 2, 3]
