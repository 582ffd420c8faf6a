"""Which tables and columns query sources read on a real PostgreSQL, own statements, and configurations that are refused."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from query_parts import BOTH, TABLE, await_ids, ids, wait_offsets
from structlog.testing import capture_logs

from tidings_capture.query.connector import JdbcSource
from tidings_capture.query.option_page import PAGE
from tidings_capture.query.options import FIXED, OPTIONS, REFUSED, SHARE
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import MemoryWorker


def test_tables_and_their_columns_are_chosen_by_patterns(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(
        "CREATE TABLE ev (id int PRIMARY KEY, updated timestamptz NOT NULL)",
        "CREATE TABLE sale (number int NOT NULL, made timestamptz, changed timestamptz NOT NULL)",
        "CREATE TABLE sale_old (number int)",
        "CREATE TABLE other (id int)",
        "INSERT INTO ev VALUES (2, '2026-01-01Z'), (1, '2026-01-02Z')",
        "INSERT INTO sale VALUES (8, NULL, '2026-01-05Z'), (7, '2026-01-03Z', '2026-01-09Z')",
    )
    begin(
        mode="timestamp+incrementing",
        **{
            "table.include.list": r".*\.public\.ev, .*\.public\.sale.*",
            "table.exclude.list": r".*_old",
            "timestamp.columns.mapping": r".*\.sale:[made|changed],.*:[updated]",
            "incrementing.column.mapping": r".*\.sale:number,.*:id",
        },
    )
    await_ids(worker, [2, 1])
    worker.wait_for(lambda: len(worker.values("q-sale")) == 2, "two sales")
    assert [value["number"] for value in worker.values("q-sale")] == [7, 8]
    assert "q-other" not in worker.kafka.topics


def test_a_table_without_columns_in_the_mapping_is_told(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run("CREATE TABLE ev (id int PRIMARY KEY, updated timestamptz NOT NULL)")
    begin(mode="timestamp", **{"timestamp.columns.mapping": ".*sale:[updated]"})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert re.search(r"public\.ev fits no pattern of timestamp\.columns\.mapping", str(worker.error))


def test_a_suffix_bounds_what_a_statement_reads(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) SELECT n::text FROM generate_series(1, 5) AS n")
    begin(**BOTH, **{"query.suffix": "LIMIT 2"})
    await_ids(worker, [1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    ("mode", "not_seen"),
    [
        ("incrementing", ["deleted rows", "updates", "rows that are committed after others"]),
        (
            "timestamp",
            [
                "deleted rows",
                "all but the last",
                "rows that are committed after",
                "with a timestamp that was read",
            ],
        ),
        ("bulk", []),
    ],
)
def test_the_start_says_what_a_mode_does_not_see(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], mode: str, not_seen: list[str]
) -> None:
    run(TABLE)
    with capture_logs() as logs:
        begin(**{**BOTH, "mode": mode})
        worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
        told = [log["not_seen"] for log in logs if log["event"] == "this mode does not see everything"]
    assert len(told) == bool(not_seen)
    for wanted, found in zip(not_seen, told[0] if told else (), strict=True):
        assert wanted in found


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_rows_of_a_clock_that_is_ahead_are_counted(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], zone: str, kind: str
) -> None:
    """A wall clock's times, which `db.timezone` takes for another zone's, are read hours later."""
    value = "now() AT TIME ZONE 'Asia/Tokyo'" if kind == "timestamp" else "now() + interval '9 hours'"
    run(
        f"CREATE TABLE ev (id bigserial PRIMARY KEY, updated {kind} NOT NULL, note text)",
        "INSERT INTO ev (updated) VALUES ('2026-01-01')",
        f"INSERT INTO ev (updated) SELECT {value} FROM generate_series(1, 3)",
    )
    is_ahead = kind == "timestamptz" or zone == "UTC"
    with capture_logs() as logs:
        begin(**{**BOTH, "mode": "timestamp", "db.timezone": zone})
        await_ids(worker, [1] if is_ahead else [1, 2, 3, 4])
        worker.wait_for(lambda: worker.findings.get("ahead") == (3 if is_ahead else 0), "the count")
        said = [log for log in logs if log["event"].startswith("rows have timestamps that are still to come")]
    assert [(log["rows"], log["zone"]) for log in said] == [(3, zone)] * is_ahead


def test_a_masked_query_is_read_and_is_not_shown(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a'), ('b')")
    begin(
        mode="incrementing",
        **{"incrementing.column.name": "id", "query.masked": "SELECT * FROM ev WHERE id > 1"},
    )
    worker.wait_for(lambda: ids(worker, "q-") == [2], "the query's row")
    (option,) = [option for option in OPTIONS if option.name == "query.masked"]
    assert option.secret


def test_a_query_may_have_a_where_of_its_own(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a%s'), ('b'), ('a%s')")
    begin(
        mode="incrementing",
        query="SELECT id, note AS text FROM ev WHERE note LIKE 'a%' ORDER BY note;",
        **{"incrementing.column.name": "id"},
    )
    worker.wait_for(lambda: ids(worker, "q-") == [1, 3], "the rows of the query")
    assert worker.values("q-")[0] == {"id": 1, "text": "a%s"}
    (stored,) = wait_offsets(worker)
    assert stored == {"partition": {"query": "query"}, "offset": {"incrementing": 3}}


def test_new_tables_and_columns_are_found(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a')")
    begin(mode="incrementing", **{"table.poll.interval.ms": "50"})
    await_ids(worker, [1])
    run("CREATE TABLE other (id bigserial PRIMARY KEY)", "INSERT INTO other VALUES (default)")
    worker.wait_for(lambda: ids(worker, "q-other") == [1], "the new table")
    run("ALTER TABLE ev ADD COLUMN more int NOT NULL DEFAULT 7", "INSERT INTO ev (note) VALUES ('b')")
    await_ids(worker, [1, 2])
    assert worker.values("q-ev")[1]["more"] == 7


@pytest.mark.parametrize(
    ("table", "options", "told"),
    [
        ("CREATE TABLE ev (id bigint)", {"incrementing.column.name": "id"}, r"validate\.non\.null=false"),
        ("CREATE TABLE ev (id bigint PRIMARY KEY)", {}, r"incrementing\.column\.name"),
        ("CREATE TABLE ev (id bigserial)", {"incrementing.column.name": "nr"}, "no column nr"),
        ("CREATE TABLE ev (id bigserial)", {"tidings.record.key": "primary.key"}, "no primary key"),
        (
            "CREATE TABLE ev (id bigserial, v date); INSERT INTO ev (v) VALUES ('infinity')",
            {},
            "column v of table",
        ),
        (
            "CREATE TABLE ev (id bigserial, v date); INSERT INTO ev (v) VALUES ('0044-03-15 BC')",
            {},
            "column v of table",
        ),
        (
            "CREATE TABLE ev (id text NOT NULL)",
            {"incrementing.column.name": "id"},
            "table .*ev: a query failed: operator does not exist",
        ),
        (
            "CREATE TABLE ev (id bigserial, at text NOT NULL)",
            {"mode": "timestamp", "timestamp.column.name": "at"},
            "table .*ev: a query failed: operator does not exist",
        ),
        (
            "CREATE TABLE ev (id bigserial); CREATE SCHEMA s; CREATE TABLE s.ev (id bigserial)",
            {},
            "share the topic q-ev",
        ),
    ],
    ids=[
        "null",
        "no counted column",
        "no such column",
        "no key",
        "infinity",
        "before Christ",
        "text",
        "text as time",
        "two schemas",
    ],
)
def test_what_cannot_be_read_is_told(
    worker: MemoryWorker,
    run: Callable[..., None],
    begin: Callable[..., None],
    table: str,
    options: Any,
    told: str,
) -> None:
    run(table)
    begin(**{"mode": "incrementing", **options})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    error = worker.error
    assert error is not None
    assert re.search(told, f"{error} {getattr(error, 'hint', '')}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "bulk", "query": "SELECT 1", "table.whitelist": "a"}, "table.whitelist"),
        (
            {"mode": "bulk", "connection.url": "jdbc:oracle:thin:@host:1521/x"},
            "'oracle', which is not supported",
        ),
        ({"mode": "bulk", "connection.url": "jdbc:postgresql://h/x?prepareThreshold=0"}, "prepareThreshold"),
        ({"mode": "bulk", "connection.url": "jdbc:postgresql://h/x?password=p"}, "connection.password"),
        ({"mode": "bulk", "connection.url": "postgresql://u:p@h/x"}, "connection.password"),
        ({"mode": "bulk", "db.timezone": "Mars/Olympus"}, "db.timezone"),
        *(({"mode": "bulk", name: "1"}, name) for name in REFUSED),
        *(({"mode": "bulk", option.name: "never"}, option.name) for option in FIXED),
        ({"mode": "bulk", "tidings.reconciliation.interval.ms": "1"}, "tidings.reconciliation.interval.ms"),
        (
            {"mode": "incrementing", "tidings.reconciliation.interval.ms": "1"},
            "tidings.reconciliation.deletes",
        ),
        ({"mode": "bulk", "tidings.late.commits": "wait"}, "tidings.late.commits"),
        ({"mode": "bulk", "dialect.name": "MySqlDatabaseDialect"}, "dialect.name is of mariadb"),
        ({"mode": "bulk", "transaction.isolation.mode": "READ_UNCOMMITTED"}, "transaction.isolation.mode"),
        ({"mode": "bulk", "table.exclude.list": "a"}, "table.exclude.list"),
        ({"mode": "bulk", "table.include.list": "a("}, "table.include.list"),
        ({"mode": "bulk", "table.include.list": "a", "table.whitelist": "a"}, "table.include.list"),
        ({"mode": "timestamp", "timestamp.columns.mapping": "a:b"}, "timestamp.columns.mapping"),
        ({"mode": "incrementing", "incrementing.column.mapping": "a:[b]"}, "incrementing.column.mapping"),
        (
            {"mode": "incrementing", "incrementing.column.mapping": "a:b", "incrementing.column.name": "b"},
            "incrementing.column.mapping",
        ),
        ({"mode": "bulk", "query": "SELECT 1", "query.masked": "SELECT 2"}, "query.masked"),
        ({"mode": "bulk", "query": "SELECT 1", "table.include.list": "a"}, "leave out table.include.list"),
        ({"mode": "timestamp", "timestamp.column.name": "u", "query.suffix": "limit 3"}, "query.suffix"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(
    begin: Callable[..., None], options: Any, told: Any
) -> None:
    with pytest.raises(OptionError, match=told.replace(".", r"\.")):
        begin(**options)


@pytest.mark.listing
def test_every_option_stands_on_the_page_once() -> None:
    shown = [option.name for options in PAGE.sections.values() for option in options]
    shown += [option.name for option in PAGE.own]
    assert sorted(shown) == sorted(option.name for option in OPTIONS if option.name != SHARE)


def test_tables_are_spread_over_tasks() -> None:
    connector = JdbcSource()
    config = {"connection.url": "postgresql://h/d", "mode": "bulk", "topic.prefix": "q"}
    assert len(connector.task_configs(config, 3)) == 3
    assert len(connector.task_configs({**config, "table.whitelist": "a,b"}, 3)) == 2
    assert len(connector.task_configs({**config, "query": "SELECT 1"}, 3)) == 1
