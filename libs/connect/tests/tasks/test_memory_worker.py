"""The worker in memory, where its threads are slower than whoever asks it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings_connect.testing.memory_task import MemoryTask
from tidings_connect.testing.memory_worker import MemoryWorker


@pytest.fixture
def worker(counting: None, tmp_path: Path) -> Iterator[MemoryWorker]:
    import counting as page

    count_to(tmp_path, 0)
    with MemoryWorker(page.Counter(), "counter") as made:
        yield made


def count_to(folder: Path, end: int) -> None:
    """At once: a task reads the file."""
    (folder / "new").write_text(str(end))
    (folder / "new").replace(folder / "end")


def test_a_task_that_was_killed_is_started_again_though_its_thread_has_not_returned(
    worker: MemoryWorker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = MemoryTask._run

    def run_and_linger(task: MemoryTask) -> None:
        run(task)
        task.supervision._stop.wait(60)  # until somebody ends it

    monkeypatch.setattr(MemoryTask, "_run", run_and_linger)
    worker.put({"counter.file": str(tmp_path / "end"), "counter.topic": "numbers"})
    crash = worker.crash_at("batch.sent")
    crash.__enter__()  # its end would wait for the thread
    count_to(tmp_path, 2)
    worker.wait_for(lambda: worker.state == "FAILED", "a failure")
    worker.resume()
    worker.wait_for(lambda: len(worker.values("numbers")) == 2, "the numbers")


def test_a_task_that_was_killed_has_ended_when_the_block_has(
    worker: MemoryWorker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import counting as page

    monkeypatch.setattr(page.CounterTask, "stop", lambda _: time.sleep(0.1))  # on its way to the end
    worker.put({"counter.file": str(tmp_path / "end"), "counter.topic": "numbers"})
    with worker.crash_at("batch.sent") as killed:
        count_to(tmp_path, 2)
        assert killed.wait(60)
    assert worker.state == "FAILED"


def test_a_task_can_be_killed_at_the_first_point_that_it_passes(
    counting: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Though whoever starts it is slow: it would be past all its points before anybody knows its thread."""
    import listing

    make = MemoryTask.__init__

    def make_and_linger(task: MemoryTask, *given: Any) -> None:
        make(task, *given)
        time.sleep(2)

    monkeypatch.setattr(MemoryTask, "__init__", make_and_linger)
    with MemoryWorker(listing.List(), "list") as worker:
        worker.kafka.inputs.produce("numbers", None, b"1")
        with worker.crash_at("sink.put") as killed:
            worker.put({"list.file": str(tmp_path / "lines"), "topics": "numbers"})
            assert killed.wait(5)
