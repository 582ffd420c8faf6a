"""Runs operations in requests, until the server has answered for each of them.

What is done again is safe: a document keeps the place of its record, or has an id that only this record makes, or is put in
place of itself. The operations of a document are done in the order of their records.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from tidings_connect.task.sink import RetriableError
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.mongo.bson_types import key_of, problem_of
from tidings_sinks.mongo.client import Client, Failure, UnsendableError
from tidings_sinks.mongo.documents import Document
from tidings_sinks.mongo.operations import Act, Operation, Position
from tidings_sinks.mongo.positions import Positions, is_newer, stamped
from tidings_sinks.mongo.settings import Id, Settings

_OWN_IDS: Final = frozenset((Id.OBJECT_ID, Id.UUID, Id.PLACE))
"""Strategies whose ids no other record makes."""
_ATTEMPTS: Final = 3
_MOST_BYTES: Final = 16 * 1024 * 1024
"""Of a document, on every server until now."""
Done = Callable[[Operation, RowError | None], None]
"""Told of each operation: it was done, or the error that keeps the server from it for good."""
Older = Callable[[Operation], None]
"""Told of each operation that is of an older record than its document, or its delete; and is no repeated one."""


class Bulk:
    """Runs operations.

    Args:
        sleep: waits so many seconds.
    """

    def __init__(
        self, client: Client, settings: Settings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client, self._settings, self._sleep = client, settings, sleep
        self.positions = Positions(client, settings)
        self._requests: dict[str, int] = {}
        """Of topics with a rate: how many since the last pause."""

    def run(self, operations: Sequence[Operation], done: Done, older: Older) -> None:
        """Run all of them.

        Raises:
            RetriableError: the server is away or busy; of some nothing is known.
            TargetError: it refuses them for a reason that no single one has.
        """
        guarded = [operation for operation in operations if operation.position is not None]
        left: Sequence[Operation] = operations
        if guarded:
            self.positions.begin(guarded)
            left = self._without_repeats(operations, done)
            deletes = [each for each in left if each.act is Act.DELETE and each.position is not None]
            if deletes:
                self.positions.remember(deletes)
            for operation in left:
                if operation.position is not None:
                    stamped(operation, self._settings.field)
        for request in _requests(left):
            self._request(request, done, older)
            self._rest(request[0])
        if guarded:
            self.positions.confirm()

    def _without_repeats(self, operations: Sequence[Operation], done: Done) -> list[Operation]:
        """Those that are left when what was written before is not written again."""
        asked = [each for each in operations if each.position is not None and self.positions.repeats(each)]
        if not asked:
            return list(operations)
        gone = {id(each) for each in self._newer(asked)}
        writes = [each for each in asked if each.act is not Act.DELETE and id(each) not in gone]
        if writes:
            deleted = self.positions.deleted(writes)
            gone |= {id(each) for each, is_deleted in zip(writes, deleted, strict=True) if is_deleted}
        for operation in asked:
            if id(operation) in gone:
                done(operation, None)
        return [each for each in operations if id(each) not in gone]

    def _newer(self, operations: Sequence[Operation]) -> list[Operation]:
        """Those whose documents are of newer records of the same place."""
        found = []
        for operation, there in self._there(operations):
            if there is not None and is_newer(Position.of(there.get(self._settings.field)), operation):
                found.append(operation)
        return found

    def _there(self, operations: Sequence[Operation]) -> Iterator[tuple[Operation, Document | None]]:
        """Operations, each with the position of its document; None: there is no document."""
        for namespace, group in groupby(operations, key=lambda operation: operation.namespace):
            those = list(group)
            ids = {key_of(each.id): each.id for each in those}
            found = self._client.find(namespace, list(ids.values()), [self._settings.field])
            documents = {key_of(each["_id"]): each for each in found}
            for operation in those:
                yield operation, documents.get(key_of(operation.id))

    # Requests

    def _request(self, operations: list[Operation], done: Done, older: Older) -> None:
        namespace, left = operations[0].namespace, operations
        ordered = operations[0].topic.ordered or _repeats_an_id(operations)
        while left:
            try:
                failures = self._client.write(namespace, left, ordered=ordered)
            except UnsendableError:
                left = self._sendable(left, done)
                continue
            failed = {failure.at: failure for failure in failures}
            # A server that does not stop at an error tells of several; what follows the last is done again, which is safe.
            end = max(failed) + 1 if ordered and failed else len(left)
            for at, operation in enumerate(left[:end]):
                failure = failed.get(at)
                if failure is None:
                    done(operation, None)
                else:
                    self._failed(operation, failure, done, older)
            left = left[end:]

    def _sendable(self, operations: list[Operation], done: Done) -> list[Operation]:
        """Those that can be sent; the others are bad records."""
        found = []
        for operation in operations:
            problem = problem_of(operation.filter, _MOST_BYTES) or problem_of(operation.document, _MOST_BYTES)
            if problem is None:
                found.append(operation)
            else:
                done(operation, RowError(problem))
        if len(found) == len(operations):
            raise TargetError(f"{'.'.join(operations[0].namespace)}: a request cannot be sent")
        return found

    def _failed(self, operation: Operation, failure: Failure, done: Done, older: Older) -> None:
        where = ".".join(operation.namespace)
        current: Failure | None = failure
        for _ in range(_ATTEMPTS):
            if current is None:
                done(operation, None)
                return
            if current.busy:
                raise RetriableError(f"{where} is busy: {current.name}")
            if current.denied:
                raise TargetError(
                    f"{where} refuses documents: {current.name}",
                    hint="the user needs the role readWrite on the database",
                )
            if not current.duplicate:
                done(operation, RowError(f"{where} refuses the document: {current.name}"))
                return
            if self._is_there(operation, done, older):
                return
            if operation.act is Act.INSERT or not current.of_id:
                break
            # Another task made the document between this one's look and its write.
            found = self._client.write(operation.namespace, [operation], ordered=True)
            current = found[0] if found else None
        if current is None:
            done(operation, None)
        else:
            text = (
                f"{where} has another document with the same values in its index {current.of_index or '_id_'}"
            )
            done(operation, RowError(text))

    def _is_there(self, operation: Operation, done: Done, older: Older) -> bool:
        """Whether a duplicate is of the record itself, or of a newer one of the same place."""
        if operation.position is not None:
            ((_, there),) = self._there([operation])
            position = Position.of((there or {}).get(self._settings.field))
            if position is None or position.place != operation.position.place:
                return False
            if position.offset == operation.position.offset:
                done(operation, None)
            elif position.offset > operation.position.offset:
                older(operation)
            return position.offset >= operation.position.offset
        if operation.act is not Act.INSERT:
            return False
        if operation.topic.id not in _OWN_IDS:
            found = self._client.find(operation.namespace, [operation.id])
            if found != [operation.document]:
                return False
        done(operation, None)
        return True

    def _rest(self, operation: Operation) -> None:
        """``rate.limiting.*``."""
        topic = operation.topic
        if not topic.rate_every or not topic.rate_seconds:
            return
        count = self._requests.get(operation.record.topic, 0) + 1
        if count >= topic.rate_every:
            self._sleep(topic.rate_seconds)
            count = 0
        self._requests[operation.record.topic] = count


def _requests(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Parts that may be one request each: of one topic and one collection, and as many as the options say."""
    part: list[Operation] = []
    for operation in operations:
        if part and (
            part[0].namespace != operation.namespace
            or part[0].record.topic != operation.record.topic
            or (operation.topic.most and len(part) >= operation.topic.most)
        ):
            yield part
            part = []
        part.append(operation)
    if part:
        yield part


def _repeats_an_id(operations: Sequence[Operation]) -> bool:
    """Whether an operation may be of the document of another."""
    if any(operation.id is None for operation in operations):
        return True
    return len({key_of(operation.id) for operation in operations}) != len(operations)
