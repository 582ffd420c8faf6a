"""`tidings-lakehouse repair` on a real PostgreSQL, capture, Kafka and job: wrong rows become right, others are not touched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from lakelab.capturing import Auditor, capturing, records_on

from tidings_lakehouse.auditing.audit import Finding, TableResult
from tidings_lakehouse.auditing.postgres_columns import PostgresColumn
from tidings_lakehouse.errors import RepairError
from tidings_lakehouse.repairing.repair import check_number
from tidings_lakehouse.repairing.worker import Worker, _check
from tidings_stack.connect import connector_settings
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake

WRONG = {"different": [5, 9], "doubled": [7], "extra": [900], "missing": [3]}


@pytest.fixture
def source(
    lake: Lake,
    pg_database: str,
    unique_name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[psycopg.Connection[Any], Auditor]]:
    """A table `t_<name>` with twenty rows, captured, and an auditor, who waits while rows are changed and inserted.

    Row 9 is one of those that are changed, and will be wrong; 11 is right.
    """
    table = f"t_{unique_name}"
    config = connector_settings(
        pg_database,
        **{
            "slot.name": unique_name,
            "publication.name": unique_name,
            "table.include.list": f"public.{table}",
            "read.only": "true",
        },
    )
    numbers = itertools.count(101)
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int, note text)")  # type: ignore[arg-type]
        connection.execute(f"INSERT INTO {table} SELECT i, i, 'right' FROM generate_series(1, 20) i")  # type: ignore[arg-type]

        def traffic() -> None:
            number = next(numbers)
            connection.execute(f"UPDATE {table} SET n = {number} WHERE id IN (9, 11)")  # type: ignore[arg-type]
            connection.execute(f"INSERT INTO {table} VALUES ({number}, 0, 'new')")  # type: ignore[arg-type]

        with capturing(lake, tmp_path, unique_name, config) as worker:
            wait_for("the snapshot", lambda: records_on(lake, f"{unique_name}.public.{table}") == 20)
            lake.drain()
            yield (
                connection,
                Auditor(
                    lake,
                    capsys,
                    monkeypatch,
                    database=pg_database,
                    source=unique_name,
                    worker=worker.url,
                    meanwhile=traffic,
                ),
            )


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(900)
def test_wrong_rows_become_right_and_the_log_tells_which(
    lake: Lake,
    source: tuple[psycopg.Connection[Any], Auditor],
    unique_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under traffic; a first run dies behind the rows that it has asked for, and a second one goes on."""
    database, auditor = source
    table = f"technical.t_{unique_name}"
    lake.session.sql(f"DELETE FROM {table} WHERE id = 3")
    lake.session.sql(f"UPDATE {table} SET note = 'wrong' WHERE id IN (5, 9)")
    lake.session.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = 7")
    lake.session.sql(f"INSERT INTO {table} SELECT id + 892, * EXCEPT (id) FROM {table} WHERE id = 8")
    sent: list[int] = []
    tell_again = Worker.tell_again

    def dies(self: Worker, connector: str, id_: str, name: str, keys: Any) -> None:
        if sent:
            raise KeyboardInterrupt
        sent.append(len(keys))
        tell_again(self, connector, id_, name, keys)

    code, found = auditor.run("repair", table)
    assert (code, found["signals"]) == (3, [])
    kinds: dict[str, list[int]] = {}
    for one in found["findings"]:
        kinds.setdefault(one["kind"], []).append(int(one["key"]["id"]))
    kinds["different"] = sorted({*kinds["different"], 9})  # the traffic may have mended it
    assert {kind: sorted(keys) for kind, keys in kinds.items()} == WRONG
    monkeypatch.setattr("tidings_lakehouse.repairing.repair.LOOKED_AT_ONCE", 2)
    monkeypatch.setattr(Worker, "tell_again", dies)
    with pytest.raises(KeyboardInterrupt):
        auditor.run("repair", table, "--apply")
    monkeypatch.setattr(Worker, "tell_again", tell_again)
    assert sent == [2]
    code, found = auditor.run("repair", table, "--apply")
    assert (code, found["left"], found["left_undecided"]) == (0, [], 0)
    assert found["mended"] == len(found["findings"])
    assert 2 <= found["mended"] <= 3, "what the first run has asked for was asked for again"
    code, found = auditor.run("repair", table, "--apply")
    assert (code, found["findings"], found["signals"]) == (0, [], [])
    marked = {
        (row[0], row[1])
        for row in lake.rows(
            f"SELECT op, key.id FROM {table}_log WHERE exists(headers, h -> h.key = 'tidings.repair') AND op IS NOT NULL"
        )
    }
    told = {("d" if key >= 900 else "r", key) for keys in WRONG.values() for key in keys}
    assert told - {("r", 9)} <= marked <= told, "row 9 was left to the stream, or told"
    source_rows = database.execute(f"SELECT id, n, note FROM t_{unique_name} ORDER BY id").fetchall()  # type: ignore[arg-type]
    lake.drain()
    assert lake.rows(f"SELECT id, n, note FROM {table} WHERE id <= 20 ORDER BY id") == [
        row for row in source_rows if row[0] <= 20
    ]


def test_more_wrong_rows_than_expected_are_left_alone() -> None:
    results = [TableResult("t", findings=[Finding("t", {"id": str(n)}, "extra")] * n) for n in (2, 3)]
    check_number(results, 5)
    with pytest.raises(RepairError, match="5 rows are wrong, and --max-rows is 4: nothing was repaired"):
        check_number(results, 4)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"topic.prefix": "other"}, "topic.prefix=other, and TIDINGS_SOURCE is shop"),
        ({"connector.class": "io.debezium.connector.oracle.OracleConnector"}, "does not take the signal"),
        (
            {"connector.class": "io.debezium.connector.sqlserver.SqlServerConnector"},
            "does not take the signal",
        ),
        ({"read.only": "false"}, "cannot tell rows again"),
    ],
)
def test_a_connector_that_cannot_tell_rows_again_is_named(config: dict[str, str], reason: str) -> None:
    fits = {
        "topic.prefix": "shop",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "read.only": "true",
    }
    _check("shop", fits, "shop")
    _check("shop", fits | {"read.only": "false", "signal.data.collection": "public.signals"}, "shop")
    _check("shop", fits | {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector"}, "shop")
    with pytest.raises(RepairError, match=reason):
        _check("shop", fits | config, "shop")


@pytest.mark.parametrize(
    ("type_", "lake_type", "compared", "written"),
    [
        ("int8", "BIGINT", "-7", "-7"),
        ("text", "VARCHAR", "it's", "it's"),
        ("bool", "BOOLEAN", "1", "t"),
        ("date", "DATE", "-1", "1969-12-31"),
        ("date", "DATE", "~+", "infinity"),
        ("timestamp", "TIMESTAMP", "-1", "1969-12-31 23:59:59.999999"),
        ("timestamptz", "TIMESTAMP WITH TIME ZONE", "1000000", "1970-01-01 00:00:01+00"),
        ("timestamptz", "TIMESTAMP WITH TIME ZONE", "~-", "-infinity"),
        ("bytea", "BLOB", "00ff", "\\x00ff"),
        ("float8", "DOUBLE", f"{0x3FB999999999999A:064b}", "0.1"),
    ],
)
def test_a_key_is_written_as_the_database_writes_it(
    type_: str, lake_type: str, compared: str, written: str
) -> None:
    column = PostgresColumn("k", type_).compared("k", lake_type)
    assert column is not None
    assert column.written(compared) == written
