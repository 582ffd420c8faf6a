"""Documents and nodes: OpenSearch, MongoDB's protocol, and Neo4j."""

from typing import Any

import httpx
from neo4j import GraphDatabase
from pymongo import MongoClient

from sinklab.target import FLAT, TABLES, Rows, Target
from tidings_stack.mongo import FerretServer, MongoServer
from tidings_stack.neo4j import Neo4jServer
from tidings_stack.opensearch import OpenSearchServer
from tidings_stack.postgres import PostgresServer
from tidings_stack.server import Place

_MONGO = "com.mongodb.kafka.connect."


class OpenSearchTarget(Target):
    """Documents in OpenSearch, of flat records."""

    def __init__(self, place: Place) -> None:
        server = OpenSearchServer(place)
        self._url = server.url
        self.serve(server, server.port)

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        assert self.proxy is not None
        return {
            **FLAT,
            "connector.class": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
            "connection.url": f"http://127.0.0.1:{self.proxy.port}",
            "behavior.on.null.values": "delete",
            "key.ignore": "false",
            "retry.backoff.ms": "50",
        }

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        found: Rows = {}
        with httpx.Client(base_url=self._url, timeout=30) as client:
            for table in TABLES:
                index = f"{run}.public.{table}"
                client.post(f"/{index}/_refresh")
                answer = client.post(f"/{index}/_search", json={"size": 10_000})
                if answer.status_code == 200:
                    hits = [hit["_source"] for hit in answer.json()["hits"]["hits"]]
                    found[table] = [(row["id"], row["n"]) for row in hits]
        return found


class MongoTarget(Target):
    """Documents of envelopes in mongo-java-server, which forgets everything when it stops."""

    restarts = False

    def __init__(self, place: Place) -> None:
        server = MongoServer(place)
        self._url = server.url
        self.serve(server, server.port)

    @property
    def heavy(self) -> tuple[str, ...]:
        """See `Target.heavy`."""
        return super().heavy if self.restarts else ("target_forget",)

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        assert self.proxy is not None
        quick = (
            "serverSelectionTimeoutMS=2000&connectTimeoutMS=2000&socketTimeoutMS=4000&directConnection=true"
        )
        return {
            "connector.class": f"{_MONGO}MongoSinkConnector",
            "connection.uri": f"mongodb://127.0.0.1:{self.proxy.port}/?{quick}",
            "database": run,
            "change.data.capture.handler": f"{_MONGO}sink.cdc.debezium.rdbms.postgres.PostgresHandler",
        }

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        with MongoClient[dict[str, Any]](self._url, serverSelectionTimeoutMS=5000) as client:
            return {
                table: [
                    (int(document["_id"]["id"]), int(document["n"]))
                    for document in client[run][f"{run}.public.{table}"].find()
                ]
                for table in TABLES
            }


class FerretTarget(MongoTarget):
    """The same in FerretDB, whose data outlive it."""

    restarts = True

    def __init__(self, place: Place) -> None:
        self._pg = PostgresServer(place, name="ferret-pg")
        self._pg.start()
        server = FerretServer(place, database=self._pg.url)
        self._url = server.url
        self.serve(server, server.port)

    def close(self) -> None:
        """See `Target.close`."""
        super().close()
        self._pg.close()


class GraphTarget(Target):
    """Nodes and relationships in Neo4j, of envelopes.

    A row of items is a relationship from the account of its id to a place of its `n`, which is no row of any table: several
    tasks make, move and delete relationships to one node, which goes with the last of them.
    """

    def __init__(self, place: Place) -> None:
        server = Neo4jServer(place)
        self._url = server.url
        self.serve(server, server.port)

    def connector(self, run: str) -> dict[str, str]:
        """See `Target.connector`."""
        assert self.proxy is not None
        return {
            "connector.class": "org.neo4j.connectors.kafka.sink.Neo4jConnector",
            "neo4j.uri": f"bolt://127.0.0.1:{self.proxy.port}",
            "neo4j.authentication.type": "NONE",
            "neo4j.connection-timeout": "3s",
            "neo4j.max-retry-time": "2s",
            f"tidings.row.topic.{run}.public.accounts": f"(:{run}accounts {{!id, *}})",
            f"tidings.row.topic.{run}.public.orders": f"(:{run}orders {{!id, *}})",
            f"tidings.row.topic.{run}.public.items": f"(:{run}accounts {{!id: id}})-[:{run}items {{!id, n}}]->(:{run}places {{!id: n}})",
        }

    def rows(self, run: str) -> Rows:
        """See `Target.rows`."""
        with GraphDatabase.driver(self._url, auth=None, notifications_min_severity="OFF") as driver:

            def ask(statement: str) -> list[tuple[int, Any]]:
                records, _, _ = driver.execute_query(statement)  # type: ignore[arg-type]
                return [(record[0], record[1]) for record in records]

            found: Rows = {
                table: ask(f"MATCH (x:{run}{table}) WHERE NOT x:Placeholder RETURN x.id, x.n")
                for table in ("accounts", "orders")
            }
            found["items"] = ask(
                f"MATCH (a:{run}accounts)-[r:{run}items]->(b:{run}places) WHERE a.id = r.id AND b.id = r.n RETURN r.id, r.n"
            )
            found["items"] += ask(
                f"MATCH (x:{run}accounts|{run}places) WHERE x:Placeholder AND NOT EXISTS {{(x)--()}}"
                " RETURN x.id, 'a placeholder without relationships'"
            )
        return found
