"""Converters and transforms of a sink whose failures may pass."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sink_loop_parts import LETTERS, System, committed, produce, sink_report, start

from tidings_connect.converters.encoding import JsonConverter
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.transforms.kinds import TRANSFORMS
from tidings_envelope.errors import RegistryError


@pytest.fixture(params=["converter", "transform"])
def away(request: pytest.FixtureRequest, counting: None, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, what a step before the put needs is away."""
    event = threading.Event()
    event.set()

    def failing(step: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*given: Any) -> Any:
            if event.is_set():
                raise RegistryError("the registry is away", retry="timed")
            return step(*given)

        return tried

    import counting_transforms

    monkeypatch.setitem(TRANSFORMS, "counting.Same", counting_transforms.Same)
    if request.param == "converter":
        monkeypatch.setattr(JsonConverter, "decode", failing(JsonConverter.decode))
    else:
        monkeypatch.setattr(counting_transforms.Same, "apply", failing(counting_transforms.Same.apply))
    return event


SAME = {"transforms": "same", "transforms.same.type": "counting.Same"}


def test_a_step_whose_failure_may_pass_is_tried_again_in_place(
    worker: MemoryWorker, system: System, away: threading.Event
) -> None:
    produce(worker, 1, 3)
    start(worker, **SAME, **LETTERS, **{"errors.retry.timeout": "20000"})
    worker.wait_for(lambda: sink_report(worker).counts.retries >= 3, "further attempts")
    worker.wait_for(lambda: sink_report(worker).retrying_seconds > 0, "the report")
    assert committed(worker) == {}
    away.clear()
    worker.wait_for(lambda: committed(worker) == {0: 3}, "the commit")
    assert system.numbers == [1, 2, 3]
    assert "letters" not in worker.kafka.topics
    worker.wait_for(lambda: sink_report(worker).retrying_seconds == 0, "the report")


@pytest.mark.parametrize(("timeout", "least"), [("0", 0), ("400", 2)], ids=["at once", "in time"])
def test_it_fails_the_task_and_leaves_no_record_out_when_the_time_is_over(
    worker: MemoryWorker, system: System, away: threading.Event, timeout: str, least: int
) -> None:
    produce(worker, 1, 3)
    start(worker, **SAME, **LETTERS, **{"errors.retry.timeout": timeout})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert getattr(worker.error, "retry", None) == "timed", "it is started again"
    retries = sink_report(worker).counts.retries
    assert retries >= least
    assert bool(retries) == bool(least)
    assert committed(worker) == {}
    assert "letters" not in worker.kafka.topics


def test_a_step_that_is_tried_without_end_ends_with_the_task(
    worker: MemoryWorker, system: System, away: threading.Event
) -> None:
    produce(worker, 1, 3)
    start(worker, **SAME, **{"errors.retry.timeout": "-1"})
    worker.wait_for(lambda: sink_report(worker).counts.retries >= 1, "another attempt")
    worker.stop()
    assert committed(worker) == {}
