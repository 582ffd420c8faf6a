"""`tidings-capture tail`: what a newcomer sees, and that nothing stays behind in his database."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tidings_capture.cdc.cells import UNCHANGED
from tidings_capture.postgres.client import Session, read_url
from tidings_capture.postgres.server.updatable import by_updatable
from tidings_capture.postgres.tail.command import opened
from tidings_capture.postgres.tail.output import JsonOutput, Moment, TextOutput
from tidings_capture.postgres.tail.setup import TailOptions, chosen_tables
from tidings_capture.postgres.wire.messages import Relation, RelationColumn

COMMAND = [str(Path(sys.executable).with_name("tidings-capture")), "tail"]
SETUP = (
    "CREATE TABLE orders (id int PRIMARY KEY, name text, price numeric, ok bool, doc jsonb)",
    "CREATE TABLE other (id int PRIMARY KEY)",
    """INSERT INTO orders VALUES (1, E'é\\n', 12.50, true, '{"a": 1}')""",
)


@pytest.fixture
def tail(pg_database: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts the command; the process and the file its standard output goes to."""
    processes = []

    def start(*arguments: Any, ready: str = "waiting for changes") -> tuple[Any, ...]:
        out, errors = tmp_path / f"out{len(processes)}", tmp_path / f"errors{len(processes)}"
        with out.open("w") as output, errors.open("w") as error:
            process = subprocess.Popen([*COMMAND, pg_database, *arguments], stdout=output, stderr=error)
        processes.append(process)
        while ready not in errors.read_text():
            if process.poll() is not None:
                raise AssertionError(errors.read_text())
        return process, out

    yield start
    for process in processes:
        process.kill()
        process.wait(10)


def refused(*arguments: Any) -> Any:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=dict(os.environ), check=False
    )
    assert done.returncode == 1, done
    return done.stderr


def left_behind(sql: Callable[..., list[tuple[Any, ...]]]) -> Any:
    return sql(
        "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"
        " UNION ALL SELECT pubname::text FROM pg_publication"
    )


def test_lines_for_people_and_nothing_left_behind(
    tail: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], wait_until: Callable[..., Any]
) -> None:
    sql(*SETUP)
    process, out = tail("orders", "--snapshot")
    sql(
        "INSERT INTO orders VALUES (2, 'b', NULL, false, NULL)",
        "INSERT INTO other VALUES (1)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "UPDATE orders SET name = 'c' WHERE id = 2; DELETE FROM orders WHERE id = 1",
        "TRUNCATE orders",
    )
    wait_until("the truncate", lambda: "TRUNCATE" in out.read_text() and "COMMIT" in out.read_text()[-40:])
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    lines = [line for line in out.read_text().splitlines() if not line.startswith(("BEGIN", "COMMIT"))]
    assert lines == [
        """READ     public.orders  id=1 name='é\\n' price=12.50 ok=true doc='{"a": 1}'""",
        "  INSERT   public.orders  id=2 name='b' price=null ok=false doc=null",
        "  UPDATE   public.orders  id=2 name='b'→'c' price=null ok=false doc=null",
        """  DELETE   public.orders  id=1 name='é\\n' price=12.50 ok=true doc='{"a": 1}'""",
        "  TRUNCATE public.orders",
    ]
    assert out.read_text().count("BEGIN") == out.read_text().count("COMMIT") == 3
    assert left_behind(sql) == []


def test_a_durable_slot_goes_on_where_it_ended(
    tail: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    tmp_path: Path,
    pg_database: str,
    unique_name: str,
) -> None:
    sql(*SETUP)
    lines = tmp_path / "changes.jsonl"
    durable = ("--slot", unique_name, "--output", str(lines))
    process, _ = tail(*durable)
    sql("INSERT INTO other VALUES (1)")
    wait_until("a line", lambda: lines.exists() and lines.read_text().endswith("\n"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    sql("INSERT INTO other VALUES (2); DELETE FROM other WHERE id = 1")
    with lines.open("a") as file:
        file.write('{"op":"insert","schema":"pub')  # of a run that was killed
    process, _ = tail(*durable, ready="going on after")
    wait_until("the rest", lambda: lines.read_text().count("\n") == 3)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [(f["op"], f.get("after"), f.get("before")) for f in found] == [
        ("insert", {"id": 1}, None),
        ("insert", {"id": 2}, None),
        ("delete", None, {"id": 1}),
    ]
    subprocess.run([*COMMAND, pg_database, "--slot", unique_name, "--drop"], check=True, timeout=60)
    assert left_behind(sql) == []


def guards(process: Any) -> list[int]:
    """The processes that `tail` has started."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.parametrize("killed", ["process", "group", "while it waits for its slot"])
def test_a_killed_run_leaves_nothing(
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    pg_database: str,
    tmp_path: Path,
    killed: str,
) -> None:
    """Its guard drops what it made, also from a server that waits for open transactions and does not see it gone."""
    sql(*SETUP)
    waits = killed.startswith("while")
    errors = tmp_path / "errors"
    with psycopg.connect(pg_database) as other, errors.open("w") as error:
        if waits:
            other.execute("INSERT INTO other VALUES (1)")
        process = subprocess.Popen(
            [*COMMAND, pg_database], stdout=error, stderr=error, start_new_session=True
        )
        ready = "transactions that are open now" if waits else "waiting for changes"
        wait_until("tail", lambda: ready in errors.read_text())
        for guard in guards(process):
            assert "password" in pg_database.replace(
                "postgres:", "password"
            )  # there is one that could be told
            assert psycopg.conninfo.conninfo_to_dict(pg_database)["password"].encode() not in (
                Path(f"/proc/{guard}/cmdline").read_bytes()
            )
        os.kill(process.pid, signal.SIGKILL) if killed == "process" else os.killpg(
            process.pid, signal.SIGKILL
        )
        process.wait(10)
        wait_until("nothing is left", lambda: left_behind(sql) == [], 30)


def test_what_a_killed_guard_left_goes_with_the_next_run(
    tail: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], wait_until: Callable[..., Any]
) -> None:
    sql(*SETUP)
    process, _ = tail()
    for pid in [*guards(process), process.pid]:
        os.kill(pid, signal.SIGKILL)
    process.wait(10)
    wait_until("the server notices", lambda: len(left_behind(sql)) == 2)  # publications
    process, _ = tail()
    assert len(left_behind(sql)) == 3  # its own
    process.send_signal(signal.SIGINT)
    process.wait(20)
    assert left_behind(sql) == []


KEYLESS = (
    "CREATE TABLE keyed (id int PRIMARY KEY, v int)",
    "CREATE TABLE whole (id int, v int); ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE by_index (id int NOT NULL UNIQUE, v int)",
    "ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_id_key",
    "CREATE TABLE keyless (id int, v int)",
    'CREATE TABLE "Nothing" (id int PRIMARY KEY, v int); ALTER TABLE "Nothing" REPLICA IDENTITY NOTHING',
    "CREATE TABLE late (id int PRIMARY KEY DEFERRABLE, v int)",
    "CREATE TABLE parted (id int, v int) PARTITION BY LIST (id)",
    "CREATE TABLE part_1 PARTITION OF parted FOR VALUES IN (1)",
    "CREATE TABLE part_2 PARTITION OF parted (PRIMARY KEY (id)) FOR VALUES IN (2)",
    "CREATE TABLE parted_keyed (id int PRIMARY KEY, v int) PARTITION BY LIST (id)",
    "CREATE TABLE part_3 PARTITION OF parted_keyed FOR VALUES IN (1)",
)
TABLES = ("keyed", "whole", "by_index", "keyless", '"Nothing"', "late", "parted", "parted_keyed")


@pytest.mark.parametrize("version", ["14", "18"])
def test_what_can_be_updated_is_what_postgresql_says(pg_server: Callable[..., Any], version: str) -> None:
    """Asked by trying, with everything published."""
    server = pg_server(version, wal_level="logical")
    with psycopg.connect(server.url, autocommit=True) as connection:
        for statement in (
            *KEYLESS,
            "CREATE TABLE generated (id int, g int GENERATED ALWAYS AS (id) STORED)",
            "ALTER TABLE generated REPLICA IDENTITY FULL",
            "CREATE TABLE generated_key (id int, g int GENERATED ALWAYS AS (id) STORED PRIMARY KEY)",
            "CREATE TABLE index_gone (id int NOT NULL, CONSTRAINT u UNIQUE (id))",
            "ALTER TABLE index_gone REPLICA IDENTITY USING INDEX u; ALTER TABLE index_gone DROP CONSTRAINT u",
            "CREATE UNLOGGED TABLE unlogged (id int)",
            "CREATE PUBLICATION everything FOR ALL TABLES",
        ):
            connection.execute(statement)
        session = Session(read_url(server.url))
        can, cannot = by_updatable(session, None)
        found = dict.fromkeys((name for _, name in can), True) | dict.fromkeys(
            (name for _, name in cannot), False
        )
        said = {}
        for name in found:
            try:
                connection.execute(f'UPDATE "{name}" SET id = id')
                said[name] = True
            except psycopg.errors.ObjectNotInPrerequisiteState:
                said[name] = False
            except psycopg.errors.InvalidColumnReference:  # 18: its identity holds a generated column
                said[name] = False
        assert found == said
        assert len(set(found.values())) == 2
        assert "unlogged" not in found
        some = by_updatable(session, [("public", "parted"), ("public", "keyed"), ("public", "Nothing")])
        assert some == (
            [("public", "keyed"), ("public", "part_2")],
            [("public", "Nothing"), ("public", "part_1")],
        )
        session.close()
    server.close()


def shown_of(out: Any) -> dict[Any, Any]:
    """What is shown by table: the first letters of its operations."""
    found = {}
    for line in out.read_text().splitlines():
        change = json.loads(line)
        found[change["table"]] = found.get(change["table"], "") + change["op"][0]
    return found


@pytest.mark.parametrize("named", [False, True])
def test_tables_without_a_replica_identity_can_still_be_updated(
    tail: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    tmp_path: Path,
    named: bool,
) -> None:
    """PostgreSQL refuses an application's UPDATE of a table that is published with updates and has none."""
    sql(*KEYLESS)
    given = [table.strip('"') for table in TABLES] if named else []
    process, out = tail(*given, "--format", "json")
    for table in TABLES:
        sql(f"INSERT INTO {table} VALUES (1, 1); UPDATE {table} SET v = 2; DELETE FROM {table}")
    sql("INSERT INTO parted VALUES (2, 1); UPDATE parted SET v = 2; TRUNCATE keyless")
    told = (tmp_path / "errors0").read_text()
    assert "only inserts and truncates" in told
    for table in ("public.keyless", "public.Nothing", "public.late", "public.part_1"):
        assert f"{table}" in told
    assert "public.keyed" not in told
    sql(
        "CREATE TABLE new_keyless (id int); INSERT INTO new_keyless VALUES (1); UPDATE new_keyless SET id = 2"
    )
    sql("CREATE TABLE new_keyed (id int PRIMARY KEY)", "INSERT INTO new_keyed VALUES (1)")
    sql("ALTER TABLE keyed DROP CONSTRAINT keyed_pkey")
    published = "SELECT true FROM pg_publication_tables JOIN pg_publication USING (pubname) WHERE pubupdate AND tablename = "
    wait_until(
        "it is noticed", lambda: not sql(f"{published}'keyed'") and (named or sql(f"{published}'new_keyed'"))
    )
    sql(
        "UPDATE keyed SET v = 3; UPDATE new_keyless SET id = 3; DELETE FROM new_keyed",
        "INSERT INTO whole VALUES (9)",
    )
    wait_until("all of it", lambda: shown_of(out)["whole"] == "iudi")
    new = {} if named else {"new_keyless": "i", "new_keyed": "id"}
    assert shown_of(out) == {
        "keyed": "iud", "whole": "iudi", "by_index": "iud", "keyless": "it", "Nothing": "i", "late": "i",
        "part_1": "i", "part_2": "iu", "part_3": "iud", **new,
    }  # fmt: skip
    told = (tmp_path / "errors0").read_text()
    assert "public.keyed" in told
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert left_behind(sql) == []


def test_a_transaction_that_is_open_can_be_waited_for_or_not(
    tail: Callable[..., Any], sql: Callable[..., list[tuple[Any, ...]]], pg_database: str, tmp_path: Path
) -> None:
    """A slot begins behind the transactions that are open; on a busy server that takes long."""
    sql(*SETUP)
    with psycopg.connect(pg_database) as other:
        other.execute("INSERT INTO other VALUES (1)")
        process, out = tail(ready="transactions that are open now")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert left_behind(sql) == []
        process, out = tail(ready="transactions that are open now")
        other.rollback()
        while "waiting for changes" not in (tmp_path / "errors1").read_text():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert out.read_text() == ""
    assert left_behind(sql) == []


def test_a_server_that_ends_the_stream(
    tail: Callable[..., Any],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
    tmp_path: Path,
    unique_name: str,
) -> None:
    sql(*SETUP)
    durable = ("--slot", unique_name, "--format", "json")
    for arguments, hint in ((), "(with --slot NAME they are)"), (durable, f"again with --slot {unique_name}"):
        process, _ = tail(*arguments)
        sql(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
        )
        assert process.wait(20) == 1
        told = (tmp_path / f"errors{len(list(tmp_path.glob('errors*'))) - 1}").read_text()
        assert "terminating connection due to administrator command" in told
        assert hint in told
    sql("INSERT INTO other VALUES (2)")
    process, out = tail(*durable, ready="going on after")
    wait_until("what came meanwhile", lambda: '"after":{"id":2}' in out.read_text())


@pytest.mark.turns
def test_what_is_wrong_is_said(
    pg_database: str,
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
    pg_server: Callable[..., Any],
) -> None:
    sql(*SETUP)
    assert "did you mean public.orders" in refused(pg_database, "ordes")
    sql('CREATE TABLE "Order lines" (id int PRIMARY KEY)')
    with contextlib.closing(Session(read_url(pg_database))) as session:
        for shown in ('"Order lines"', 'public."Order lines"', '"public"."Order lines"', "Order lines"):
            options = TailOptions(read_url(pg_database), (shown, "orders"))
            assert chosen_tables(session, options) == [("public", "Order lines"), ("public", "orders")]
    assert "cannot be read" in refused("postgresql://user:secret-word@[")
    assert "contains invalid character" in refused(pg_database, "--slot", "Bad Name")
    assert left_behind(sql) == []
    wrong = psycopg.conninfo.make_conninfo(pg_database, dbname="nowhere")
    assert "nowhere" in refused(wrong)
    sql(f"CREATE ROLE {unique_name} LOGIN PASSWORD 'secret-word'")
    try:
        weak = psycopg.conninfo.make_conninfo(pg_database, user=unique_name, password="secret-word")
        assert f'ALTER ROLE "{unique_name}" REPLICATION' in refused(weak)
        sql(f"ALTER ROLE {unique_name} REPLICATION")
        assert "may not publish all tables" in (told := refused(weak))
        assert "secret-word" not in told
    finally:
        sql(f"DROP ROLE {unique_name}")
    replica = pg_server("16", wal_level="replica")
    assert "wal_level" in refused(replica.url)
    replica.close()


@pytest.mark.parametrize(
    ("there", "left"),
    [
        ("", ""),
        ("a\n", "a\n"),
        ("a", "a\n"),
        ("a\nb", "a\nb\n"),
        ('a\n{"op":"insert","schema":"pub', "a\n"),
        ('{"op":"x', ""),
    ],
)
def test_what_a_killed_run_left_of_a_line(tmp_path: Path, there: str, left: str) -> None:
    path = tmp_path / "changes.jsonl"
    path.write_text(there)
    with opened(str(path)) as stream:
        stream.write("more\n")
    assert path.read_text() == left + "more\n"


def test_kafka_is_not_even_loaded() -> None:
    program = "import sys, tidings_capture.postgres.tail.command; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


RELATION = Relation(
    1, "public", "t",  "d",
    (RelationColumn("id", 23, -1, True), RelationColumn("v", 25, -1, False), RelationColumn("n", 1700, -1, False)),
)  # fmt: skip


def test_a_quote_in_a_value_does_not_end_it() -> None:
    relation = Relation(
        1, "s", "t", "f", (RelationColumn("a", 25, -1, True), RelationColumn("b", 25, -1, False))
    )
    line = TextOutput(colours=False).change("insert", relation, None, [b"it's", b"' b='"], Moment(1, 2))
    assert line == "  INSERT   s.t  a='it''s' b=''' b='''\n"


def test_values_cannot_move_the_cursor_and_long_ones_are_cut() -> None:
    text = TextOutput(colours=False).change(
        "insert", RELATION, None, [b"1", b"\x1b[2J" + b"x" * 500, b"NaN"], Moment(16, 5, 0)
    )
    assert "\x1b" not in text
    assert len(text) < 300
    assert text.endswith("n=NaN\n")


def test_json_lines_are_json_whatever_the_value() -> None:
    line = JsonOutput().change("update", RELATION, None, [b"1", UNCHANGED, b"NaN"], Moment(16, 5, 0))
    assert json.loads(line) == {
        "op": "update", "schema": "public", "table": "t", "after": {"id": 1, "n": "NaN"}, "unchanged": ["v"],
        "xid": 5, "lsn": "0/10", "commit_time": "1970-01-01T00:00:00.000000Z",
    }  # fmt: skip
