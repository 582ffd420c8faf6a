"""``snapshot.mode`` and what is chosen of the tables, on a real worker."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tidings_stack.capture import CaptureWorker as Worker

BASED = "snapshot.mode.configuration.based."


@pytest.fixture
def rows(sql: Callable[..., list[tuple[Any, ...]]]) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY, t text)", "INSERT INTO a VALUES (1, 'x'), (2, 'y')")
    sql("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b SELECT generate_series(1, 100)", "ANALYZE")


def ops(records: Any) -> list[Any]:
    return [r.value["op"] + str(r.key["id"]) for r in records if r.value]


def stopped(worker: Worker, sql: Callable[..., list[tuple[Any, ...]]], name: str, *statements: Any) -> None:
    """Run statements while the connector is stopped."""
    assert worker.request("PUT", f"/connectors/{name}/stop")[0] == 204
    sql(*statements)
    assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202


def test_always_reads_at_every_start_after_what_was_changed(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    name = create(connector_config | {"snapshot.mode": "always", "table.include.list": "public.a"})
    wait_records(f"{name}.public.a", 2)
    sql("INSERT INTO a VALUES (3, 'z')")
    wait_records(f"{name}.public.a", 3)
    stopped(worker, sql, name, "DELETE FROM a WHERE id = 1", "UPDATE a SET t = 'n' WHERE id = 2")
    # d1 is followed by its tombstone, which has no operation.
    found = ops(wait_records(f"{name}.public.a", 8))
    assert found == ["r1", "r2", "c3", "d1", "u2", "r3", "r2"]


def test_configuration_based_reads_and_rests(
    create: Callable[..., str],
    connector_config: dict[str, str],
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    worker: Worker,
) -> None:
    options = {"snapshot.mode": "configuration_based", f"{BASED}snapshot.data": "true"}
    name = create(connector_config | options | {"snapshot.include.collection.list": "public.a"})
    assert ops(wait_records(f"{name}.public.a", 2)) == ["r1", "r2"]
    assert sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    shown = worker.request("GET", f"/connectors/{name}/snapshot")[1]
    assert [t["table"] for t in shown["tables"]] == ["public.a"]


def test_configuration_based_streams_alone(
    create: Callable[..., str],
    connector_config: dict[str, str],
    rows: None,
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    options = {"snapshot.mode": "configuration_based", f"{BASED}start.stream": "true"}
    name = create(connector_config | options)
    sql("INSERT INTO a VALUES (3, 'z')")
    assert ops(wait_records(f"{name}.public.a", 1)) == ["c3"]


def test_order_by_rows_and_columns_that_a_statement_leaves_out(
    create: Callable[..., str],
    connector_config: dict[str, str],
    rows: None,
    worker: Worker,
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    name = create(
        connector_config
        | {
            "snapshot.tables.order.by.row.count": "descending",
            "snapshot.select.statement.overrides": "public.a",
            "snapshot.select.statement.overrides.public.a": "SELECT id + 10 AS id FROM a WHERE t LIKE '%y%';",
        }
    )
    (record,) = wait_records(f"{name}.public.a", 1)
    assert record.value["after"] == {"id": 12, "t": None}
    assert record.value["source"]["snapshot"] == "last"

    def shown() -> list[tuple[str, int, int]]:
        tables = worker.request("GET", f"/connectors/{name}/snapshot")[1]["tables"]
        return [(table["table"], table["rows"], table["estimated_rows"]) for table in tables]

    # Rows are counted behind their batch, which others may have read by then.
    wait_until("both tables", lambda: shown() == [("public.b", 100, 100), ("public.a", 1, 2)])


def test_a_table_without_its_statement_is_refused(worker: Worker, connector_config: dict[str, str]) -> None:
    config = connector_config | {"snapshot.select.statement.overrides": "public.a"}
    status, body = worker.request("PUT", f"/connectors/{config['topic.prefix']}/config", config)
    assert status == 400
    assert "snapshot.select.statement.overrides.public.a is not set" in body["message"]


def test_an_open_transaction_is_waited_for_and_the_connector_can_be_stopped_meanwhile(
    create: Callable[..., str],
    worker: Worker,
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    wait_records: Callable[[str, int], list[Any]],
    unique_name: str,
    pg_database: str,
) -> None:
    """A slot begins behind the transactions that are open; the task lives on and says what it waits for."""
    sql("CREATE TABLE t (id int PRIMARY KEY)")
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    with psycopg.connect(pg_database) as other:
        other.execute("INSERT INTO t VALUES (1)")
        name = create(connector_config)
        said = f'"connector": "{name}", "event": "a slot begins behind the transactions that are open'
        wait_until("a word", lambda: said in worker.log.read_text())
        assert worker.request("PUT", f"/connectors/{name}/stop")[0] == 204
        wait_until("no slot", lambda: sql(slots) == [(0,)], 8)
        worker.request("PUT", f"/connectors/{name}/resume")
        wait_until("the slot", lambda: sql(slots) == [(1,)])
        other.commit()
    assert wait_records(f"{name}.public.t", 1)[0].value["op"] == "r"
