"""Pages for the night, run as they stand: their commands in a shell, their answers as they are told."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tidings_stack.capture import CaptureWorker as Worker

PAGES = Path(__file__).parents[3] / "docs/how-to"
NEEDED = ("curl", "jq", "psql")

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in NEEDED), reason="the pages' commands need curl, jq and psql"
)


def blocks(page: str) -> list[tuple[str, str]]:
    """The page's commands, each with the answer that follows it; empty: none is told."""
    text = (PAGES / page).read_text("utf-8")
    found = re.findall(r"^( *)```(bash|text)\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    told = [(language, textwrap.dedent(body)) for _, language, body in found]
    return [
        (body, following[1] if following[0] == "text" else "")
        for (language, body), following in zip(told, [*told[1:], ("", "")], strict=True)
        if language == "bash"
    ]


def answer_pattern(answer: str, environment: dict[str, str]) -> str:
    """What a page tells, with this connector's name for the page's, and anything for three dots."""
    named = re.sub(r"\bshop\b", environment["NAME"], answer.rstrip())
    return re.escape(named).replace(re.escape("..."), ".*")


@pytest.fixture
def paste(wait_until: Callable[..., Any]) -> Callable[..., None]:
    """Runs a block as somebody does who is too early: again, until it answers as the page says."""

    def run(commands: str, answer: str, environment: dict[str, str]) -> None:
        said = ""

        def answers() -> bool:
            nonlocal said
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands],
                env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"} | environment,
                capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
            said = done.stdout + done.stderr
            assert done.returncode == 0, said
            return re.match(answer_pattern(answer, environment), said) is not None

        try:
            wait_until(f"{commands!r} to answer {answer!r}", answers, 120)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said {said!r}") from error

    return run


def test_a_lost_slot(
    worker: Worker,
    connector_config: dict[str, str],
    pg_database: str,
    unique_name: str,
    create: Callable[..., str],
    paste: Callable[..., None],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    def sql(*statements: str) -> None:
        with psycopg.connect(pg_database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
    name = create(connector_config)
    wait_records(f"{name}.public.a", 2)
    assert worker.request("PUT", f"/connectors/{name}/stop")[0] == 204
    wait_until("the task to end", lambda: worker.request("GET", f"/connectors/{name}/tasks")[1] == [])
    sql(
        f"SELECT pg_drop_replication_slot('{unique_name}')",
        "INSERT INTO a VALUES (3)",
        "DELETE FROM a WHERE id = 1",
    )
    assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202

    environment = {"CAPTURE": worker.url, "NAME": name, "DATABASE": pg_database}
    for commands, answer in blocks("lost-slot.md"):
        paste(commands, answer, environment)

    def told() -> bool:
        values = [record.value for record in read_topic(f"{name}.public.a") if record.value is not None]
        deleted = {value["before"]["id"] for value in values if value["op"] == "d"}
        return deleted == {1} and {v["after"]["id"] for v in values if v["op"] != "d"} == {1, 2, 3}

    wait_until("what was missed", told, 120)


def test_a_failover(
    stack: Any,
    pg_server: Callable[..., Any],
    worker: Worker,
    connector_config: dict[str, str],
    unique_name: str,
    create: Callable[..., str],
    paste: Callable[..., None],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    primary = pg_server("17")
    replica = stack.add_replica(primary, {})
    password = str(conninfo_to_dict(primary.url)["password"])

    def ask(server: Any, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def captured() -> set[int]:  # a record may come twice when its server is killed
        return {record.value["after"]["id"] for record in read_topic(f"{name}.public.a") if record.value}

    ask(primary, "CREATE TABLE a (id int PRIMARY KEY)")
    name = create(
        connector_config
        | {
            "database.port": str(primary.port),
            "database.password": password,
            "database.dbname": "postgres",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.a",
        }
    )
    ask(primary, "INSERT INTO a VALUES (1)")
    wait_records(f"{name}.public.a", 1)
    ((standby_slot,),) = ask(
        primary, "SELECT slot_name FROM pg_replication_slots WHERE slot_type = 'physical'"
    )
    environment = {
        "PRIMARY": primary.url, "REPLICA": replica.url, "CAPTURE": worker.url, "NAME": name, "SLOT": unique_name,
        "STANDBY_SLOT": standby_slot, "HOST": "127.0.0.1", "PORT": str(replica.port), "PASSWORD": password,
    }  # fmt: skip
    try:
        for commands, answer in blocks("failover.md"):
            if "pg_promote" in commands:
                ask(primary, "INSERT INTO a VALUES (2)")
                wait_records(f"{name}.public.a", 2)
                wait_until("the row on the replica", lambda: ask(replica, "SELECT count(*) FROM a") == [(2,)])
                primary.kill()
            paste(commands, answer, environment)
        ask(replica, "INSERT INTO a VALUES (3)")
        wait_until("the new primary's row", lambda: captured() == {1, 2, 3}, 120)
    finally:
        replica.close()
        primary.close()
