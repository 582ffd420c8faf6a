"""`tidings doctor` on sinks of a graph. The community server of the tests has no rights that could be missing."""

from diagnosing import Diagnose
from graph_parts import Graph


def test_what_is_wrong_with_a_graph(graph: Graph, diagnose: Diagnose) -> None:
    config = {
        "connector.class": "org.neo4j.connectors.kafka.sink.Neo4jConnector",
        "neo4j.uri": graph.config["neo4j.uri"],
        "neo4j.authentication.type": "NONE",
        "neo4j.pattern.topic.t": "(:User {!id})",
    }
    found = diagnose(config)
    assert set(found) == {"no-constraint"}
    statement = found["no-constraint"].partition(" | ")[2]
    assert graph.ask("SHOW CONSTRAINTS YIELD name RETURN name") == []
    graph.ask(statement)
    assert diagnose(config) == {}
    assert set(diagnose(config | {"neo4j.database": "ofnobody"})) == {"no-database"}
    cypher = {key: text for key, text in config.items() if "pattern" not in key}
    cypher["neo4j.cypher.topic.t"] = "MERGE (u:User {id: event.id}) SETT u.a = 1"
    assert "neo4j.cypher.topic.t" in diagnose(cypher)["statement"]
    assert set(diagnose(config | {"neo4j.uri": "bolt://127.0.0.1:1"})) == {"unreachable"}
