"""Where records stand, so that a late or a repeated one never replaces a newer document, and never brings back a deleted one.

A document holds the place of its record: the partition's name and the offset. A write's filter leaves out a document of the
same place and a higher offset, so that the server itself decides, in one step. What a delete leaves behind stands in a
collection of its own (``{"of": .., "id": ..}``), for a while; it is written before the delete.

The same collection says which task has a partition (``epoch``, counted up when a task takes it) and how far records were
written at most (``to``, raised before each batch). From these follows when the deletes have to be looked at:

- A record below what ``to`` was when the task took the partition may be a repeated one: before it is written.
- A task whose epoch is not the last one writes late. It finds out before a batch, and writes nothing; or after it, when another
  task has taken the partition meanwhile: then what it has written is looked up among the deletes, and taken back if it is older.
  The other task has counted up the epoch before it deletes anything, so that one of the two sees the other.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from tidings_connect.task.sink import RetriableError, TopicPartition
from tidings_service import get_logger
from tidings_sinks.mongo.bson_types import DatetimeMS, Int64, key_of
from tidings_sinks.mongo.client import Client, Failure
from tidings_sinks.mongo.documents import Document
from tidings_sinks.mongo.operations import OFFSET, PLACE, Act, Namespace, Operation, Position
from tidings_sinks.mongo.settings import Settings

_log = get_logger(__name__)
_KEPT_FIELD: Final = "at"
_TAKEN: Final = "another task has taken the partition"


def stamped(operation: Operation, field: str) -> None:
    """Give an operation its record's place, and the filter that keeps newer documents."""
    assert operation.position is not None
    position = operation.position
    value = position.document
    match operation.act:
        case Act.REPLACE | Act.INSERT:
            operation.document[field] = value
        case Act.UPDATE:
            operation.document.setdefault("$set", {})[field] = value
        case Act.DELETE:
            pass
    if operation.act is not Act.INSERT:
        operation.filter = {**operation.filter, **not_newer(position, f"{field}.")}


def not_newer(position: Position, prefix: str = "") -> Document:
    """A filter: what is not of a newer record, or of the same."""
    return {
        "$or": [
            {f"{prefix}{PLACE}": {"$ne": position.place}},
            {f"{prefix}{OFFSET}": {"$lt": Int64(position.offset)}},
        ]
    }


class _Mark(NamedTuple):
    """The write of a delete's place."""

    act: Act
    filter: Document
    document: Document


class _Partition:
    """One that this task has taken."""

    def __init__(self, name: Document, taken: Document) -> None:
        self.id = name
        self.epoch = int(taken["epoch"])
        self.repeats_to = self.to = int(taken.get("to") or 0)


class Positions:
    """The positions of a task's partitions."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._namespace = Namespace(settings.default.database, settings.positions_collection)
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._indexed = False
        self._unconfirmed: list[Operation] = []
        """What was or may be written since the epochs were last found to be this task's."""
        self._owed: list[Operation] = []
        """The same of partitions that are gone, which is still to be looked up among the deletes."""

    def begin(self, operations: Sequence[Operation]) -> None:
        """Take partitions that are not taken yet, and say how far records will be written.

        Raises:
            RetriableError: another task has a partition now.
        """
        self.settle()
        ends: dict[TopicPartition, int] = {}
        for operation in operations:
            at, end = operation.record.original, operation.record.offset + 1
            if end > ends.get(at, 0):
                ends[at] = end
        for at in ends.keys() - self._partitions.keys():
            self._take(at)
        updates = []
        for at, end in ends.items():
            own = self._partitions[at]
            own.to = max(own.to, end)
            updates.append(({"_id": own.id, "epoch": own.epoch}, {"$max": {"to": Int64(end)}}))
        if self._client.update_all(self._namespace, updates) != len(updates):
            self.confirm(ends)  # takes back what this task wrote before it found out
            raise RetriableError(_TAKEN)
        self._unconfirmed += operations

    def confirm(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """What was written is this task's, or it is taken back where it was deleted.

        Raises:
            RetriableError: another task has a partition now.
        """
        asked = set(partitions or {operation.record.original for operation in self._unconfirmed})
        own = {at: each for at, each in self._partitions.items() if at in asked}
        found = {
            key_of(each["_id"]): each["epoch"]
            for each in self._client.find(self._namespace, [each.id for each in own.values()], ["epoch"])
        }
        lost = [at for at, each in own.items() if found.get(key_of(each.id)) != each.epoch]
        if not lost:
            self._unconfirmed.clear()
            return
        self._take_back(self._unconfirmed)
        self._unconfirmed.clear()
        for at in lost:  # taken again with the next batch, before which the group says whose they are
            del self._partitions[at]
        raise RetriableError(_TAKEN)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are another task's."""
        for operation in self._unconfirmed:
            if operation.record.original in partitions:
                self._owed.append(operation)
        self._unconfirmed = [each for each in self._unconfirmed if each.record.original not in partitions]
        for at in partitions:
            self._partitions.pop(at, None)
        self.settle()

    def settle(self) -> None:
        """Look up what was written to partitions that are gone since; where the server is away, it is still to be done."""
        if not self._owed:
            return
        try:
            self._take_back(self._owed)
        except RetriableError as error:
            _log.warning("what was written last could not be looked up among the deletes", reason=str(error))
        else:
            self._owed.clear()

    def repeats(self, operation: Operation) -> bool:
        """Whether its record may have been written before."""
        at = self._partitions.get(operation.record.original)
        return at is not None and operation.record.offset < at.repeats_to

    def take(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions are this task's from now on."""
        for at in partitions:
            self._take(at)

    # Deletes

    def remember(self, operations: Sequence[Operation]) -> None:
        """Write where deletes stand, before they are done."""
        now = DatetimeMS(int(time.time() * 1000))
        last: dict[bytes, Operation] = {}
        for operation in operations:
            last[key_of(_mark(operation))] = operation
        requests: list[_Mark] = []
        for operation in last.values():
            assert operation.position is not None
            value = {**operation.position.document, _KEPT_FIELD: now}
            found = {"_id": _mark(operation), **not_newer(operation.position)}
            requests.append(_Mark(Act.UPDATE, found, {"$set": value}))
        failures = self._client.write(self._namespace, requests, ordered=False)
        _only_duplicates(failures)

    def deleted(self, operations: Sequence[Operation]) -> list[bool]:
        """Of each whether its document was deleted by a newer record."""
        marks = {key_of(_mark(operation)): _mark(operation) for operation in operations}
        found = {
            key_of(each["_id"]): Position.of(each)
            for each in self._client.find(self._namespace, list(marks.values()))
        }
        return [is_newer(found.get(key_of(_mark(operation))), operation) for operation in operations]

    def _take_back(self, operations: Sequence[Operation]) -> None:
        """Delete what was written of them where a newer record has deleted it."""
        written = [operation for operation in operations if operation.act is not Act.DELETE]
        for operation, gone in zip(written, self.deleted(written) if written else [], strict=True):
            if gone:
                assert operation.position is not None
                field = self._settings.field
                place, offset = operation.position
                own = {f"{field}.{PLACE}": place, f"{field}.{OFFSET}": Int64(offset)}
                self._client.delete(operation.namespace, {"_id": operation.id, **own})

    def _take(self, at: TopicPartition) -> None:
        if not self._indexed:
            why = self._client.expire(self._namespace, _KEPT_FIELD, self._settings.kept_ms // 1000)
            if why is not None:
                _log.warning(
                    "deletes are remembered without end", collection=self._namespace.collection, reason=why
                )
            self._indexed = True
        name = {"group": self._settings.group, "topic": at.topic, "partition": at.partition}
        self._partitions[at] = _Partition(name, self._client.take(self._namespace, {"_id": name}))


def is_newer(there: Position | None, operation: Operation) -> bool:
    """Whether what is there is of a newer record of the same place."""
    assert operation.position is not None
    place, offset = operation.position
    return there is not None and there.place == place and there.offset > offset


def _mark(operation: Operation) -> Document:
    return {"of": ".".join(operation.namespace), "id": operation.id}


def _only_duplicates(failures: Sequence[Failure]) -> None:
    """A delete that is remembered as a newer one already is a duplicate; nothing else may fail."""
    for failure in failures:
        if not failure.duplicate:
            raise RetriableError(f"a delete cannot be remembered: {failure.name}")
