"""What can be wrong gives one clear message that names the setting, and a state that shows it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql as build
from psycopg.conninfo import conninfo_to_dict

from tidings_stack.capture import CaptureWorker as Worker


def message_of(worker: Worker, config: Any) -> Any:
    status, body = worker.request("PUT", f"/connectors/{config['topic.prefix']}/config", config)
    assert status == 400, body
    assert body["error_code"] == 400
    assert worker.request("GET", f"/connectors/{config['topic.prefix']}")[0] == 404
    return body["message"]


def failure_of(worker: Worker, create: Callable[..., str], config: Any) -> Any:
    name = create(config, state="FAILED")
    trace = worker.task(name)["trace"]
    ready = worker.request("GET", "/readyz")
    assert ready[0] == 503
    assert name in str(ready[1])
    assert (
        f'kafka_connect_worker_connector_failed_task_count{{connector="{name}"}} 1.0'
        in worker.request("GET", "/metrics")[1]
    )
    return trace.splitlines()


def test_wrong_password(worker: Worker, connector_config: dict[str, str]) -> None:
    message = message_of(worker, connector_config | {"database.password": "wrong-word"})
    assert "database.password" in message
    assert "28P01" in message
    assert "wrong-word" not in message


def test_unreachable_database(worker: Worker, connector_config: dict[str, str]) -> None:
    message = message_of(worker, connector_config | {"database.port": "1"})
    assert "database.port=1" in message


def test_missing_database(worker: Worker, connector_config: dict[str, str]) -> None:
    assert "database.dbname=absent" in message_of(worker, connector_config | {"database.dbname": "absent"})


def test_invalid_options_all_in_one_message(worker: Worker, connector_config: dict[str, str]) -> None:
    message = message_of(
        worker, connector_config | {"slot.nam": "x", "snapshot.mode": "y", "post.processors": "x"}
    )
    assert "contains the following 3 error(s)" in message
    assert "did you mean slot.name?" in message
    assert "post.processors is an option of Debezium's that is not implemented here" in message


def test_wal_level_replica(
    worker: Worker, connector_config: dict[str, str], pg_server: Callable[..., Any]
) -> None:
    server = pg_server("16", wal_level="replica")
    try:
        parts = conninfo_to_dict(server.url)
        there = {
            "database.port": str(parts["port"]),
            "database.password": str(parts["password"]),
            "database.dbname": "postgres",
        }
        message = message_of(worker, connector_config | there)
    finally:
        server.close()
    assert "wal_level=replica" in message
    assert "wal_level = logical" in message


def test_missing_table(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    lines = failure_of(worker, create, connector_config | {"table.include.list": "public.a,public.absent"})
    assert lines[0].startswith("catalog: table.include.list names public.absent,")
    assert "no further attempt" in lines


def test_missing_publication(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    lines = failure_of(worker, create, connector_config | {"publication.autocreate.mode": "disabled"})
    assert f"publication.name={connector_config['publication.name']} does not exist" in lines[0]
    assert "publication.autocreate.mode=disabled" in lines[0]


def test_unreachable_registry(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    avro = "io.confluent.connect.avro.AvroConverter"
    lines = failure_of(
        worker,
        create,
        connector_config
        | {
            "value.converter": avro,
            "value.converter.schema.registry.url": "http://127.0.0.1:1/apis/ccompat/v7",
        },
    )
    assert lines[0].startswith("registry:")
    assert "127.0.0.1:1" in lines[0]


@pytest.mark.parametrize("harm", ["dropped", "recreated"])
def test_a_slot_behind_our_back_is_never_silent(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
    harm: str,
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config)
    sql("INSERT INTO a VALUES (1)")
    wait_records(f"{name}.public.a", 1)
    assert worker.request("PUT", f"/connectors/{name}/pause")[0] == 202
    rests = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}' AND NOT active"
    wait_until("the slot to be free", lambda: sql(rests))
    sql(f"SELECT pg_drop_replication_slot('{name}')", "INSERT INTO a VALUES (2)")
    if harm == "recreated":
        sql(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202
    trace = worker.wait_task(name, "FAILED")["trace"]
    assert trace.startswith(f"slot: slot.name={name}")
    assert ("does not exist any more" if harm == "dropped" else "past the stored offset") in trace
    assert "snapshot.mode=when_needed" in trace
    # The way out that the message names.
    again = connector_config | {"snapshot.mode": "when_needed"}
    assert worker.request("PUT", f"/connectors/{name}/config", again)[0] == 200
    worker.wait_task(name, "RUNNING")
    ids = {r.value["after"]["id"] for r in wait_records(f"{name}.public.a", 3)}
    assert ids == {1, 2}


def test_slot_of_another_plugin(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    sql(f"SELECT pg_create_logical_replication_slot('{connector_config['slot.name']}', 'test_decoding')")
    assert "test_decoding" in failure_of(worker, create, connector_config)[0]


def test_lost_privileges_are_not_repeated_values(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
) -> None:
    role = f"r_{unique_name}"
    sql(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "INSERT INTO a VALUES (1)",
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'p'",
    )
    sql(f"CREATE PUBLICATION {unique_name} FOR TABLE a")
    try:
        config = connector_config | {
            "database.user": role,
            "database.password": "p",
            "publication.autocreate.mode": "disabled",
        }
        lines = failure_of(worker, create, config)
        assert "42501" in lines[0]
        worker.request("DELETE", f"/connectors/{unique_name}")
    finally:
        sql(build.SQL("DROP ROLE {}").format(build.Identifier(role)).as_string(None))


def run_worker(path: Any) -> Any:
    command = [str(Path(sys.executable).with_name("tidings-capture")), str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=dict(os.environ), check=False
    )


def test_unreachable_broker(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text(
        "bootstrap.servers=127.0.0.1:1\ngroup.id=g\nlisteners=http://127.0.0.1:0\n"
        "config.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"
    )
    result = run_worker(path)
    assert result.returncode == 1
    assert "no Kafka broker answers at bootstrap.servers=127.0.0.1:1" in result.stderr


def test_unreadable_or_incomplete_properties(tmp_path: Path) -> None:
    result = run_worker(tmp_path / "absent.properties")
    assert result.returncode == 2
    assert "absent.properties" in result.stderr
    path = tmp_path / "worker.properties"
    path.write_text("bootstrap.servers=127.0.0.1:1\n")
    result = run_worker(path)
    assert result.returncode == 2
    assert "group.id is missing" in result.stderr


def test_storage_topics_that_kafka_refuses(worker_properties: Callable[..., Path], unique_name: str) -> None:
    path = worker_properties(f"group-{unique_name}", offset_storage_replication_factor="5")
    result = run_worker(path)
    assert result.returncode == 1
    assert "offset.storage.replication.factor=5" in result.stderr
