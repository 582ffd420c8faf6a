"""A real worker: snapshot and stream, Connect's REST API, its storage topics, idle slots."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from tidings_stack.capture import CaptureWorker as Worker


def test_snapshot_then_stream_from_exactly_its_end(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY, t text)", "CREATE TABLE b (id int PRIMARY KEY, at timestamptz)")
    sql("INSERT INTO a SELECT i, 'x' FROM generate_series(1, 3) i", "INSERT INTO b VALUES (1, now())")
    name = create(connector_config | {"provide.transaction.metadata": "true"})
    sql(
        "INSERT INTO a VALUES (4, 'new')",
        "UPDATE a SET t = 'changed' WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
    )
    records = wait_records(f"{name}.public.a", 7)
    (snapshot_b,) = wait_records(f"{name}.public.b", 1)
    assert [(r.value or {}).get("op") for r in records] == ["r", "r", "r", "c", "u", "d", None]
    markers = [r.value["source"]["snapshot"] for r in records[:3]]
    assert markers == ["first", "true", "last_in_data_collection"]
    assert snapshot_b.value["source"]["snapshot"] == "last"
    assert records[5].key == records[6].key == {"id": 2}
    assert records[3].value["after"] == {"id": 4, "t": "new"}
    assert records[0].headers["__debezium.context.connectorLogicalName"] == name.encode()
    assert records[0].value["source"]["lsn"] < records[3].value["source"]["lsn"]
    marks = wait_records(f"{name}.transaction", 6)
    assert [m.value["status"] for m in marks] == ["BEGIN", "END"] * 3
    first = records[3].value["transaction"]
    assert (first["total_order"], first["data_collection_order"]) == (1, 1)
    assert marks[1].value["data_collections"] == [{"data_collection": "public.a", "event_count": 1}]


def test_tables_are_chosen_by_the_lists(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    read_topic: Callable[[str], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    name = create(
        connector_config | {"table.include.list": "public.a", "publication.autocreate.mode": "filtered"}
    )
    sql("INSERT INTO other VALUES (1)", "INSERT INTO a VALUES (1)")
    assert len(wait_records(f"{name}.public.a", 1)) == 1
    assert read_topic(f"{name}.public.other") == []
    published = sql(f"SELECT tablename FROM pg_publication_tables WHERE pubname = '{name}'")
    assert published == [("a",)]


def test_skipped_operations_excluded_columns_and_heartbeats(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY, secret text, t text)")
    name = create(
        connector_config
        | {
            "skipped.operations": "u",
            "column.exclude.list": "public.a.secret",
            "heartbeat.interval.ms": "100",
        }
    )
    sql("INSERT INTO a VALUES (1, 's', 't')", "UPDATE a SET t = 'u'", "TRUNCATE a")
    records = wait_records(f"{name}.public.a", 2)
    assert [r.value["op"] for r in records] == ["c", "t"]
    assert records[0].value["after"] == {"id": 1, "t": "t"}
    assert wait_records(f"__debezium-heartbeat.{name}", 2)[0].value["ts_ms"] > 0


def test_schema_change_in_the_stream(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config | {"snapshot.mode": "no_data"})
    sql("INSERT INTO a VALUES (1)", "ALTER TABLE a ADD COLUMN t text", "INSERT INTO a VALUES (2, 'x')")
    sql("ALTER TABLE a DROP COLUMN t", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (5)")
    sql("INSERT INTO a VALUES (3)")
    rows = [r.value["after"] for r in wait_records(f"{name}.public.a", 3)]
    assert rows == [{"id": 1}, {"id": 2, "t": "x"}, {"id": 3}]
    assert wait_records(f"{name}.public.b", 1)[0].value["after"] == {"id": 5}


def test_a_new_table_although_the_catalog_session_was_ended(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    worker: Worker,
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config)
    wait_until("the stream", lambda: streams(sql, name))  # the snapshot needs the session
    sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'tidings-capture' AND backend_type = 'client backend'"
    )
    sql("CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
    assert wait_records(f"{name}.public.b", 1)[0].value["after"] == {"id": 1}
    restarts = f'tidings_capture_task_restarts_total{{connector="{name}"}} 0.0'
    assert restarts in worker.request("GET", "/metrics")[1]


def test_idle_slot_advances_while_other_tables_are_written(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE busy (id int PRIMARY KEY)")
    name = create(
        connector_config | {"table.include.list": "public.a", "publication.autocreate.mode": "filtered"}
    )
    sql("INSERT INTO busy SELECT generate_series(1, 5000)")
    ((end,),) = sql("SELECT pg_current_wal_lsn()::text")
    confirmed = f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{name}'"
    wait_until("the slot to advance", lambda: sql(confirmed) == [(True,)])
    # What the slot no longer holds is in the stored offset: a restart goes on.
    assert worker.request("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204
    worker.wait_task(name, "RUNNING")


def test_initial_only_reads_and_rests(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    name = create(connector_config | {"snapshot.mode": "initial_only"})
    assert len(wait_records(f"{name}.public.a", 1)) == 1
    assert sql("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    assert worker.task(name)["state"] == "RUNNING"


def test_rest_api_answers_as_kafka_connect_does(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config)
    status, body = worker.request("GET", "/")
    assert (status, body["version"]) == (200, "4.3.1")
    assert len(body["kafka_cluster_id"]) > 10
    assert name in worker.request("GET", "/connectors")[1]
    shown = worker.request("GET", "/connectors?expand=info&expand=status")[1][name]
    assert shown["info"]["type"] == "source"
    assert shown["status"]["tasks"][0]["state"] == "RUNNING"
    status, body = worker.request("GET", f"/connectors/{name}")
    assert (status, body["name"], body["tasks"]) == (200, name, [{"connector": name, "task": 0}])
    config = worker.request("GET", f"/connectors/{name}/config")[1]
    assert config == connector_config | {"name": name, "database.password": "********"}
    assert connector_config["database.password"]
    # The same configuration again, and the masked one, change nothing.
    for again in (connector_config, config):
        pid = worker.request("GET", f"/connectors/{name}/status")
        status, body = worker.request("PUT", f"/connectors/{name}/config", again)
        assert (status, body["config"]["slot.name"]) == (200, name)
        assert worker.request("GET", f"/connectors/{name}/status") == pid
    status, body = worker.request("GET", f"/connectors/{name}/status")
    worker_id = worker.url.removeprefix("http://")
    assert body == {
        "name": name,
        "connector": {"state": "RUNNING", "worker_id": worker_id, "version": "3.7.0.Final"},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": worker_id, "version": "3.7.0.Final"}],
        "type": "source",
    }
    assert worker.request("GET", f"/connectors/{name}/tasks")[1][0]["id"] == {"connector": name, "task": 0}
    assert worker.request("GET", f"/connectors/{name}/tasks/0/status")[1]["state"] == "RUNNING"
    plugins = worker.request("GET", "/connector-plugins")[1]
    assert connector_config["connector.class"] in [plugin["class"] for plugin in plugins]


def streams(sql: Callable[..., list[tuple[Any, ...]]], name: str) -> bool:
    """Whether the stream has begun: RUNNING is said of the snapshot already."""
    return sql(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{name}' AND NOT temporary") == [
        (True,)
    ]


def test_pause_resume_stop_restart_delete(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE DOMAIN label AS text", "CREATE TABLE a (id int PRIMARY KEY, labels label[], at pg_lsn)")
    name = create(connector_config)
    wait_until("the stream", lambda: streams(sql, name))
    assert worker.request("PUT", f"/connectors/{name}/pause")[0] == 202
    worker.wait_task(name, "PAUSED")
    sql("INSERT INTO a VALUES (1)")
    assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202
    assert len(wait_records(f"{name}.public.a", 1)) == 1
    lines = [
        json.loads(line) for line in worker.log.read_text().splitlines() if "left out of the topic" in line
    ]
    assert ("public.a", ["labels", "at"]) in [(line["table"], line["columns"]) for line in lines]
    assert worker.request("PUT", f"/connectors/{name}/stop")[0] == 204
    assert worker.request("GET", f"/connectors/{name}/status")[1]["tasks"] == []
    assert worker.request("GET", f"/connectors/{name}/status")[1]["connector"]["state"] == "STOPPED"
    assert worker.request("PUT", f"/connectors/{name}/resume")[0] == 202
    worker.wait_task(name, "RUNNING")
    assert worker.request("POST", f"/connectors/{name}/restart")[0] == 204
    assert worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")[0] == 202
    worker.wait_task(name, "RUNNING")
    assert worker.request("DELETE", f"/connectors/{name}")[0] == 204
    lines = [json.loads(line) for line in worker.log.read_text().splitlines() if f'"{name}"' in line]
    (told,) = [line for line in lines if "retains WAL until somebody drops it" in line["event"]]
    assert told["slot"] == connector_config["slot.name"]
    assert f"SELECT pg_drop_replication_slot('{told['slot']}')" in told["hint"]
    assert worker.request("GET", f"/connectors/{name}") == (
        404,
        {"error_code": 404, "message": f"Connector {name} not found"},
    )


def test_rest_errors(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config)
    created = {"name": name, "config": connector_config}
    assert worker.request("POST", "/connectors", created)[0] == 409
    assert worker.request("POST", "/connectors", {"config": {}})[0] == 400
    assert worker.request("POST", "/connectors", [])[0] == 500  # Kafka Connect's answer to another shape
    assert worker.request("PUT", f"/connectors/{name}/config", {"a": {}})[0] == 500
    assert worker.request("PUT", "/connectors/other/config", connector_config | {"name": "x"})[0] == 400
    for method, path in [
        ("GET", "/connectors/none/status"),
        ("GET", "/connectors/none/config"),
        ("PUT", "/connectors/none/pause"),
        ("DELETE", "/connectors/none"),
        ("POST", "/connectors/none/restart"),
        ("GET", f"/connectors/{name}/tasks/1/status"),
        ("GET", "/nowhere"),
    ]:
        status, body = worker.request(method, path)
        assert (status, body["error_code"]) == (404, 404), path


def test_post_creates_and_validate_reports_by_option(
    worker: Worker, connector_config: dict[str, str], sql: Callable[..., list[tuple[Any, ...]]]
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = connector_config["topic.prefix"]
    status, body = worker.request(
        "POST", "/connectors", {"name": name, "config": connector_config, "initial_state": "STOPPED"}
    )
    assert (status, body["tasks"]) == (201, [])
    assert worker.request("DELETE", f"/connectors/{name}")[0] == 204
    path = f"/connector-plugins/{connector_config['connector.class']}/config/validate"
    connector_config |= {"name": name}
    status, body = worker.request("PUT", path, connector_config | {"snapshot.mode": "sometimes"})
    assert (status, body["error_count"]) == (200, 1)
    (wrong,) = [c for c in body["configs"] if c["value"]["errors"]]
    assert wrong["value"]["name"] == "snapshot.mode"
    assert worker.request("PUT", path, connector_config)[1]["error_count"] == 0


def test_metrics_tell_records_states_and_slots(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)")
    name = create(connector_config)
    sql("INSERT INTO a VALUES (1)")
    wait_records(f"{name}.public.a", 1)

    def scraped() -> Any:
        return worker.request("GET", "/metrics")[1].splitlines()

    record = f'tidings_capture_records_total{{connector="{name}",topic="{name}.public.a"}} 1.0'
    wait_until("the record to be counted", lambda: record in scraped())
    lines = scraped()
    assert f'tidings_capture_task_state{{connector="{name}",state="RUNNING",task="0"}} 1.0' in lines
    assert f'kafka_connect_worker_connector_failed_task_count{{connector="{name}"}} 0.0' in lines
    assert f'tidings_capture_transactions_total{{connector="{name}"}} 1.0' in lines
    connected = (
        f'debezium_metrics_Connected{{context="streaming",name="{name}",plugin="postgres",task="0"}} 1.0'
    )
    assert connected in lines


def test_topics_are_created_as_asked(
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    kafka_bootstrap: str,
    wait_records: Callable[[str, int], list[Any]],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 50)")
    name = create(
        connector_config
        | {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"}
    )
    assert len(wait_records(f"{name}.public.a", 50)) == 50
    topic = (
        AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics(timeout=10).topics[f"{name}.public.a"]
    )
    assert len(topic.partitions) == 3


def test_a_worker_comes_back_with_its_connectors_and_goes_on(
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    wait_records: Callable[[str, int], list[Any]],
    unique_name: str,
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    properties = worker_properties(f"group-{unique_name}")
    first = start_worker(properties)
    assert first.request("PUT", f"/connectors/{unique_name}/config", connector_config)[0] == 201
    wait_records(f"{unique_name}.public.a", 1)
    first.wait_task(unique_name, "RUNNING")
    assert first.stop() == 0
    ((active,),) = sql(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{unique_name}'")
    assert not active
    sql("INSERT INTO a VALUES (2)")
    second = start_worker(properties)
    second.wait_task(unique_name, "RUNNING")
    records = wait_records(f"{unique_name}.public.a", 2)
    assert [(r.value["op"], r.value["after"]["id"]) for r in records] == [("r", 1), ("c", 2)]
    assert second.stop() == 0
    lines = [json.loads(line) for line in properties.with_suffix(".log").read_text().splitlines()]
    assert {"streaming", "resuming", "worker started"} <= {line["event"] for line in lines}
