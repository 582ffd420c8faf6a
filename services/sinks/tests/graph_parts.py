"""What the tests of the graph sink share: a sink on a worker in memory, and what its server holds."""

from collections.abc import Mapping
from typing import Any, Self

from neo4j import GraphDatabase
from sink_targets import Sink

from tidings_connect.testing.memory_worker import MemoryWorker

TOLERANT = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "letters",
}


class Asking:
    """Asks a server: `ask("MATCH (n) RETURN n.id")` gives rows."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._driver = GraphDatabase.driver(url, auth=None, notifications_min_severity="OFF")

    def __call__(self, statement: str, **parameters: Any) -> list[list[Any]]:
        found = self._driver.execute_query(statement, parameters)  # type: ignore[arg-type]
        return [row.values() for row in found.records]

    def clear(self) -> None:
        """Delete everything, constraints and indexes too."""
        self("MATCH (n) DETACH DELETE n")
        for kind, schema in (
            ("CONSTRAINT", "SHOW CONSTRAINTS"),
            ("INDEX", "SHOW INDEXES WHERE type <> 'LOOKUP'"),
        ):
            for name in [row["name"] for row in self._driver.execute_query(schema).records]:  # type: ignore[arg-type]
                self(f"DROP {kind} `{name}` IF EXISTS")

    def close(self) -> None:
        self._driver.close()


class Graph(Sink):
    """A running sink, and its graph."""

    def __init__(self, worker: MemoryWorker, url: str) -> None:
        options = {
            "neo4j.uri": url,
            "neo4j.authentication.type": "NONE",
            "errors.retry.delay.initial.ms": "20",
            "errors.retry.delay.max.ms": "100",
        }
        super().__init__(worker, options)
        self.ask = Asking(url)

    def __enter__(self) -> Self:
        self.ask.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self.ask.close()

    def run(self, topics: Mapping[str, str], **more: str) -> None:
        """Start it with the options of its topics by name; underscores of other names are dots."""
        names = dict.fromkeys(name.split(".topic.", 1)[1] for name in topics if ".topic." in name)
        self.config.update(topics)
        self.start(",".join(names), **more)

    def nodes(self, label: str, *properties: str) -> list[list[Any]]:
        """The properties of all nodes of a label that no placeholder is, in the order of the first."""
        found = self.ask(f"MATCH (n:{label}) WHERE NOT n:Placeholder RETURN properties(n)")
        return sorted([row[0].get(name) for name in properties] for row in found)

    def relationships(self, type_: str, start: str = "id", end: str = "id") -> list[list[Any]]:
        """Key and key of all relationships of a type."""
        return sorted(self.ask(f"MATCH (a)-[r:{type_}]->(b) RETURN a.{start}, b.{end}"))

    def letters(self) -> list[bytes | None]:
        """The values of the dead letters."""
        return [value for _, value, _ in self.worker.kafka.topics.get("letters", [])]


def envelope(op: str, after: Any = None, before: Any = None) -> dict[str, Any]:
    """A Debezium envelope without a schema."""
    return {"before": before, "after": after, "op": op, "source": {"table": "t"}, "ts_ms": 1}
