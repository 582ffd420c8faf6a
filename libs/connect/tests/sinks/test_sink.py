"""A sink with two tasks on two workers of a group, with a real broker."""

import json
import re
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tidings_stack.capture import CaptureWorker, CaptureWorkers
from tidings_stack.waiting import wait_for

GROUP = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "offset.flush.interval.ms": "200",
    "scheduled.rebalance.max.delay.ms": "0",
}


def produce(bootstrap: str, topic: str, first: int, last: int, *, spoilt: int | None = None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, last + 1):
        value = b"{secret" if number == spoilt else json.dumps({"number": number}).encode()
        producer.produce(topic, value, b'"k"', partition=number % 4)
    assert producer.flush(60) == 0


def produce_in_vain(bootstrap: str, topic: str) -> None:
    """An aborted transaction: what ends the log is not a record that anybody reads."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"{}", b'"k"', partition=1)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)


def test_two_tasks_share_a_topic_take_over_and_obey_the_rest_api(
    counting_distribution: Path, kafka_bootstrap: str, unique_name: str, tmp_path: Path
) -> None:
    topic, file = f"{unique_name}.numbers", tmp_path / "lines"
    file.touch()
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    for made in admin.create_topics([NewTopic(topic, 4, 1)]).values():
        made.result(60)
    config = {
        "connector.class": "List",
        "tasks.max": "2",
        "topics.regex": f"{unique_name}[.]num(?=b).*",  # an expression that only Java has
        "list.file": str(file),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{unique_name}.letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "consumer.override.session.timeout.ms": "6000",
    }
    path = f"/connectors/{unique_name}"

    def numbers() -> list[int]:
        return [json.loads(line)["number"] for line in file.read_text().splitlines()]

    def running(worker: CaptureWorker) -> dict[int, str]:
        tasks = worker.request("GET", f"{path}/status")[1]["tasks"]
        return {task["id"]: task["worker_id"] for task in tasks if task["state"] == "RUNNING"}

    def committed(worker: CaptureWorker) -> int:
        entries = worker.request("GET", f"{path}/offsets")[1]["offsets"]
        return sum(entry["offset"]["kafka_offset"] for entry in entries)

    def lags(worker: CaptureWorker) -> dict[int, float]:
        pattern = (
            rf'tidings_sink_lag_records{{connector="{unique_name}",partition="(\d)".*,topic="{topic}"}} (.*)'
        )
        return {int(n): float(lag) for n, lag in re.findall(pattern, worker.request("GET", "/metrics")[1])}

    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        files = [workers.properties(unique_name, GROUP, name=f"{unique_name}-{n}") for n in (1, 2)]
        environment = {"PYTHONPATH": str(counting_distribution)}
        first, second = (workers.start(properties, environment=environment) for properties in files)
        listed = first.request("GET", "/connector-plugins")[1]
        assert {"class": "listing.ListConnector", "type": "sink", "version": "1.0"} in listed
        produce(kafka_bootstrap, topic, 1, 40, spoilt=7)
        created = first.request("PUT", f"{path}/config", config)
        assert (created[0], created[1].get("type")) == (201, "sink"), created
        wait_for("both tasks, a worker each", lambda: len(set(running(first).values())) == 2, seconds=120)
        expected = set(range(1, 41)) - {7}
        wait_for("all numbers but the spoilt one", lambda: set(numbers()) == expected, seconds=120)
        wait_for("the commit of all, the letter too", lambda: committed(first) == 40)
        tasks = first.request("GET", f"{path}/tasks")[1]
        assert [task["id"] for task in tasks] == [{"connector": unique_name, "task": n} for n in (0, 1)]
        assert tasks[1]["config"]["task.class"] == "listing.ListTask"
        restarted = second.request("POST", f"{path}/restart?includeTasks=true")
        assert restarted[0] == 202
        assert [task["state"] for task in restarted[1]["tasks"]] == ["RESTARTING"] * 2
        assert second.request("POST", f"{path}/tasks/1/restart")[0] == 204
        assert second.request("POST", f"{path}/tasks/2/restart")[0] == 404

        second.kill()
        produce(kafka_bootstrap, topic, 41, 80)
        wait_for("the takeover", lambda: set(range(41, 81)) <= set(numbers()), seconds=180)
        wait_for("both tasks on the worker that is left", lambda: len(running(first)) == 2, seconds=120)
        read = f'kafka_connect_sink_task_partition_count{{connector="{unique_name}",task="1"}}'
        wait_for("the metric of task 1", lambda: read in first.request("GET", "/metrics")[1])

        produce_in_vain(kafka_bootstrap, topic)
        wait_for(
            "no lag, although an aborted record ends a log", lambda: lags(first) == dict.fromkeys(range(4), 0)
        )

        assert first.request("DELETE", f"{path}/offsets")[0] == 400, "it is not stopped"
        assert first.request("PUT", f"{path}/stop")[0] == 204
        altered = {
            "offsets": [
                {
                    "partition": {"kafka_topic": topic, "kafka_partition": number},
                    "offset": {"kafka_offset": 20} if number else None,
                }
                for number in range(4)
            ]
        }
        assert first.request("PATCH", f"{path}/offsets", altered)[0] == 200
        assert committed(first) == 60
        file.write_text("")
        assert first.request("PUT", f"{path}/resume")[0] == 202
        wait_for("the first partition again", lambda: sorted(numbers()) == list(range(4, 81, 4)), seconds=120)
        assert first.request("PUT", f"{path}/stop")[0] == 204
        assert first.request("DELETE", f"{path}/offsets")[0] == 200
        assert first.request("GET", f"{path}/offsets")[1] == {"offsets": []}
