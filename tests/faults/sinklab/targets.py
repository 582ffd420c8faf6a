"""The systems that sinks of the lab write to. A new one is a class like these: some 40 lines."""

from contextlib import closing
from typing import Any, Protocol

import httpx
import psycopg
import pymysql
from faultlab.proxy import Proxy

from tidings_stack.mariadb import MariaDbServer
from tidings_stack.opensearch import OpenSearchServer
from tidings_stack.postgres import PostgresServer
from tidings_stack.server import Place, Server

Rows = dict[str, dict[int, Any]]
"""By table and key."""
TABLES = ("accounts", "orders", "items")
_UPSERT = {
    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
    "insert.mode": "upsert",
    "delete.enabled": "true",
    "primary.key.mode": "record_key",
    "schema.evolution": "basic",
}


class Target(Protocol):
    """A system, behind a proxy that sinks use; who reads it back goes past that."""

    server: Server
    proxy: Proxy

    def connector(self, run: str, prefix: str) -> dict[str, str]:
        """The sink's configuration but for its topics, for a run of its own."""
        ...

    def rows(self, run: str, prefix: str) -> Rows:
        """The value of `n` of each row; nothing of tables that are not there yet."""
        ...


class PostgresTarget:
    """Whole transactions in another PostgreSQL."""

    def __init__(self, place: Place) -> None:
        self.server = PostgresServer(place, name="target")
        self.proxy = Proxy(self.server.port)

    def connector(self, run: str, prefix: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {
            **_UPSERT,
            "connection.url": f"jdbc:postgresql://127.0.0.1:{self.proxy.port}/postgres",
            "connection.username": "postgres",
            "connection.password": self.server.password,
            "collection.name.format": f"{run}_${{source.table}}",
            "tidings.transactions": "source",
            "tidings.transactions.topic": f"{prefix}.transaction",
        }

    def rows(self, run: str, prefix: str) -> Rows:
        """See `Target.rows`."""
        found: Rows = {}
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            for table in TABLES:
                name = f"{run}_{table}"
                if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() != (None,):
                    found[table] = dict(connection.execute(f"SELECT id, n FROM {name}".encode()).fetchall())
        return found


class MariaDbTarget:
    """Rows as they come in MariaDB."""

    def __init__(self, place: Place) -> None:
        self.server = MariaDbServer(place)
        self.proxy = Proxy(self.server.port)

    def connector(self, run: str, prefix: str) -> dict[str, str]:
        """See `Target.connector`."""
        self._ask(f"CREATE DATABASE IF NOT EXISTS {run}", None)
        return {
            **_UPSERT,
            "connection.url": f"jdbc:mariadb://127.0.0.1:{self.proxy.port}/{run}",
            "connection.username": "admin",
            "connection.password": self.server.password,
            "collection.name.format": "${source.table}",
        }

    def rows(self, run: str, prefix: str) -> Rows:
        """See `Target.rows`."""
        there = {name for (name,) in self._ask("SHOW TABLES", run)}
        return {table: dict(self._ask(f"SELECT id, n FROM {table}", run)) for table in there & set(TABLES)}

    def _ask(self, statement: str, database: str | None) -> list[Any]:
        with closing(
            pymysql.connect(
                host="127.0.0.1", port=self.server.port, user="admin", password=self.server.password,
                database=database, autocommit=True,
            )
        ) as connection:  # fmt: skip
            cursor = connection.cursor()
            cursor.execute(statement)
            return list(cursor.fetchall())


class OpenSearchTarget:
    """Documents in OpenSearch."""

    def __init__(self, place: Place) -> None:
        self.server = OpenSearchServer(place)
        self.proxy = Proxy(self.server.port)

    def connector(self, run: str, prefix: str) -> dict[str, str]:
        """See `Target.connector`."""
        return {
            "connector.class": "io.aiven.kafka.connect.opensearch.OpenSearchSinkConnector",
            "connection.url": f"http://127.0.0.1:{self.proxy.port}",
            "behavior.on.null.values": "delete",
            "key.ignore": "false",
            "retry.backoff.ms": "50",
        }

    def rows(self, run: str, prefix: str) -> Rows:
        """See `Target.rows`."""
        found: Rows = {}
        with httpx.Client(base_url=self.server.url, timeout=30) as client:
            for table in TABLES:
                index = f"{prefix}.public.{table}"
                client.post(f"/{index}/_refresh")
                answer = client.post(f"/{index}/_search", json={"size": 10_000})
                if answer.status_code == 200:
                    hits = [hit["_source"] for hit in answer.json()["hits"]["hits"]]
                    found[table] = {row["id"]: row["n"] for row in hits}
        return found


TARGETS: dict[str, type[Target]] = {
    "postgres": PostgresTarget,
    "mariadb": MariaDbTarget,
    "opensearch": OpenSearchTarget,
}
