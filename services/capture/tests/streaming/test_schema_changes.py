"""DDL as events: from the event trigger with its statements, and from Relation messages without it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tidings_stack.capture import CaptureWorker as Worker

CHANGES = [
    "CREATE TABLE items (id int PRIMARY KEY, name varchar(20) NOT NULL)",
    "INSERT INTO items VALUES (1, 'a')",
    "ALTER TABLE items ADD COLUMN price numeric(10,2) DEFAULT 1.5, DROP COLUMN name",
    "INSERT INTO items VALUES (2, 3)",
    "ALTER TABLE items RENAME TO things",
    "CREATE TABLE \"left out\" (id int)",
    "CREATE TYPE mood AS ENUM ('good')",
    "INSERT INTO things VALUES (3, 4)",
    "DROP TABLE things",
    "DROP TYPE mood",
    "CREATE TABLE zz_end (id int PRIMARY KEY)",
]  # fmt: skip


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(Path(sys.executable).with_name("tidings-capture"))
    return subprocess.run(
        [script, *arguments], capture_output=True, text=True, timeout=60, env=dict(os.environ), check=False
    )


@pytest.fixture
def trigger(pg_database: str) -> None:
    done = command("ddl", "install", pg_database)
    assert (done.returncode, done.stdout) == (0, "the DDL trigger is installed\n"), done.stderr


@pytest.fixture
def capture(create: Callable[..., str], connector_config: dict[str, str]) -> Callable[..., Any]:
    def start(**options: Any) -> None:
        create(
            {
                **connector_config,
                "snapshot.mode": "no_data",
                "tidings.schema.changes": "true",
                "provide.transaction.metadata": "true",
                "table.exclude.list": "public\\.left out",
                **options,
            }
        )

    return start


def shape(table: Any) -> Any:
    return table and [(column["name"], column["type"]) for column in table["columns"]]


def test_statements_in_order_with_before_and_after(
    trigger: None,
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    unique_name: str,
) -> None:
    capture()
    sql(*CHANGES)
    records = wait_records(f"{unique_name}.schema-changes", 7)
    told = [
        (r.value["command"], r.value["object"], shape(r.value["before"]), shape(r.value["after"]))
        for r in records
    ]
    old, new = (
        [("id", "integer"), ("name", "character varying(20)")],
        [("id", "integer"), ("price", "numeric(10,2)")],
    )
    assert told == [
        ("CREATE TABLE", "public.items", None, old),
        ("ALTER TABLE", "public.items", old, new),
        ("ALTER TABLE", "public.things", new, new),
        ("CREATE TYPE", "public.mood", None, None),
        ("DROP TABLE", "public.things", new, None),
        ("DROP TYPE", "public.mood", None, None),
        ("CREATE TABLE", "public.zz_end", None, [("id", "integer")]),
    ]
    assert [r.value["statement"] for r in records] == [
        s for s in CHANGES if not s.startswith("INSERT") and "left out" not in s
    ]
    rename = records[2].value
    assert (rename["before"]["name"], rename["after"]["name"], rename["after"]["key"]) == (
        "items",
        "things",
        ["id"],
    )
    assert records[1].value["after"]["columns"][1] == {
        "name": "price", "type": "numeric(10,2)", "nullable": True, "default": "1.5",
    }  # fmt: skip
    assert {r.value["origin"] for r in records} == {"trigger"}
    lsns = [r.value["source"]["lsn"] for r in records]
    assert lsns == sorted(set(lsns))
    assert all(r.value["source"]["txId"] and r.value["source"]["ts_us"] for r in records)
    assert records[0].key["table"] == "items"


def test_messages_of_the_trigger_never_show_as_messages(
    trigger: None,
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    unique_name: str,
) -> None:
    capture(**{"tidings.schema.changes": "false"})
    sql("CREATE TABLE items (id int)", "SELECT pg_logical_emit_message(false, 'other', 'x')")
    (record,) = wait_records(f"{unique_name}.message", 1)
    assert record.key == {"prefix": "other"}
    assert read_topic(f"{unique_name}.schema-changes") == []


def test_without_the_trigger_relation_messages_tell(
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    unique_name: str,
) -> None:
    capture()
    sql(*CHANGES, "INSERT INTO zz_end VALUES (1)")
    wait_records(f"{unique_name}.public.zz_end", 1)
    told = [
        (
            r.value["origin"],
            shape(r.value["before"]),
            shape(r.value["after"]),
            r.value["after"]["key"],
            r.key["table"],
        )
        for r in read_topic(f"{unique_name}.schema-changes")
    ]
    old, new = (
        [("id", "integer"), ("name", "character varying(20)")],
        [("id", "integer"), ("price", "numeric(10,2)")],
    )
    assert told == [("relation", old, new, ["id"], "items"), ("relation", new, new, ["id"], "things")]


def test_a_rolled_back_statement_is_not_told_and_a_savepoint_is_honoured(
    trigger: None,
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    unique_name: str,
) -> None:
    capture()
    sql(
        "BEGIN", "CREATE TABLE undone (id int)", "ROLLBACK",
        "BEGIN", "SAVEPOINT a", "CREATE TABLE gone (id int)", "ROLLBACK TO a", "CREATE TABLE kept (id int)", "COMMIT",
        "DROP TABLE kept",
    )  # fmt: skip
    records = wait_records(f"{unique_name}.schema-changes", 2)
    assert [r.value["object"] for r in records] == ["public.kept", "public.kept"]


def test_install_remove_and_status(pg_database: str, sql: Callable[..., list[tuple[Any, ...]]]) -> None:
    assert command("ddl", "status", pg_database).returncode == 3
    for _ in range(2):
        assert command("ddl", "install", pg_database).returncode == 0
    assert command("ddl", "status", pg_database).returncode == 0
    for _ in range(2):
        assert command("ddl", "remove", pg_database).returncode == 0
    assert sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'tidings'") == [(0,)]
    assert sql("SELECT count(*) FROM pg_event_trigger") == [(0,)]


def test_installing_needs_a_superuser_and_says_so(
    pg_database: str, sql: Callable[..., list[tuple[Any, ...]]], unique_name: str
) -> None:
    sql(f"CREATE ROLE {unique_name} LOGIN PASSWORD 'secret-word'")
    sql(
        f"GRANT CREATE ON DATABASE {psycopg.conninfo.conninfo_to_dict(pg_database)['dbname']} TO {unique_name}"
    )
    try:
        url = psycopg.conninfo.make_conninfo(pg_database, user=unique_name, password="secret-word")
        done = command("ddl", "install", url)
        assert done.returncode == 1
        assert "superuser" in done.stderr
        assert "secret-word" not in done.stderr
        assert sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'tidings'") == [(0,)]
    finally:
        sql(f"DROP OWNED BY {unique_name}", f"DROP ROLE {unique_name}")


def test_a_schema_of_somebody_else_is_not_trusted(
    pg_database: str, sql: Callable[..., list[tuple[Any, ...]]], unique_name: str
) -> None:
    sql(f"CREATE ROLE {unique_name}", f"CREATE SCHEMA tidings AUTHORIZATION {unique_name}")
    try:
        done = command("ddl", "install", pg_database)
        assert (done.returncode, "belongs to another role" in done.stderr) == (1, True)
        assert sql("SELECT count(*) FROM pg_event_trigger") == [(0,)]
    finally:
        sql(f"DROP OWNED BY {unique_name}", f"DROP ROLE {unique_name}")


def test_the_trigger_never_makes_a_statement_fail(
    trigger: None, sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    sql("ALTER TABLE tidings.ddl_tables RENAME TO broken", "CREATE TABLE still_works (id int)")
    assert sql("SELECT to_regclass('still_works') IS NOT NULL") == [(True,)]


ELSEWHERE = [
    "CREATE TABLE p (id int, d int) PARTITION BY RANGE (d)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (d)",
    "CREATE TABLE p2 PARTITION OF p1 FOR VALUES FROM (0) TO (9)",
    "CREATE SCHEMA odd CREATE TABLE t (id int) CREATE VIEW v AS SELECT 1",
    "CREATE TYPE mood AS ENUM ('good')",
    "CREATE DOMAIN name AS text",
    "CREATE TABLE m (id int, one mood, more mood[], name public.name DEFAULT 'x')",
    "CREATE SEQUENCE s",
    "ALTER TABLE m ALTER id SET DEFAULT nextval('s')",
    "CREATE EXTENSION citext",
    "CREATE TABLE c (id int, c citext)",
]
COLUMNS_OF_M = [("id", "integer"), ("one", "public.mood"), ("more", "public.mood[]"), ("name", "public.name")]
OF_P = [("id", "integer"), ("d", "integer")]
MORE = [*OF_P, ("more", "integer")]


def test_tables_that_a_statement_changes_beside_its_own(
    trigger: None,
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    unique_name: str,
) -> None:
    sql(*ELSEWHERE)
    capture()
    sql(
        "ALTER TABLE p ADD COLUMN more int",
        "ALTER TABLE p1 DETACH PARTITION p2",
        "ALTER SCHEMA odd RENAME TO even",
        "ALTER TYPE mood RENAME TO temper",
        "DROP TYPE temper CASCADE",
        "DROP SEQUENCE s CASCADE",
        "DROP EXTENSION citext CASCADE",
        "DROP SCHEMA even CASCADE",
        "CREATE SCHEMA odd CREATE VIEW v AS SELECT 1 CREATE VIEW w AS SELECT 1",
        "CREATE TABLE zz_end ()",
    )
    records = wait_records(f"{unique_name}.schema-changes", 19)
    told = [
        (r.value["command"], r.value["object"], shape(r.value["before"]), shape(r.value["after"]))
        for r in records
    ]
    renamed = [(name, kind.replace("mood", "temper")) for name, kind in COLUMNS_OF_M]
    left = [COLUMNS_OF_M[0], COLUMNS_OF_M[3]]
    assert told[:-1] == [
        ("ALTER TABLE", "public.p", OF_P, MORE),
        ("ALTER TABLE", "public.p1", OF_P, MORE),
        ("ALTER TABLE", "public.p2", OF_P, MORE),
        ("ALTER TABLE", "public.p1", MORE, MORE),
        ("ALTER SCHEMA", "even", None, None),
        ("ALTER SCHEMA", "even.t", [("id", "integer")], [("id", "integer")]),
        ("ALTER TYPE", "public.temper", None, None),
        ("ALTER TYPE", "public.m", COLUMNS_OF_M, renamed),
        ("DROP TYPE", "public.temper", None, None),
        ("DROP TYPE", "public.m", renamed, left),
        ("DROP SEQUENCE", "public.s", None, None),
        ("DROP SEQUENCE", "public.m", left, left),
        ("DROP EXTENSION", "public.c", [("id", "integer"), ("c", "public.citext")], [("id", "integer")]),
        ("DROP SCHEMA", "even", None, None),
        ("DROP SCHEMA", "even.t", [("id", "integer")], None),
        ("CREATE SCHEMA", "odd", None, None),
        ("CREATE SCHEMA", "odd.v", None, None),
        ("CREATE SCHEMA", "odd.w", None, None),
    ]
    default = [r.value["after"]["columns"][0]["default"] for r in (records[9], records[11])]
    assert default == ["nextval('public.s'::regclass)", None]


FOREIGN = (
    "no JSON",
    "1",
    "{}",
    '{"command": "DROP TABLE", "object_type": "table", "object": "x", "table": "x", "schema": "public"}',
    '{"command": "x", "object_type": "x", "object": "x", "before": {"schema": "x", "name": 1}}',
    (
        '{"command": "x", "object_type": "x", "object": "x", "after": '
        '{"schema": "x", "name": "x", "key": [], "columns": [{"name": "x"}]}}'
    ),
)


def test_passwords_long_texts_and_messages_of_others(
    trigger: None,
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    unique_name: str,
    worker: Worker,
) -> None:
    capture()
    secrets = (
        f"ALTER ROLE {unique_name} PASSWORD 'secret-word'",
        f"ALTER ROLE {unique_name} PASSWORD /* a */ E'secret-word'",
        f"ALTER ROLE {unique_name} PASSWORD $x$secret-word$x$",
        "SELECT 'host=x password=secret-word'",
        "SELECT 'postgresql://someone:secret-word@host/x'",
    )
    sql(f"CREATE ROLE {unique_name}")
    for number, statement in enumerate(secrets):
        sql(f"{statement}; CREATE TABLE t{number} (password text DEFAULT 'x')")
    for content in FOREIGN:
        sql(f"SELECT pg_logical_emit_message(true, 'tidings.ddl', $x${content}$x$)")
    told = "CREATE TABLE users (password text DEFAULT 'http://x')"
    sql(told, f"CREATE TABLE long (id int) /* {'x' * 3_000_000} */", f"DROP ROLE {unique_name}")
    records = wait_records(f"{unique_name}.schema-changes", len(secrets) + 2)
    statements = [r.value["statement"] for r in records]
    assert statements[: len(secrets)] == [None] * len(secrets)
    assert statements[-2] == told
    assert (len(statements[-1]), statements[-1][-2:]) == (65_537, "x…")
    assert all(r.value["after"] for r in records)
    log = worker.log.read_text()
    assert log.count("none of the trigger's") == len(FOREIGN)
    assert "secret-word" not in log


def test_order_against_rows_of_one_transaction(
    trigger: None,
    capture: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    unique_name: str,
) -> None:
    capture(**{"tidings.streaming.mode": "on", "table.exclude.list": "public\\.aside"})
    sql(
        "BEGIN",
        "CREATE TABLE items (id int PRIMARY KEY)",
        "INSERT INTO items VALUES (1)",
        "SAVEPOINT s",
        "ALTER TABLE items ADD COLUMN undone int",
        "ROLLBACK TO s",
        "ALTER TABLE items ADD COLUMN kept int",
        "INSERT INTO items VALUES (2, 2)",
        'ALTER TABLE items RENAME TO "Items"',
        'INSERT INTO "Items" VALUES (3, 3)',
        "COMMIT",
        'ALTER TABLE "Items" RENAME TO aside',
        "CREATE TABLE named AS SELECT 1 AS id",
    )
    changes = wait_records(f"{unique_name}.schema-changes", 5)
    rows = [
        r
        for table in ("items", "Items", "named")
        for r in wait_records(f"{unique_name}.public.{table}", 1 if table != "items" else 2)
    ]
    both = sorted((r.value["source"]["lsn"], r.value.get("object", "row")) for r in [*changes, *rows])
    assert [what for _, what in both] == [
        "public.items", "row", "public.items", "row", 'public."Items"', "row", "public.aside", "row", "public.named",
    ]  # fmt: skip
    assert len({r.value["source"]["txId"] for r in [*changes[:3], *rows[:3]]}) == 1
    assert read_topic(f"{unique_name}.public.aside") == []
