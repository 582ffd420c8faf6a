"""`tidings sinks rebuild`: the example's read model in PostgreSQL, from zero beside the live one, switched over while somebody reads,
killed at each step, taken back, given up."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from end_to_end import put_connectors
from psycopg.conninfo import conninfo_to_dict
from rebuild_parts import Events, Place, looking, status_of

from tidings_cli.main import main as doctor
from tidings_stack.capture import CaptureWorkers
from tidings_stack.waiting import wait_for

NAME = "orders-placed"
POINTS = (
    "created",
    "prepared",
    "resumed",
    "caught_up",
    "checked",
    "stopped",
    "switched",
    "forgotten",
    "dropped",
)


class Tables:
    """The target's database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection = psycopg.connect(url, autocommit=True)

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def schemas(self) -> set[str]:
        found = self("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'public%'")
        return {name for (name,) in found} - {"public"}

    def look(self, connection: psycopg.Connection[Any]) -> int:
        """How many orders a reader sees: a whole beginning of the events, whichever version it is."""
        ((count, last),) = connection.execute(
            "SELECT count(*), coalesce(max(order_id), 0) FROM orders_placed"
        ).fetchall()
        assert count == last
        return int(count)


@pytest.fixture
def tables(pg_database: str) -> Iterator[Tables]:
    tables = Tables(pg_database)
    yield tables
    tables.connection.close()


@pytest.fixture
def events(kafka_bootstrap: str, registry_url: str, unique_name: str) -> Events:
    events = Events(kafka_bootstrap, registry_url, f"{unique_name}.order-placed.v2")
    events.more(1500)
    return events


@pytest.fixture
def place(
    pg_database: str,
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    tmp_path: Path,
    events: Events,
) -> Iterator[Place]:
    parts = conninfo_to_dict(pg_database)
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        secrets = {"user": str(parts["user"]), "password": str(parts["password"])}
        place = Place(workers, tmp_path, unique_name, registry_url, secrets)
        url = f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}"
        place.create(
            NAME,
            "orders-placed.json",
            events.topic,
            connection_url=url,
            consumer_override_max_poll_records="3",
        )
        yield place


def wait_for_rows(tables: Tables, events: Events) -> None:
    there = "SELECT to_regclass('public.orders_placed') IS NOT NULL"
    wait_for("the table", lambda: tables(there) == [(True,)], 60)
    wait_for("the first orders", lambda: tables.look(tables.connection) == events.last, 60)


def test_a_table_is_rebuilt_killed_at_each_step_and_taken_back(
    place: Place, tables: Tables, events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_rows(tables, events)
    tables("CREATE INDEX by_currency ON orders_placed (currency)")
    tables(f"CREATE ROLE {place.properties.stem} ; GRANT SELECT ON orders_placed TO {place.properties.stem}")
    reader = psycopg.connect(tables.url, autocommit=True)
    with reader, looking(lambda: tables.look(reader), events) as seen:
        # A version that is given up leaves nothing behind.
        place.rebuild_until("rebuild.resumed", NAME)
        place.rebuild_until("rebuild.forgotten", NAME, "--abort")
        assert place.rebuild(NAME, "--abort") == 0
        assert place.names() == {NAME}
        assert tables.schemas() == set()
        assert tables("SELECT count(*) FROM tidings_sink_positions WHERE consumer_group LIKE '%-v2'") == [
            (0,)
        ]
        # The second in place of the first, which is a table yet.
        for point in POINTS:
            place.rebuild_until(f"rebuild.{point}", NAME)
        assert place.rebuild(NAME) == 0
        assert place.names() == {f"{NAME}-v2"}
        assert tables.schemas() == {"public__orders_placed_v2"}
        # The third in place of the second, which is kept: in one go, so that it has to be waited for; and back, and forth.
        assert place.rebuild(NAME, "--keep") == 0
        assert place.rebuild(NAME, "--keep") == 0  # nothing is left to do
        status = status_of(place, NAME, capsys)
        assert [(one["version"], one["live"], one["state"]) for one in status["versions"]] == [
            (2, False, "RUNNING"),
            (3, True, "RUNNING"),
        ]
        assert place.rebuild(NAME, "--undo") == 0
        sigkill(place, "rebuild.switching", tmp_path, "--keep")
        assert status_of(place, NAME, capsys)["live"] == 2
        assert place.rebuild(f"{NAME}-v2", "--abort") == 0
        assert place.names() == {f"{NAME}-v2"}
    assert len(seen) > 50
    # What a person had made on the table is there, and rights of readers.
    assert tables("SELECT schemaname, tablename FROM pg_indexes WHERE indexname = 'by_currency'") == [
        ("public__orders_placed_v2", "orders_placed")
    ]
    role = place.properties.stem
    assert tables(f"SELECT has_table_privilege('{role}', 'orders_placed', 'SELECT')") == [(True,)]
    tables(f"DROP OWNED BY {role}; DROP ROLE {role}")


def sigkill(place: Place, point: str, directory: Path, *options: str) -> None:
    """The command as a process of its own that is killed at a point."""
    file = directory / "point"
    file.write_text(f"{point} kill 0", "ascii")
    command = [sys.executable, "-m", "tidings_sinks.rebuild.command", "rebuild", NAME, "--worker", str(place.properties), *options]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, "TIDINGS_FAULT_POINTS": str(file)}, check=False)
    assert done.returncode == -9
    assert not file.exists()


def test_what_stands_against_a_switch_is_told_and_nothing_is_switched(
    place: Place, tables: Tables, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.rebuild("of-nobody") == 1
    assert "there is no connector of-nobody" in capsys.readouterr().err
    assert place.rebuild(NAME, "--undo") == 1
    assert f"{NAME} has no former version" in capsys.readouterr().err
    wait_for_rows(tables, events)
    # A view that would go on reading the former table.
    tables("CREATE VIEW report AS SELECT currency, count(*) FROM orders_placed GROUP BY 1")
    assert place.rebuild(NAME) == 1
    assert "report read public.orders_placed" in capsys.readouterr().err
    assert tables("SELECT relkind FROM pg_class WHERE oid = 'orders_placed'::regclass") == [("r",)]
    wait_for("the live one to go on", lambda: place.worker.task(NAME)["state"] == "RUNNING", 60)
    tables("DROP VIEW report")
    # A check that refuses, and that knows what it looks at.
    assert place.rebuild(NAME, "--check", 'test "$TIDINGS_REBUILD_SUFFIX" = wrong') == 3
    assert f"the check of {NAME}-v2 ended with 1" in capsys.readouterr().err
    # A transaction that would see a part of it; and one that holds the table.
    with psycopg.connect(tables.url) as old:
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT 1")
        place.rebuild_until("rebuild.stopped", NAME)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidings_sinks.rebuild.rebuild._TURN_SECONDS", 2.0)
            assert place.rebuild(NAME) == 1
        assert "transactions that began before" in capsys.readouterr().err
    wait_for("the live one to go on", lambda: place.worker.task(NAME)["state"] == "RUNNING", 60)
    suffix = "__orders_placed_v2"
    assert place.rebuild(NAME, "--keep", "--check", f'test "$TIDINGS_REBUILD_SUFFIX" = {suffix}') == 0
    assert tables("SELECT relkind FROM pg_class WHERE oid = 'orders_placed'::regclass") == [("v",)]
    # The doctor looks at every sink that the worker runs: both versions are sound, another is not.
    lines = {"connector.class": "FileStreamSink", "topics": events.topic, "file": "/of-nobody/lines"}
    put_connectors(place.worker, {"lines": lines})
    capsys.readouterr()
    assert doctor(["doctor", "--worker", str(place.properties), "--sinks", "--json"]) == 3
    found = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["place"] == "sink"]
    assert {one["code"] for one in found} <= {"no-directory", "failed"}
    assert all(one["what"].startswith("lines: ") for one in found)
    assert (
        doctor(
            [
                "doctor",
                "--worker",
                str(place.properties),
                "--sinks",
                "--url-of-worker",
                "http://127.0.0.1:1",
                "--json",
            ]
        )
        == 3
    )
    assert "unreachable" in capsys.readouterr().out
    # The first one, which was a table, goes on in its own place.
    events.more()
    first = "SELECT count(*) FROM public__orders_placed_v1.orders_placed"
    wait_for("the kept one to go on", lambda: tables(first) == [(events.last,)], 60)
