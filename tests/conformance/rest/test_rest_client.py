"""A client that other people wrote: kafka-connect-py (PyPI), every call of it, on a real worker."""

import psycopg
import pytest
from kafka_connect import KafkaConnect
from requests.exceptions import HTTPError
from side_by_side import CONNECTOR_CLASS, until

WAIT_SECONDS = 180


def test_every_call_of_kafka_connect_py(
    worker_url: str, unique_name: str, pg_database: str, config: dict[str, str]
) -> None:
    client, name = KafkaConnect(worker_url), unique_name
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE a (id int PRIMARY KEY)")
        connection.execute("INSERT INTO a VALUES (1)")
    config = {key: value.replace("{name}", name) for key, value in config.items()}

    def wait(state: str) -> None:
        until(
            f"the connector to be {state}", lambda: name in client.list_connectors(pattern=name, state=state)
        )

    assert client.get_cluster_info()["version"] == "4.3.1"
    assert CONNECTOR_CLASS in [plugin["class"] for plugin in client.list_connector_plugins()]
    report = client.validate_connector_config(CONNECTOR_CLASS, {**config, "name": name, "slot.name": "A"})
    assert report["error_count"] == 1
    created = client.create_connector({"name": name, "config": config})
    assert (created["name"], created["tasks"]) == (name, [])
    wait("RUNNING")
    # While it is paused no task has to start anew with each call.
    client.pause_connector(name)
    wait("PAUSED")
    assert client.restart_connector(name) is None
    assert client.restart_connector(name, include_tasks=True)["tasks"][0]["state"] == "RESTARTING"
    client.restart_connector_task(name, 0)
    changed = client.update_connector(name, {**config, "poll.interval.ms": "100"})
    assert changed["config"]["poll.interval.ms"] == "100"
    client.resume_connector(name)
    wait("RUNNING")
    assert set(client.list_connectors(expand="info", pattern=name)[name]) == {"info"}
    assert client.get_connector(name)["tasks"] == [{"connector": name, "task": 0}]
    assert client.get_connector_config(name)["slot.name"] == name
    assert client.list_connector_tasks(name)[0]["id"] == {"connector": name, "task": 0}
    until("the task", lambda: client.get_connector_task_status(name, 0)["state"] == "RUNNING", WAIT_SECONDS)
    topics = {name: {"topics": [f"{name}.public.a"]}}
    until("its topic", lambda: client.list_connector_topics(name) == topics, WAIT_SECONDS)
    client.pause_connector(name)
    wait("PAUSED")
    client.reset_connector_topics(name)
    assert client.list_connector_topics(name) == {name: {"topics": []}}
    client.stop_connector(name)
    wait("STOPPED")
    assert client.get_connector_status(name)["tasks"] == []
    client.delete_connector(name)
    assert client.list_connectors(pattern=name) == []
    with pytest.raises(HTTPError):
        client.get_connector(name)
