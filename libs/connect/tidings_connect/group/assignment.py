"""Which worker of a group runs which task: the leader's decision, and its record. Pure.

The first task of a connector goes with the connector itself (`TaskId`). A task never goes from one living worker to another in one step: it is taken away in one epoch, and given away only
when its former worker has said that it applied that epoch (its `Applied` record), or is gone from the group. So two
workers never run one task while both are in the group; what a worker does that is cut off from the group is in
`worker_group`, and the slot itself (one walsender at a time) is the last fence.

Records are in the status topic, under keys that Kafka Connect does not know and leaves alone (it logs a warning):
``tidings-assignment`` and ``tidings-applied-<worker>``. In ``owners`` and ``leaving`` a connector's name stands for it and its
first task, as it did when there was only one; further tasks are in ``tasks`` and ``leaving_tasks``, by name and number.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from tidings_connect.task_id import TaskId

ASSIGNMENT_KEY: Final = b"tidings-assignment"
APPLIED_PREFIX: Final = b"tidings-applied-"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader has decided; workers go by their ids, ``host:port``."""

    epoch: int = 0
    """Rises by one or more with each decision."""
    leader: str = ""
    owners: Mapping[TaskId, str] = field(default_factory=dict)
    """Worker by task."""
    leaving: Mapping[TaskId, tuple[str, int]] = field(default_factory=dict)
    """By task without an owner, or that was deleted: the worker that has to let go of it, and since which epoch."""

    def owned_by(self, worker: str) -> set[TaskId]:
        """The tasks a worker is to run."""
        return {name for name, owner in self.owners.items() if owner == worker}


def plan(
    current: Assignment,
    tasks: Collection[TaskId],
    workers: Collection[str],
    applied: Mapping[str, int],
    leader: str,
    *,
    awaited: Collection[str] = (),
) -> Assignment:
    """The next assignment, or `current` itself when there is nothing to change.

    Args:
        tasks: those that exist and that these workers can run.
        workers: the group's living members.
        applied: the last epoch each worker has applied, all it had to stop included.
        awaited: workers that have left and are given time to come back: their tasks wait for them.
    """
    owners = {
        name: owner
        for name, owner in current.owners.items()
        if name in tasks and (owner in workers or owner in awaited)
    }
    epoch = max([current.epoch, *applied.values()]) + 1
    leaving = {
        name: (worker, asked)
        for name, (worker, asked) in current.leaving.items()
        if worker in workers and applied.get(worker, 0) < asked
    }
    # A task that was deleted may be created again before its worker has noticed.
    leaving |= {
        name: (owner, epoch)
        for name, owner in current.owners.items()
        if name not in tasks and owner in workers
    }
    load = dict.fromkeys(sorted(workers), 0)
    for owner in owners.values():
        if owner in load:
            load[owner] += 1
    for name in sorted(set(tasks) - owners.keys() - leaving.keys()):
        if not load:
            break
        least = min(load, key=lambda worker: (load[worker], worker))
        owners[name] = least
        load[least] += 1
    for name, owner in list(_surplus(owners, load, len(leaving.keys() & set(tasks)))):
        del owners[name]
        leaving[name] = (owner, epoch)
    if owners == current.owners and leaving == current.leaving and leader == current.leader:
        return current
    return Assignment(epoch, leader, owners, leaving)


def _surplus(
    owners: Mapping[TaskId, str], load: dict[str, int], on_the_way: int
) -> Iterable[tuple[TaskId, str]]:
    """What has to be taken from workers that have too many: no more than is needed, the last names first."""
    if not load:
        return
    total = sum(load.values()) + on_the_way
    allowed = -(-total // len(load))
    missing = sum(max(0, total // len(load) - count) for count in load.values()) - on_the_way
    for worker in sorted(load, key=lambda worker: (-load[worker], worker)):
        names = sorted(name for name, owner in owners.items() if owner == worker)
        while len(names) > allowed or (missing > 0 and len(names) > total // len(load)):
            yield names.pop(), worker
            missing -= 1


def encode_assignment(assignment: Assignment) -> bytes:
    """The record's value."""
    record: dict[str, Any] = {"epoch": assignment.epoch, "leader": assignment.leader}
    for first, further, values in (
        ("owners", "tasks", assignment.owners),
        ("leaving", "leaving_tasks", assignment.leaving),
    ):
        record[first] = {task_id.connector: value for task_id, value in values.items() if not task_id.task}
        others: dict[str, dict[str, Any]] = {}
        for task_id, value in values.items():
            if task_id.task:
                others.setdefault(task_id.connector, {})[str(task_id.task)] = value
        if others:
            record[further] = others
    return orjson.dumps(record, option=orjson.OPT_SORT_KEYS)


def decode_assignment(data: bytes | None) -> Assignment:
    """The assignment in a record; an empty one when there is none, or one that cannot be understood."""
    value = _object(data)
    try:
        return Assignment(
            int(value["epoch"]),
            str(value["leader"]),
            {task_id: str(owner) for task_id, owner in _by_task(value, "owners", "tasks")},
            {
                task_id: (str(worker), int(epoch))
                for task_id, (worker, epoch) in _by_task(value, "leaving", "leaving_tasks")
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return Assignment()


def _by_task(value: Mapping[str, Any], first: str, further: str) -> Iterable[tuple[TaskId, Any]]:
    for name, item in value[first].items():
        yield TaskId(str(name)), item
    for name, tasks in value.get(further, {}).items():
        for number, item in tasks.items():
            yield TaskId(str(name), int(number)), item


def applied_key(worker: str) -> bytes:
    return APPLIED_PREFIX + worker.encode()


def encode_applied(epoch: int) -> bytes:
    """What a worker says when it runs nothing any more that `epoch` does not give it."""
    return orjson.dumps({"epoch": epoch})


def decode_applied(data: bytes | None) -> int:
    """The epoch; 0 when nothing was said."""
    epoch = _object(data).get("epoch", 0)
    return epoch if isinstance(epoch, int) else 0


def _object(data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {}
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
