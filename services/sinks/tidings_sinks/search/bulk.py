"""Runs operations, a request at a time, until the server has answered for each of them.

What is tried again is safe, in whatever order: the server refuses an operation that is older than its document (409), and one
that was done already is refused like that. Only documents without ids may be there twice.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import orjson

from tidings_connect.task.sink import RetriableError
from tidings_service import get_logger
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.search.client import Client, Present, Result, TooLargeError, said
from tidings_sinks.search.operations import Act, Operation
from tidings_sinks.search.settings import Settings

_MOST_BYTES: Final = 10_000_000
_VERSIONS: Final = re.compile(
    r"current version \[(-?\d+)\] is higher or equal to the one provided \[(-?\d+)\]"
)
_BLOCKED: Final = "cluster_block_exception"
_BUSY: Final = frozenset((408, 429, 502, 503, 504))

_log = get_logger(__name__)
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Done = Callable[[Operation, RowError | None], None]
"""Told of each operation: it was done, or the error that keeps the server from it for good."""
Older = Callable[[Operation], None]
"""Told of each operation that is older than its document."""


class Bulk:
    """Runs operations.

    Args:
        sleep: waits so many seconds.
    """

    def __init__(
        self, client: Client, settings: Settings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client, self._settings, self._sleep = client, settings, sleep
        self._sent: dict[tuple[str, str | None], int] = {}
        """The highest version of each document in requests that were not done whole, since the last run that ended well."""

    def run(self, operations: Sequence[Operation], done: Done, older: Older) -> None:
        """Run all of them.

        Raises:
            RetriableError: the server is away or busy for longer than the options say; of some nothing is known.
            TargetError: it refuses them for a reason that no single one has.
        """
        deadline = time.monotonic() + self._settings.most_seconds
        for request in self._requests(operations):
            self._request(request, deadline, done, older)
        self._sent.clear()

    def _requests(self, operations: Sequence[Operation]) -> Iterator[list[Operation]]:
        """Parts that may be one request each: where a document has to be known, what is done to it before is known too."""
        merging = any(operation.needs_present for operation in operations)
        part: list[Operation] = []
        places: set[tuple[str, str | None]] = set()
        size = 0
        for operation in operations:
            length = len(operation.document)
            if part and (
                len(part) >= self._settings.batch
                or size + length > _MOST_BYTES
                or (operation.needs_present and operation.place in places)
            ):
                yield part
                part, places, size = [], set(), 0
            part.append(operation)
            if merging:
                places.add(operation.place)
            size += length
        if part:
            yield part

    def _request(self, operations: list[Operation], deadline: float, done: Done, older: Older) -> None:
        attempt, left = 0, operations
        while left:
            try:
                left, reason = self._attempt(left, done, older)
            except TooLargeError:
                self._halves(left, deadline, done, older)
                return
            except RetriableError as error:
                reason = str(error)
            if not left:
                return
            pause = self._settings.backoff_seconds * 2.0 ** min(attempt, 20)
            attempt += 1
            if attempt > self._settings.retries or time.monotonic() + pause > deadline:
                raise RetriableError(reason)
            _log.warning("documents are sent again", count=len(left), reason=reason)
            self._sleep(pause)

    def _halves(self, operations: list[Operation], deadline: float, done: Done, older: Older) -> None:
        if len(operations) == 1:
            done(operations[0], RowError("the document is larger than the server takes"))
            return
        middle = len(operations) // 2
        self._request(operations[:middle], deadline, done, older)
        self._request(operations[middle:], deadline, done, older)

    def _attempt(self, operations: list[Operation], done: Done, older: Older) -> tuple[list[Operation], str]:
        """One request. Gives what has to be sent again, and why."""
        self._complete_all(operations)
        results: list[Result] | None = []
        try:
            results = self._client.bulk(b"".join([operation.lines() for operation in operations]))
        finally:
            if results is not None:
                self._remember(operations)
        if results is None:
            for operation in operations:
                done(operation, None)
            return [], ""
        if len(results) != len(operations):
            raise TargetError("the server's answer has another number of operations than its request")
        again: list[Operation] = []
        reason = ""
        for operation, result in zip(operations, results, strict=True):
            if result.error is None and result.status not in _BUSY:
                done(operation, None)
            elif self._is_busy(result):
                again.append(operation)
                reason = f"{operation.target} is busy: {result.error.type if result.error else result.status}"
            else:
                self._refused(operation, result, done, older)
        return again, reason

    @staticmethod
    def _is_busy(result: Result) -> bool:
        return result.status in _BUSY or (result.error is not None and result.error.type == _BLOCKED)

    def _refused(self, operation: Operation, result: Result, done: Done, older: Older) -> None:
        assert result.error is not None
        if result.status == 409:
            if self._is_done(operation, result.error.reason or ""):
                done(operation, None)
            else:
                older(operation)
        elif result.status == 400:
            done(operation, RowError(f"{operation.target} refuses the document: {said(result.error)}"))
        else:
            raise TargetError(
                f"{operation.target} refuses documents: {result.status} {said(result.error)}",
                hint="the user needs the right to write, and create_index where indexes are created",
            )

    def _is_done(self, operation: Operation, reason: str) -> bool:
        """Whether a conflict is with the record itself, or with one that was sent here after it."""
        match = _VERSIONS.search(reason)
        if match is None:  # of an operation without a version
            return operation.act is Act.CREATE and operation.unique
        current, given = int(match[1]), int(match[2])
        return current == given or current <= self._sent.get(operation.place, -1)

    def _remember(self, operations: list[Operation]) -> None:
        for operation in operations:
            if operation.version is not None:
                self._sent[operation.place] = max(operation.version, self._sent.get(operation.place, -1))

    # Documents that are completed by what is there

    def _complete_all(self, operations: list[Operation]) -> None:
        """Give the operations that need it their whole documents."""
        asking = [operation for operation in operations if operation.needs_present]
        if not asking:
            return
        wanted = [
            {"_index": each.target, "_id": each.id, **({"routing": each.routing} if each.routing else {})}
            for each in asking
        ]
        for operation, present in zip(asking, self._client.documents(wanted), strict=True):
            if present.error is not None:
                raise RetriableError(f"a document cannot be read: {present.error.type}")
            _complete(operation, present)


def _complete(operation: Operation, present: Present) -> None:
    assert operation.version is not None
    if not present.found or present.version >= operation.version:
        return  # there is nothing to add; what is older, the server refuses
    if operation.merges:
        operation.document = merged(bytes(present.source), operation.document)
        return
    there = _decode_fields(present.source)
    kept = {name: there[name] for name in operation.missing if name in there}
    operation.document = _joined(kept | _decode_fields(operation.document))


def merged(there: bytes, new: bytes) -> bytes:
    """A document put over another: fields of objects one by one, all else whole. Numbers keep their digits."""
    found = _decode_fields(there)
    for name, value in _decode_fields(new).items():
        old = found.get(name)
        both = old is not None and bytes(old)[:1] == b"{" == bytes(value)[:1]
        found[name] = msgspec.Raw(merged(bytes(old), bytes(value))) if both and old is not None else value
    return _joined(found)


def _joined(fields: dict[str, msgspec.Raw]) -> bytes:
    return orjson.dumps({name: orjson.Fragment(bytes(value)) for name, value in fields.items()})
