"""Our JDBC sink beside Debezium's on MariaDB and MySQL: each kind of value in a table of its own, its column and its rows.

Debezium's writes to both by MariaDB's driver: the one of MySQL is not with it. What differs is asserted, as docs/sinks.md says it.
"""

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from jdbc_sinks.sides import SCHEMAS, Content, Debezium
from jdbc_sinks.stream import Column, Sent, Table, envelope, key_of
from jdbc_sinks.values import VALUES, Values
from random_streams import run_in_memory

from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MySqlLikeServer

COPY = {
    "insert.mode": "upsert",
    "primary.key.mode": "record_key",
    "delete.enabled": "true",
    "schema.evolution": "basic",
}
INT = Values("int32", {"type": "int32"}, (1, 2))
FAIL_THERE = {"zoned_timestamp", "zoned_time", "texts", "numbers", "flags", "halves"}
"""Before 1970 the first; the others always."""
OTHERWISE = {
    # kind: Debezium's column and ours, without widths
    "int8": ("tinyint", "smallint"),
    "enum": ("enum('ok','bad')", "longtext"),
    "micro_duration": ("bigint", "varchar(64)"),
    "uuid": ("longtext", {"mariadb": "uuid", "mysql": "char(36)"}),
    "json": {"mysql": ("longtext", "json")},
}


class Server:
    """Databases on it."""

    def __init__(self, server: MySqlLikeServer) -> None:
        self.kind, self._server = server.name, server

    def ask(self, database: str | None, statement: str) -> list[tuple[Any, ...]]:
        with pymysql.connect(
            host="127.0.0.1", port=self._server.port, user="admin", password=self._server.password,
            database=database, charset="utf8mb4", autocommit=True,
        ) as connection, connection.cursor() as cursor:  # fmt: skip
            cursor.execute(statement)
            return list(cursor.fetchall())

    def connection(self, database: str, kind: str, parameters: str = "") -> dict[str, str]:
        return {
            "connection.url": f"jdbc:{kind}://127.0.0.1:{self._server.port}/{database}{parameters}",
            "connection.username": "admin",
            "connection.password": self._server.password,
        }

    def contents(self, database: str) -> dict[str, Content]:
        """By the kind's name. Widths of whole numbers, which MySQL has no more, are left out."""
        found = {}
        for (name,) in self.ask(database, "SHOW TABLES"):
            if name == "tidings_sink_positions":
                continue
            columns = {
                field: (kind.partition("(")[0] if "int(" in kind else kind, null, key, default)
                for field, kind, null, key, default, _ in self.ask(database, f"SHOW COLUMNS FROM `{name}`")
            }
            shown = ", ".join(_as_text(column, kind) for column, (kind, *_) in sorted(columns.items()))
            rows = self.ask(database, f"SELECT {shown} FROM `{name}`")
            found[name.partition("_public_")[2]] = Content(columns, sorted(rows, key=repr))
        return found


def _as_text(column: str, kind: str) -> str:
    return f"HEX(`{column}`)" if "blob" in kind or kind.startswith("bit") else f"CAST(`{column}` AS char)"


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest, unique_name: str) -> Iterator[Server]:
    """With two databases."""
    found = Server(request.getfixturevalue(request.param))
    for side in ("theirs", "ours"):
        found.ask(None, f"CREATE DATABASE {unique_name}{side}")
    yield found
    for side in ("theirs", "ours"):
        found.ask(None, f"DROP DATABASE {unique_name}{side}")


def records_of(values: Values, prefix: str) -> list[Sent]:
    """Rows with each of its values and null; one is changed, and one comes and goes."""
    table = Table(
        f"{prefix}.public.{values.name}", [Column("id", INT, optional=False)], [Column("v", values)]
    )
    rows: list[dict[str, Any]] = [{"id": place, "v": value} for place, value in enumerate(values.values)]
    rows.append({"id": 90, "v": None})
    records: list[Sent] = [(table.topic, key_of(table, row), envelope(table, "c", None, row)) for row in rows]
    changed = {"id": 0, "v": values.values[-1]}
    records.append((table.topic, key_of(table, changed), envelope(table, "u", rows[0], changed)))
    records.append((table.topic, key_of(table, rows[1]), envelope(table, "d", rows[1], None)))
    records.append((table.topic, key_of(table, rows[1]), None))
    return records


def test_each_kind_of_value(
    plugins: ConnectServer, kafka_bootstrap: str, server: Server, unique_name: str
) -> None:
    compared = [values for values in VALUES if values.name not in FAIL_THERE]
    records = [record for values in compared for record in records_of(values, unique_name)]
    debezium = Debezium(plugins.url, kafka_bootstrap)
    ends = debezium.produce(records)
    options = {"connector.class": JdbcSinkConnector.class_name, "topics": ",".join(ends), **SCHEMAS, **COPY}
    theirs = server.connection(f"{unique_name}theirs", "mariadb", "?allowPublicKeyRetrieval=true")
    with debezium.running(unique_name, {**options, **theirs, "tasks.max": "1"}):
        assert debezium.wait(unique_name, ends) is None
    ours = server.connection(f"{unique_name}ours", server.kind)
    assert run_in_memory(JdbcSinkConnector(), unique_name, records, lambda _: {**options, **ours}) is None
    its, own = (server.contents(f"{unique_name}{side}") for side in ("theirs", "ours"))
    assert its.keys() == own.keys() == {values.name for values in compared}
    for name in its:
        known: Any = OTHERWISE.get(name)
        known = known.get(server.kind) if isinstance(known, dict) else known
        if known is None:
            assert own[name] == its[name], name
            continue
        column = known[1] if isinstance(known[1], str) else known[1][server.kind]
        assert (its[name].columns["v"][0], own[name].columns["v"][0]) == (known[0], column)
        assert len(own[name].rows) == len(its[name].rows)
        if name not in {"micro_duration", "json"}:
            assert own[name].rows == its[name].rows, name
