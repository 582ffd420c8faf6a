"""Tables, options and questions of the tests of query sources on PostgreSQL."""

import time
from collections.abc import Callable
from typing import Any

from tidings_connect.testing.memory_worker import MemoryWorker

TABLE = "CREATE TABLE ev (id bigserial PRIMARY KEY, updated timestamptz NOT NULL DEFAULT now(), note text)"
BOTH = {
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "updated",
    "incrementing.column.name": "id",
    "table.whitelist": "ev",
}


def ids(worker: MemoryWorker, topic: str = "q-ev") -> list[int]:
    return [value["id"] for value in worker.values(topic)]


def await_ids(worker: MemoryWorker, wanted: list[int]) -> None:
    try:
        worker.wait_for(lambda: ids(worker) == wanted, f"ids {wanted}")
    except AssertionError as error:
        raise AssertionError(f"{error}: found {ids(worker)}") from error


def wait_offsets(worker: MemoryWorker) -> list[dict[str, Any]]:
    worker.wait_for(lambda: bool(worker.offsets()), "an offset")
    return worker.offsets()


def quick_wait(worker: MemoryWorker, condition: Callable[[], bool]) -> None:
    """A second and a half is 75 polls."""
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("not within 1.5 s")
