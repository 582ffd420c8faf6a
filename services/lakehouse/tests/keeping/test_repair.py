"""`tidings-lakehouse repair` on a real PostgreSQL, capture, Kafka and job: wrong rows become right, others are not touched."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tidings_lakehouse.auditing.audit import Finding, TableResult
from tidings_lakehouse.auditing.columns import audit_column
from tidings_lakehouse.cli import main
from tidings_lakehouse.errors import RepairError
from tidings_lakehouse.repairing.repair import check_number
from tidings_lakehouse.repairing.worker import Worker, _check
from tidings_lakehouse.settings import WarehouseSettings
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake

AVRO = "io.confluent.connect.avro.AvroConverter"
WRONG = {
    "different": [5, 6, 9],
    "doubled": [7],
    "extra": [900, 901],
    "missing": [3, 4],
}


@pytest.fixture
def source(
    lake: Lake,
    reader: WarehouseSettings,
    pg_database: str,
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[psycopg.Connection[Any]]:
    """A table `t_<name>` with twenty rows, captured; the commands' settings are in the environment."""
    table = f"t_{unique_name}"
    converters = {
        f"{kind}.converter{more}": value
        for kind in ("key", "value")
        for more, value in (("", AVRO), (".schema.registry.url", registry_url))
    }
    config = connector_settings(
        pg_database,
        **{
            "topic.prefix": unique_name,
            "slot.name": unique_name,
            "publication.name": unique_name,
            "table.include.list": f"public.{table}",
            "provide.transaction.metadata": "true",
            "read.only": "true",
            **converters,
        },
    )
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_offsets_topic": f"{unique_name}-offset", "lakehouse_trigger_seconds": 3.0}
    )
    with (
        psycopg.connect(pg_database, autocommit=True) as connection,
        CaptureWorkers(tmp_path, kafka_bootstrap) as workers,
    ):
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int, note text)")  # type: ignore[arg-type]
        connection.execute(f"INSERT INTO {table} SELECT i, i, 'right' FROM generate_series(1, 20) i")  # type: ignore[arg-type]
        worker = workers.start(workers.properties(unique_name, {"offset.flush.interval.ms": "100"}))
        status, body = worker.request("PUT", f"/connectors/{unique_name}/config", config)
        assert status == 201, body
        worker.wait_task(unique_name, "RUNNING")
        for name, value in {
            "TIDINGS_LAKEHOUSE_WAREHOUSE": reader.lakehouse_warehouse,
            "TIDINGS_LAKEHOUSE_AUDIT_DATABASE": pg_database,
            "TIDINGS_LAKEHOUSE_WORKER": worker.url,
            "TIDINGS_SOURCE": unique_name,
        }.items():
            monkeypatch.setenv(name, value)
        yield connection
        worker.request("DELETE", f"/connectors/{unique_name}")


class Traffic:
    """Changes row 9, which is wrong, and rows that are right, until it is left; so the watermark moves on."""

    def __init__(self, source: psycopg.Connection[Any], table: str) -> None:
        self._source, self._table = source, table
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 100
        while not self._ended.wait(1.0):
            number += 1
            for key in (9, 11):
                self._source.execute(f"UPDATE {self._table} SET n = {number} WHERE id = {key}")  # type: ignore[arg-type]
            self._source.execute(f"INSERT INTO {self._table} VALUES ({number}, 0, 'new')")  # type: ignore[arg-type]

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(900)
def test_wrong_rows_become_right_and_the_log_tells_which(
    lake: Lake,
    source: psycopg.Connection[Any],
    unique_name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under traffic; a first run dies behind the rows that it has asked for, and a second one goes on."""
    table = f"technical.t_{unique_name}"

    def run(command: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = main([command, "--table", table, "--pause", "0", "--wait", "90", "--json", *arguments])
        told = capsys.readouterr()
        lines = [
            line for line in told.out.splitlines() if line.startswith('{"table"')
        ]  # the job's log is there, too
        assert lines, told.err
        return code, json.loads(lines[0])

    def plant() -> bool:
        lake.drain()
        return f"t_{unique_name}" in {row[1] for row in lake.rows("SHOW TABLES IN technical")} and (
            lake.rows(f"SELECT count(*) FROM {table}") == [(20,)]
        )

    wait_for("the snapshot", plant)
    lake.session.sql(f"DELETE FROM {table} WHERE id IN (3, 4)")
    lake.session.sql(f"UPDATE {table} SET note = 'wrong' WHERE id IN (5, 6, 9)")
    lake.session.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = 7")
    lake.session.sql(f"INSERT INTO {table} SELECT id + 892, * EXCEPT (id) FROM {table} WHERE id IN (8, 9)")
    sent: list[int] = []
    tell_again = Worker.tell_again

    def dies(self: Worker, connector: str, id_: str, name: str, keys: Any) -> None:
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(len(keys))
        tell_again(self, connector, id_, name, keys)

    monkeypatch.setattr("tidings_lakehouse.repairing.repair.LOOKED_AT_ONCE", 3)
    for module in (
        "auditing.audit",
        "repairing.repair",
    ):  # a look costs more than the wait for the next batch
        monkeypatch.setattr(f"tidings_lakehouse.{module}._POLL_SECONDS", 1.5)
    job = lake.job()
    job.start()
    try:
        with Traffic(source, f"t_{unique_name}"):
            code, found = run("repair")
            assert (code, found["signals"]) == (3, [])
            kinds: dict[str, list[int]] = {}
            for one in found["findings"]:
                kinds.setdefault(one["kind"], []).append(int(one["key"]["id"]))
            kinds["different"] = sorted({*kinds["different"], 9})  # the traffic may have mended it
            assert {kind: sorted(keys) for kind, keys in kinds.items()} == WRONG
            monkeypatch.setattr(Worker, "tell_again", dies)
            with pytest.raises(KeyboardInterrupt):
                main(["repair", "--table", table, "--apply", "--pause", "0", "--wait", "90"])
            monkeypatch.setattr(Worker, "tell_again", tell_again)
            capsys.readouterr()
            assert sent == [3, 3]
            code, found = run("repair", "--apply")
            assert (code, found["left"], found["left_undecided"]) == (0, [], 0)
            assert found["mended"] == len(found["findings"])
            assert 1 <= found["mended"] <= 2, "what the first run has asked for was asked for again"
            code, found = run("repair", "--apply")
        assert (code, found["findings"], found["signals"]) == (0, [], [])
    finally:
        job.stop()
    marked = {
        (row[0], row[1])
        for row in lake.rows(
            f"SELECT op, key.id FROM {table}_log WHERE exists(headers, h -> h.key = 'tidings.repair') AND op IS NOT NULL"
        )
    }
    told = {("d" if key >= 900 else "r", key) for keys in WRONG.values() for key in keys}
    assert told - {("r", 9)} <= marked <= told, "row 9 was left to the stream, or told"
    source_rows = source.execute(f"SELECT id, n, note FROM t_{unique_name} ORDER BY id").fetchall()  # type: ignore[arg-type]
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
    column = audit_column("k", type_, "k", lake_type, is_enum=False)
    assert column is not None
    assert column.written(compared) == written
