"""The connector that `docs/connectors.md` teaches keeps the contract, with the page's own test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidings_connect.config.plugins import connectors, find_connector, find_plugin
from tidings_connect.errors import RecordError
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.capture import CaptureWorkers
from tidings_stack.waiting import wait_for


@pytest.mark.parametrize(("module", "tests"), [("counting_contract", 13), ("listing_contract", 14)])
def test_the_page_s_connectors_keep_their_contracts(
    counting_distribution: Path, tmp_path: Path, module: str, tests: int
) -> None:
    """In a process of its own: there the page's code is run as it was pasted, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
         str(counting_distribution / f"{module}.py")],
        env={**os.environ, "PYTHONPATH": str(counting_distribution)},
        cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{tests} passed" in done.stdout


@pytest.mark.usefixtures("counting")
def test_connectors_are_found_by_entry_points_and_short_names() -> None:
    assert "counting.CounterConnector" in connectors()
    assert find_connector("Counter") is find_connector("counting.CounterConnector") is not None
    assert find_connector("counting.Nothing") is None
    plugin = find_plugin("CounterConnector")
    assert plugin is not None
    assert (plugin.kind, plugin.version) == ("source", "1.0")


@pytest.mark.usefixtures("counting")
def test_transforms_work_on_any_connector_s_records(tmp_path: Path) -> None:
    file = tmp_path / "end"
    file.write_text("2")
    connector = find_connector("Counter")
    assert connector is not None
    transforms = {
        "transforms": "route,wrap",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "all-$1",
        "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.wrap.field": "inner",
    }
    with MemoryWorker(connector) as worker:
        worker.put({"counter.file": str(file), "counter.topic": "numbers", **transforms})
        worker.wait_for(lambda: len(worker.values("all-numbers")) == 2, "two records")
        assert worker.values("all-numbers") == [{"inner": {"number": 1}}, {"inner": {"number": 2}}]
        assert "numbers" not in worker.kafka.topics


@pytest.mark.usefixtures("counting")
def test_a_value_that_does_not_fit_its_schema_ends_the_task_without_telling_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import counting

    monkeypatch.setattr(
        counting.CounterTask,
        "poll",
        lambda task: task._output.write(
            counting.SourceRecord(
                "numbers", None, None, None, counting.SCHEMA, {"number": "secret"}, None, []
            )
        ),
    )
    file = tmp_path / "end"
    file.write_text("1")
    with MemoryWorker(counting.Counter()) as worker:
        worker.put({"counter.file": str(file), "counter.topic": "numbers"})
        with pytest.raises(AssertionError, match="the task failed"):
            worker.wait_for(lambda: False, "a failure")
        assert isinstance(worker.error, RecordError)
        assert "secret" not in str(worker.error)
        assert "numbers" in str(worker.error)


def test_a_worker_runs_a_connector_that_is_installed(
    counting_distribution: Path, kafka_bootstrap: str, unique_name: str, tmp_path: Path
) -> None:
    file = tmp_path / "end"
    file.write_text("3")
    config = {
        "connector.class": "Counter",
        "counter.file": str(file),
        "counter.topic": f"{unique_name}.numbers",
        "transforms": "same",
        "transforms.same.type": "counting.Same",
    }
    name = f"/connectors/{unique_name}"
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        settings = {"offset.flush.interval.ms": "100"}
        worker = workers.start(
            workers.properties(unique_name, settings), environment={"PYTHONPATH": str(counting_distribution)}
        )
        listed = worker.request("GET", "/connector-plugins")[1]
        assert {"class": "counting.CounterConnector", "type": "source", "version": "1.0"} in listed
        others = worker.request("GET", "/connector-plugins?connectorsOnly=false")[1]
        assert {"class": "counting.Same", "type": "transformation"} in others
        status, body = worker.request("PUT", f"{name}/config", config | {"counter.file": ""})
        assert (status, body["error_code"]) == (400, 400)
        assert "counter.file" in body["message"]
        assert worker.request("PUT", f"{name}/config", config)[0] == 201
        worker.wait_task(unique_name, "RUNNING")
        stored = {"offsets": [{"partition": {"file": str(file)}, "offset": {"number": 3}}]}
        wait_for("the offset of number 3", lambda: worker.request("GET", f"{name}/offsets")[1] == stored)
        assert worker.request("GET", f"{name}/status")[1]["tasks"][0]["version"] == "1.0"
        assert worker.request("DELETE", f"{name}/slot")[0] == 404, "it is no connector with a slot"
        counted = (
            f'tidings_capture_records_total{{connector="{unique_name}",topic="{unique_name}.numbers"}} 3.0'
        )
        wait_for("the metric of three records", lambda: counted in worker.request("GET", "/metrics")[1])
