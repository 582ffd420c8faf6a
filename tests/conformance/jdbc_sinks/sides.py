"""The same connector JSON for Debezium's JDBC sink on Kafka Connect and for ours, each with a database of its own.

Both read the same bytes: Debezium's from a topic of Kafka, ours from a worker in memory. What is compared: the tables that
there are, their columns with types, NOT NULL, defaults and primary key, and their rows as text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from jdbc_sinks.stream import JSON, Sent
from psycopg import sql
from random_streams import DEADLINE_SECONDS, run_in_memory
from side_by_side import rest

from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_stack.postgres import connection_parts
from tidings_stack.waiting import wait_for

SCHEMAS = {
    f"{side}.converter{option}": value
    for side in ("key", "value")
    for option, value in (("", JSON), (".schemas.enable", "true"))
}
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
       coalesce(a.attnum = ANY (i.indkey), false)
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped"""


@dataclass(frozen=True, slots=True)
class Content:
    """What a table holds."""

    columns: dict[str, tuple[Any, ...]]
    """By name: type, whether it is NOT NULL, default, whether it is of the primary key."""
    rows: list[tuple[str | None, ...]]
    """As text, in the order of their columns' names, sorted."""


@dataclass
class Outcome:
    """How a sink has ended, and what it has left."""

    error: str | None = None
    """Why its task FAILED."""
    tables: dict[str, Content] = field(default_factory=dict)


def connection(url: str) -> dict[str, str]:
    """The options that name a database."""
    parts = connection_parts(url)
    return {
        "connection.url": f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}",
        "connection.username": parts["user"],
        "connection.password": parts.get("password", "none"),
    }


def contents(url: str) -> dict[str, Content]:
    """All tables of a database but the sink's own."""
    found = {}
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("SET TimeZone TO 'UTC'; SET extra_float_digits TO 1")
        tables = database.execute(
            "SELECT oid, relnamespace::regnamespace::text, relname FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')"
            " AND relname <> 'tidings_sink_positions'"
        ).fetchall()
        for oid, schema, name in tables:
            columns = {
                name: (kind, required, _default(default), of_key)
                for name, kind, required, default, of_key in database.execute(_COLUMNS, (oid,)).fetchall()
            }
            shown = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(c)) for c in sorted(columns))
            query = sql.SQL("SELECT {} FROM {}").format(shown, sql.Identifier(schema, name))
            rows = database.execute(query).fetchall()
            found[f"{schema}.{name}"] = Content(columns, sorted(rows, key=repr))
    return found


def _default(expression: str | None) -> str | None:
    """A default without the way in which it was written: ``'-1'::integer`` is ``-1``."""
    return None if expression is None else re.sub(r"::[a-z ]+(\(\d+\))?$", "", expression).strip("'")


def differences(theirs: Mapping[str, Content], ours: Mapping[str, Content]) -> list[str]:
    """Where the tables differ, in words."""
    found = [f"only Debezium has table {name}" for name in sorted(theirs.keys() - ours.keys())]
    found += [f"only we have table {name}" for name in sorted(ours.keys() - theirs.keys())]
    for name in sorted(theirs.keys() & ours.keys()):
        its, own = theirs[name], ours[name]
        for column in sorted(its.columns.keys() | own.columns.keys()):
            if its.columns.get(column) != own.columns.get(column):
                found.append(f"{name}.{column}: {its.columns.get(column)} and ours {own.columns.get(column)}")
        if its.columns.keys() == own.columns.keys() and its.rows != own.rows:
            found.append(f"{name}: {len(its.rows)} rows and ours {len(own.rows)}")
            names = sorted(its.columns)
            for one, other in zip(its.rows, own.rows, strict=False):
                found += [
                    f"  {name}.{column}: {str(a)[:60]!r} and ours {str(b)[:60]!r}"
                    for column, a, b in zip(names, one, other, strict=True)
                    if a != b
                ]
    return found[:40]


class Debezium:
    """Debezium's sink.

    Args:
        url: of Kafka Connect's REST API.
        bootstrap: Kafka's.
    """

    def __init__(self, url: str, bootstrap: str) -> None:
        self._url = url
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def produce(self, records: Sequence[Sent]) -> dict[str, int]:
        """Write records; how many each topic has. A topic is made for them."""
        ends: dict[str, int] = {}
        for topic, _, _ in records:
            ends[topic] = ends.get(topic, 0) + 1
        for made in self._admin.create_topics([NewTopic(topic, 1, 1) for topic in ends]).values():
            made.result(DEADLINE_SECONDS)
        for topic, key, value in records:
            self._producer.produce(topic, value, key)
        assert self._producer.flush(DEADLINE_SECONDS) == 0
        return ends

    @contextmanager
    def running(self, name: str, config: Mapping[str, str]) -> Iterator[None]:
        """The connector, deleted at the end."""
        status, answer = rest(f"{self._url}/connectors/{name}/config", "PUT", config)
        assert status == 201, answer
        try:
            yield
        finally:
            rest(f"{self._url}/connectors/{name}", "DELETE")

    def wait(self, name: str, ends: Mapping[str, int]) -> str | None:
        """Until the group has come to the ends, or the task FAILED: then why."""

        def done() -> tuple[str | None] | None:
            _, status = rest(f"{self._url}/connectors/{name}/status")
            for task in status.get("tasks", ()):
                if task["state"] == "FAILED":
                    return (_cause(task["trace"]),)
            _, answer = rest(f"{self._url}/connectors/{name}/offsets")
            committed = {
                one["partition"]["kafka_topic"]: one["offset"]["kafka_offset"]
                for one in answer.get("offsets", ())
            }
            return (None,) if all(committed.get(t, 0) >= end for t, end in ends.items()) else None

        found: tuple[str | None] = wait_for(f"{name} to write everything", done, DEADLINE_SECONDS)
        return found[0]

    def run(self, name: str, database: str, options: Mapping[str, str], records: Sequence[Sent]) -> Outcome:
        """Everything, from the topics to what is left in the database."""
        ends = self.produce(records)
        config = {
            "connector.class": JdbcSinkConnector.class_name,
            "tasks.max": "1",
            "topics": ",".join(ends),
            **SCHEMAS,
            **connection(database),
            **options,
        }
        with self.running(name, config):
            error = self.wait(name, ends)
        return Outcome(error, contents(database))


def _cause(trace: str) -> str:
    """The innermost causes of a Java stack trace."""
    lines = [line.strip() for line in trace.splitlines() if line and not line.startswith("\t")]
    return " <- ".join(reversed(lines))[:600]


def run_ours(name: str, database: str, options: Mapping[str, str], records: Sequence[Sent]) -> Outcome:
    """The same on a worker in memory."""
    error = run_in_memory(
        JdbcSinkConnector(),
        name,
        records,
        lambda ends: {"topics": ",".join(ends), **SCHEMAS, **connection(database), **options},
    )
    return Outcome(error, contents(database))
