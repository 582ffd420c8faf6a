"""A worker group moves from Kafka Connect with Debezium to Tidings and back, on the same topics and slot, in traffic."""

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from row_traffic import RowTraffic

from tidings_connect.java.properties import load_properties
from tidings_stack.capture import CaptureWorker as Worker
from tidings_stack.capture import call
from tidings_stack.errors import ServerStartError
from tidings_stack.waiting import wait_for

ROWS = 3
"""Of each transaction."""


def rest(url: str, method: str = "GET", body: Any = None) -> Any:
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=90) as answer:
        text = answer.read()
        return json.loads(text) if text else None


@pytest.mark.turns
@pytest.mark.timeout(900)  # two starts of a JVM on a machine that has other work
def test_from_kafka_connect_to_tidings_and_back_in_the_middle_of_traffic(
    connect_server: Callable[..., Any],
    worker_properties: Callable[..., Path],
    start_worker: Callable[..., Worker],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    pg_database: str,
    unique_name: str,
    topics: Any,
    topic_end: Callable[[str], int],
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
) -> None:
    sql("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a SELECT generate_series(1, 5)")
    # Each side reads what the other says of the tasks that it has shut out (`tasks-fencing-<connector>`).
    properties = worker_properties(f"moving-{unique_name}", exactly_once_source_support="enabled")
    settings = load_properties(properties)
    theirs = {n: v for n, v in settings.items() if n not in {"bootstrap.servers", "listeners"}}
    config = connector_config | {
        "name": unique_name,
        "provide.transaction.metadata": "true",
        "transforms": "",
    }
    del config["errors.retry.delay.max.ms"]
    topic, configs = f"{unique_name}.public.a", settings["config.storage.topic"]

    def written() -> list[Any]:
        """The config topic's records, in order: key and JSON value."""
        found = topics.messages(configs)
        return [(m.key().decode(), m.value() and json.loads(m.value())) for m in found]

    def more(count: int = 60) -> None:
        """Records go on to come."""
        before = topic_end(topic)
        wait_until("more records", lambda: topic_end(topic) >= before + count, seconds=120)

    def streams_there(server: Any) -> Any:
        def check() -> Any:
            # 404 until Kafka Connect has said a first word of it, 409 while its group agrees.
            status, body = call("GET", f"{server.url}/connectors/{unique_name}/status")
            return status == 200 and body["tasks"] and body["tasks"][0]["state"] == "RUNNING"

        wait_until("Debezium to run", check, seconds=120)

    connect = connect_server(theirs)
    rest(f"{connect.url}/connectors/{unique_name}/config", "PUT", config)
    streams_there(connect)
    wait_records(topic, 5)
    with RowTraffic(pg_database, rows=ROWS, first=1000, pause_seconds=0.01) as traffic:
        more()
        # Not both at once: the group is theirs.
        refused = subprocess.run(
            [str(Path(sys.executable).with_name("tidings-capture")), str(properties)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert refused.returncode == 2, refused.stderr
        assert f"group.id={settings['group.id']} is in use by workers of Kafka Connect" in refused.stderr
        written_there = dict(written())
        connect.stop()

        def started() -> Any:
            """A worker of Kafka Connect's that was killed before it could say goodbye is in the group for ten seconds."""
            try:
                return start_worker(properties)
            except ServerStartError as error:
                if "is in use by workers of Kafka Connect" not in str(error):
                    raise
                return None

        worker = wait_for("Kafka Connect to leave", started, 60)
        worker.wait_task(unique_name, "RUNNING")
        more()
        # What we write is what Kafka Connect wrote.
        count = len(written())
        assert worker.request("PUT", f"/connectors/{unique_name}/stop")[0] == 204
        assert worker.request("PUT", f"/connectors/{unique_name}/resume")[0] == 202
        changed = config | {"poll.interval.ms": "501"}
        assert worker.request("PUT", f"/connectors/{unique_name}/config", changed)[0] == 200
        assert worker.request("PUT", f"/connectors/{unique_name}/config", config)[0] == 200
        expected = {
            f"{kind}{unique_name}{end}"
            for kind, end in (
                ("connector-", ""),
                ("task-", "-0"),
                ("commit-", ""),
                ("target-state-", ""),
                ("tasks-fencing-", ""),
            )
        }
        # Tasks are configured after the answer.
        wait_until("the configuration", lambda: dict(written()[count:]).keys() == expected)
        written_here = dict(written()[count:])
        assert f"tasks-fencing-{unique_name}" in written_there
        assert written_here.keys() & written_there.keys()
        for key, value in written_here.items():
            if key in written_there:
                assert value == written_there[key], key
        worker.wait_task(unique_name, "RUNNING")
        more()
        assert worker.stop() == 0

        connect.start()
        streams_there(connect)
        more()
    rows = traffic.total_rows + 5
    records = wait_records(topic, rows)
    connect.kill()  # a graceful end takes its time
    connect.close()
    counts = Counter(r.key["id"] for r in records)
    assert counts.keys() == {*range(1, 6), *range(1000, 1000 + traffic.total_rows)}
    assert {i: n for i, n in counts.items() if n > 1} == {}, "records came twice"
    assert Counter(r.value["op"] for r in records)["r"] == 5, "there was another snapshot"
    order = [r.key["id"] for r in records if r.value["op"] == "c"]
    assert order == sorted(order)
