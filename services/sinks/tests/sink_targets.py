"""What the tests of sinks share: how a target is named, and a sink on a worker in memory."""

import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pymysql

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.mariadb import MySqlLikeServer


def connection_options(url: str) -> dict[str, str]:
    """The options that name a PostgreSQL database of the stack."""
    parts = urlsplit(url)
    assert parts.username is not None
    assert parts.password is not None
    return {
        "connection.url": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        "connection.username": parts.username,
        "connection.password": parts.password,
    }


def mariadb_options(server: MySqlLikeServer, database: str) -> dict[str, str]:
    """The options that name a database of the stack's MariaDB or MySQL."""
    return {
        "connection.url": f"jdbc:{server.name}://127.0.0.1:{server.port}/{database}",
        "connection.username": "admin",
        "connection.password": server.password,
    }


def by_sqlalchemy(options: dict[str, str]) -> dict[str, str]:
    """The same database by SQLAlchemy's way to it."""
    url = options["connection.url"].replace("jdbc:postgresql:", "sqlalchemy:postgresql+psycopg:")
    url = url.replace("jdbc:mariadb:", "sqlalchemy:mysql+pymysql:").replace(
        "jdbc:sqlite:", "sqlalchemy:sqlite:///"
    )
    return {**options, "connection.url": url}


def ask_mariadb(server: MySqlLikeServer, database: str | None, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement on the stack's MariaDB or MySQL, and commit."""
    with closing(
        pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user="admin",
            password=server.password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
        )
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(statement)
        return list(cursor.fetchall())


@dataclass
class Sink:
    """A running sink, and the topics that it reads."""

    worker: MemoryWorker
    config: dict[str, str]

    def start(self, topics: str, **more: str) -> None:
        """Start it; underscores of names are dots."""
        named = {
            name.replace("__", "\0").replace("_", ".").replace("\0", "_"): value
            for name, value in more.items()
        }
        self.worker.put({**self.config, "topics": topics, **named})

    def send(self, topic: str, key: Any, value: Any, *, partition: int = 0, headers: Any = ()) -> None:
        """A record as JSON without schemas; None is null."""
        encoded = [None if item is None else json.dumps(item).encode() for item in (key, value)]
        self.worker.kafka.inputs.produce(topic, *encoded, partition=partition, headers=headers)

    def wait(self) -> None:
        """Until all that was sent is committed."""
        inputs = self.worker.kafka.inputs

        def done() -> bool:
            group = inputs.offsets.get(f"connect-{self.worker.name}", {})
            return all(group.get(at, 0) == len(log) for at, log in inputs.records.items())

        self.worker.wait_for(done, "the commit of everything")
