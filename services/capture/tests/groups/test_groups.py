"""Several real workers with one group.id: shared connectors, takeover, rolling restarts, requests to any of them."""

import contextlib
import functools
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tidings_stack.capture import CaptureWorker as Worker

SESSION = {"session_timeout_ms": "6000", "heartbeat_interval_ms": "500"}


class Group:
    """Workers by number; the same number again is the same worker, at the same address."""

    def __init__(
        self, name: str, worker_properties: Callable[..., Path], start_worker: Callable[..., Worker]
    ) -> None:
        self.name, self.workers = name, {}
        self._properties, self._start, self._files = worker_properties, start_worker, {}

    def start(self, number: int, **changes: Any) -> Any:
        if number not in self._files:
            written = self._properties(self.name, **SESSION, **changes)
            self._files[number] = written.rename(written.with_stem(f"{written.stem}-{number}"))
        worker = self.workers[number] = self._start(self._files[number])
        return worker


@pytest.fixture
def group(
    worker_properties: Callable[..., Path], start_worker: Callable[..., Worker], unique_name: str
) -> Any:
    return Group(f"group-{unique_name}", worker_properties, start_worker)


def address(worker: Worker) -> Any:
    return worker.url.removeprefix("http://")


def owners(worker: Worker) -> dict[Any, Any]:
    """The worker that runs each task, as this worker tells; None where it does not run."""
    shown = worker.request("GET", "/connectors?expand=status")[1]
    tasks = {name: (body["status"]["tasks"] or [{}])[0] for name, body in shown.items()}
    return {name: t.get("worker_id") if t.get("state") == "RUNNING" else None for name, t in tasks.items()}


def assigned(worker: Worker) -> dict[Any, Any]:
    """The worker that is to run each connector, whether it does or not."""
    shown = worker.request("GET", "/connectors?expand=status")[1]
    return {name: body["status"]["connector"]["worker_id"] for name, body in shown.items()}


def ids(records: Any) -> tuple[Any, ...]:
    """Their numbers, and how many came more than once."""
    counts = Counter(r.key["id"] for r in records)
    return sorted(counts), sum(count > 1 for count in counts.values())


class Connectors:
    """Connectors on tables of their own in one database."""

    def __init__(self, names: Any, config: Any, sql: Callable[..., list[tuple[Any, ...]]]) -> None:
        self.names, self._config, self._sql = names, config, sql
        self._next = dict.fromkeys(names, 1)
        for name in names:
            sql(f"CREATE TABLE {name} (id int PRIMARY KEY)")

    def config(self, name: str) -> Any:
        return self._config | {
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": f"public.{name}",
            "snapshot.mode": "no_data",
        }

    def insert(self, count: int = 1) -> None:
        for name in self.names:
            first = self._next[name]
            self._next[name] += count
            self._sql(f"INSERT INTO {name} SELECT generate_series({first}, {first + count - 1})")

    def check(self, wait_records: Callable[[str, int], list[Any]], *, repeated: int = 0) -> None:
        """Every row is there, and no more of them than `repeated` came twice."""
        for name in self.names:
            found, twice = ids(wait_records(f"{name}.public.{name}", self._next[name] - 1))
            assert found == list(range(1, self._next[name]))
            assert twice <= repeated, f"{twice} rows of {name} came again"


@pytest.mark.turns
@pytest.mark.timeout(900)  # many starts of processes
def test_a_group_shares_takes_over_and_restarts_one_by_one(
    group: Any,
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    unique_name: str,
    wait_records: Callable[[str, int], list[Any]],
    wait_until: Callable[..., Any],
    kafka_bootstrap: str,
) -> None:
    wait_until = functools.partial(wait_until, seconds=180)  # many processes start at once
    first, second = group.start(1), group.start(2)
    both = (first, second)
    connectors = Connectors([f"{unique_name}_{i}" for i in range(4)], connector_config, sql)
    # Any worker takes any request, and what one has confirmed the same worker shows.
    for number, name in enumerate(connectors.names):
        asked = both[number % 2]
        assert asked.request("PUT", f"/connectors/{name}/config", connectors.config(name))[0] == 201
        assert asked.request("GET", f"/connectors/{name}/config")[0] == 200

    def shared(workers: tuple[Worker, Worker], each: int) -> Callable[[], bool]:
        def check() -> bool:
            found = [owners(worker) for worker in workers]
            share = Counter(found[0].values())
            return all(f == found[0] for f in found) and share == {address(w): each for w in workers}

        return check

    wait_until("both to run two connectors", shared(both, 2))
    connectors.insert(50)
    connectors.check(wait_records)

    # What belongs to another worker is done there.
    theirs = next(name for name, owner in owners(first).items() if owner == address(second))
    ours = next(name for name, owner in owners(first).items() if owner == address(first))
    assert first.request("POST", f"/connectors/{theirs}/tasks/0/restart")[0] == 204
    second.wait_task(theirs, "RUNNING")
    assert first.request("GET", f"/connectors/{theirs}/snapshot")[0] == 200
    for asked, name in ((second, ours), (first, theirs)):
        assert asked.request("PUT", f"/connectors/{name}/pause")[0] == 202
        for worker in both:
            worker.wait_task(name, "PAUSED")
        assert asked.request("PUT", f"/connectors/{name}/resume")[0] == 202
        for worker in both:
            worker.wait_task(name, "RUNNING")
    lost = first.request("POST", f"/connectors/{theirs}/tasks/0/restart?forward=false")
    assert (lost[0], lost[1]["error_code"]) == (409, 409)

    # A third worker gets its share, and moves no more than that.
    before = owners(first)
    third = group.start(3)
    wait_until(
        "the third to have one",
        lambda: (
            sorted(Counter(owners(first).values()).values()) == [1, 1, 2] and owners(third) == owners(first)
        ),
    )
    moved = {name for name, owner in owners(first).items() if owner != before[name]}
    assert len(moved) == 1
    connectors.insert(50)
    connectors.check(wait_records)

    # One after the other is stopped and started: nothing is lost, nothing comes twice.
    for number in (1, 2):
        connectors.insert(20)
        assert group.workers[number].stop() == 0
        connectors.insert(20)
        again = group.start(number)
        wait_until("all to run", lambda again=again: None not in owners(again).values())
    connectors.check(wait_records)

    # A worker is killed: the others take over when its session has ended.
    victim = next(w for w in group.workers.values() if address(w) in owners(w).values())
    left = [w for w in group.workers.values() if w is not victim]
    victim.kill()
    connectors.insert(50)
    wait_until("the takeover", lambda: set(owners(left[0]).values()) == {address(w) for w in left})
    connectors.check(wait_records, repeated=50)

    # A worker stands still: the others take over, and when it goes on it ends what is not its own any more.
    stays, stands = left
    stands.process.send_signal(signal.SIGSTOP)
    wait_until("the other to have all", lambda: set(assigned(stays).values()) == {address(stays)})
    connectors.insert(50)
    stands.process.send_signal(signal.SIGCONT)
    wait_until("both to run some", lambda: set(owners(stays).values()) == {address(w) for w in left})
    connectors.insert(50)
    connectors.check(wait_records, repeated=200)

    # A worker whose place is taken by another of the same address ends, and says why.
    port = stands.url.rpartition(":")[2]
    group.start(4, rest_advertised_host_name="127.0.0.1", rest_advertised_port=port)
    assert stands.process.wait(120) == 1
    assert "another worker has the same address" in stands.log.read_text()
    wait_until("all to run", lambda: None not in owners(stays).values())

    # The group's topic is no place for a consumer of another kind, as Kafka Connect's workers would be.
    with contextlib.closing(
        Consumer(
            {
                "bootstrap.servers": kafka_bootstrap,
                "group.id": group.name,
                "partition.assignment.strategy": "range",
            }
        )
    ) as stranger:
        stranger.subscribe([f"{group.name}-config"])
        refused = wait_until("the broker's refusal", lambda: stranger.poll(0.5))
        assert refused.error().name() == "INCONSISTENT_GROUP_PROTOCOL"
