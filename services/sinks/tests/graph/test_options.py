"""Each option of Neo4j's connector is obeyed, or refused by its name and with a reason."""

from pathlib import Path

import pytest

from tidings_sinks.graph.connector import Neo4jSink
from tidings_sinks.graph.settings import Cud, Cypher, Pattern, Row, read_settings

CONFIG = {
    "connector.class": Neo4jSink.class_name,
    "topics": "t",
    "neo4j.uri": "neo4j://host:7687",
    "neo4j.authentication.type": "NONE",
    "neo4j.cypher.topic.t": "MERGE (:N {id: event.id})",
}


def test_nothing_is_wrong_with_it() -> None:
    assert Neo4jSink().problems(CONFIG) == {}


def test_a_statement_needs_a_name_for_something() -> None:
    none = {f"neo4j.cypher.bind-{what}-as": "" for what in ("timestamp", "header", "key", "value")}
    found = Neo4jSink().problems(CONFIG | none | {"neo4j.cypher.bind-value-as-event": "false"})
    assert "At least one variable binding" in found["neo4j.cypher.bind-value-as-event"][0]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("neo4j.uri", "http://host", "URIs are"),
        ("neo4j.uri", "neo4j://user:word@host", "A login belongs into"),
        ("neo4j.uri", "", "required"),
        ("neo4j.batch-size", "0", "at least 1"),
        ("neo4j.batch-timeout", "5", "A duration is expected"),
        ("neo4j.max-retry-time", "30", "A duration is expected"),
        ("neo4j.security.encrypted", "perhaps", "true or false"),
        ("neo4j.security.trust-strategy", "TRUST_ME", "must be one of"),
        ("neo4j.security.cert-files", "/no/such/file", "There is no file /no/such/file"),
        ("neo4j.authentication.type", "MAGIC", "must be one of"),
        ("neo4j.authentication.type", "BASIC", "neo4j.authentication.basic.username is needed"),
        ("neo4j.authentication.type", "BEARER", "neo4j.authentication.bearer.token is needed"),
        ("neo4j.authentication.type", "KERBEROS", "neo4j.authentication.kerberos.ticket is needed"),
        ("neo4j.authentication.type", "CUSTOM", "neo4j.authentication.custom.scheme is needed"),
        ("neo4j.cypher.topic.t", " ", "A statement is expected"),
        ("neo4j.pattern.topic.t", "(:N)", "At character 4"),
        ("neo4j.pattern.topic.t", "(:N {!id})", "two strategies"),
        ("neo4j.cypher.topic.u", "RETURN 1", "not among topics"),
        ("neo4j.cud.topics", "t", "two strategies"),
        ("topics", "t,u", "Topic u has no strategy"),
        ("tidings.row.topic.t", "(:N)", "At character 4"),
        ("tidings.documents", "xml", "must be one of"),
        ("neo4j.cdc.source-id.topics", "t", "not implemented: changes that Neo4j's own change data capture"),
        ("neo4j.cdc.schema.topics", "t", "not implemented"),
        ("neo4j.batch-parallelize", "true", "not an option of this connector"),
    ],
)
def test_what_is_wrong_is_told(name: str, value: str, reason: str) -> None:
    found = Neo4jSink().problems(CONFIG | {name: value})
    assert reason in "; ".join(text for texts in found.values() for text in texts)


def test_options_of_change_data_capture_that_say_nothing_are_taken() -> None:
    assert Neo4jSink().problems(CONFIG | {"neo4j.cdc.schema.topics": ""}) == {}


def test_what_a_configuration_says(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    config = CONFIG | {
        "topics": "t,u,v,w",
        "neo4j.uri": "bolt://a:1, bolt://b:2",
        "neo4j.authentication.type": "basic",
        "neo4j.authentication.basic.username": "neo4j",
        "neo4j.authentication.basic.password": "word",
        "neo4j.authentication.basic.realm": "native",
        "neo4j.pattern.topic.u": "(:N {!id})",
        "neo4j.cud.topics": "v",
        "tidings.row.topic.w": "(:N {!id})",
        "neo4j.security.encrypted": "true",
        "neo4j.security.trust-strategy": "TRUST_CUSTOM_CA_SIGNED_CERTIFICATES",
        "neo4j.security.cert-files": str(file),
        "neo4j.security.hostname-verification-enabled": "false",
        "neo4j.max-retry-time": "1m30s",
        "neo4j.pool.idle-time-before-connection-test": "1500ms",
        "neo4j.cypher.bind-key-as": "",
    }
    assert Neo4jSink().problems(config) == {}
    found = read_settings("c", config)
    assert found.uris == ("bolt://a:1", "bolt://b:2")
    assert found.login.principal == "neo4j"
    assert "word" not in repr(found)
    assert {topic: type(strategy) for topic, strategy in found.strategies.items()} == {
        "t": Cypher,
        "u": Pattern,
        "v": Cud,
        "w": Row,
    }
    assert found.retry_seconds == 90
    assert found.idle_seconds == 1.5
    assert (found.cypher_binds.key, found.cypher_binds.value) == ("", "__value")
    assert found.group == "connect-c"
