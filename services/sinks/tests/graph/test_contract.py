"""The graph sink keeps the contract of sinks, and its effects are exactly once."""

from collections.abc import Iterator

import pytest
from graph_parts import Asking

from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.graph.connector import Neo4jSink
from tidings_stack.neo4j import Neo4jServer

_STATEMENT = """
MERGE (c:Counter {id: 1}) SET c.count = coalesce(c.count, 0) + 1
CREATE (:Number {number: event.number, place: c.count})
"""


class TestGraph(SinkContract):
    @pytest.fixture
    def case(self, neo4j: Neo4jServer) -> Iterator[SinkCase]:
        ask = Asking(neo4j.url)
        ask.clear()

        def numbers() -> list[int]:
            return [row[0] for row in ask("MATCH (n:Number) RETURN n.number ORDER BY n.place")]

        yield SinkCase(
            connector=Neo4jSink(),
            config={
                "neo4j.uri": neo4j.url,
                "neo4j.authentication.type": "NONE",
                f"neo4j.cypher.topic.{self.topic}": _STATEMENT,
            },
            numbers=numbers,
            repeats=False,
            changed={"neo4j.batch-size": "2"},
            wrong=("tidings.decimals", "rounded"),
        )
        ask.close()
