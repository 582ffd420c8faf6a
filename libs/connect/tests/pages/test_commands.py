"""What a connector's distribution has of its own on the way to its tasks: commands, and worker properties."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import size_problem
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import WorkerConfigError
from tidings_connect.herder.jobs import task_job
from tidings_connect.task.channel import SIGNAL, STOP, Command, Request, TaskJob, encode_job, encode_request
from tidings_connect.task_id import TaskId
from tidings_connect.testing.memory_worker import MemoryWorker

PROPERTIES = {"bootstrap.servers": "nowhere:1", "offset.storage.file.filename": "offsets"}
OWN = (
    Option("counting.look.ms", "int", "500"),
    Option("counting.room", check=size_problem),
    Option("counting.way", values=("up", "down"), default="up"),
)
TASK = """
import json
from tidings_connect.task.main import Pipes
pipes = Pipes()
pipes.read_job()
heard = []
while not pipes.stop_requested():
    heard += [[command.kind, command.body] for command in pipes.commands()]
heard += [[command.kind, command.body] for command in pipes.commands()]
print(json.dumps(heard))
"""


def test_a_task_hears_the_commands_that_stand_and_then_those_that_come_in_their_order() -> None:
    job = TaskJob(
        "c", 0, {}, {}, {}, {}, {}, {}, "offsets", 100, topic_creation=True, commands=[Command("level", "2")]
    )
    lines = [
        encode_job(job),
        encode_request(Request(command=Command(SIGNAL, "{}"))),
        encode_request(Request(lease=1e18)),
        encode_request(Request(command=Command("level", "0"))),
    ]
    done = subprocess.run(
        [sys.executable, "-c", TASK],
        check=False,
        input=b"\n".join(lines) + b"\n" + STOP,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["level", "2"], [SIGNAL, "{}"], ["level", "0"]]


@pytest.mark.usefixtures("counting")
def test_the_loop_hands_commands_to_the_source_s_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import counting

    heard: list[tuple[str, str]] = []
    monkeypatch.setattr(counting.CounterTask, "command", lambda _task, kind, body: heard.append((kind, body)))
    file = tmp_path / "end"
    file.write_text("1")
    with MemoryWorker(counting.Counter()) as worker:
        worker.put({"counter.file": str(file), "counter.topic": "numbers"})
        worker.tell(Command("level", "2"))
        worker.wait_for(lambda: heard == [("level", "2")], "the command")


@pytest.fixture
def declared(counting: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import counting

    monkeypatch.setattr(counting.Counter, "worker_options", OWN)


@pytest.mark.usefixtures("declared")
def test_a_connector_s_worker_properties_are_known_have_defaults_and_reach_its_tasks() -> None:
    worker = read_worker_config(PROPERTIES | {"counting.room": " 2MB ", "counting.colour": "blue"})
    assert worker.unknown == ("counting.colour",)
    job = task_job(worker, TaskId("c"), {}, log_level="INFO", log_levels={}, log_format="json")
    own = {name: value for name, value in job.worker_properties.items() if name.startswith("counting.")}
    assert own == {"counting.look.ms": "500", "counting.room": "2MB", "counting.way": "up"}


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("name", "value"), [("counting.look.ms", "soon"), ("counting.room", "wide"), ("counting.way", "left")]
)
def test_a_wrong_value_of_one_ends_the_worker_by_name(name: str, value: str) -> None:
    with pytest.raises(WorkerConfigError, match=name):
        read_worker_config(PROPERTIES | {name: value})
