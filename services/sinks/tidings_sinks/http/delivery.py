"""Sends messages: those of one lane one after the other, those of others at the same time; each until it was answered for.

A request that was sent and not answered may have been taken by the receiver, and is sent again with the same id.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from tidings_connect.task.sink import RetriableError, SlowError
from tidings_service import get_logger
from tidings_sinks.errors import RowError, TargetError
from tidings_sinks.http import options as names
from tidings_sinks.http.answers import Verdict, verdict
from tidings_sinks.http.client import Answer, Client, origin
from tidings_sinks.http.messages import Message, Messages, Request
from tidings_sinks.http.settings import Settings

_THROTTLED: Final = frozenset((429, 503))
_JITTER: Final = 0.2
"""Of a pause, by chance: so that senders which failed together do not come back together."""

_log = get_logger(__name__)
Done = Callable[[Message, RowError | None], None]
"""Told of each message: the receiver has it, or the error that keeps it from being sent for good."""


class Delivery:
    """What one put is to send."""

    def __init__(self, client: Client, settings: Settings, messages: Messages, done: Done) -> None:
        self._client, self._settings, self._messages, self._tell = client, settings, messages, done
        self._lanes: dict[Hashable, deque[Message]] = {}
        self._ready: deque[Hashable] = deque()
        """Lanes that have messages and no request on its way."""
        self._workers: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._deadline = time.monotonic() + settings.put_seconds
        self._some_done = False

    async def run(self, messages: Sequence[Message]) -> None:
        """Send all of them. After a failure no request is begun, and what is on its way is waited for.

        Raises:
            SlowError: there was not enough time for all.
            RetriableError: the receiver is away or busy; of some nothing is known.
            TargetError: it would take no message.
        """
        for message in messages:
            lane = self._lanes.get(message.lane)
            if lane is None:
                lane = self._lanes[message.lane] = deque()
                self._ready.append(message.lane)
            lane.append(message)
        self._spawn(len(self._ready))
        try:
            while self._workers:
                await asyncio.wait(set(self._workers))
        finally:
            for worker in self._workers:  # none, but when the process is told to end
                worker.cancel()
        if self._failure is not None:
            raise self._failure
        assert not self._ready

    def _spawn(self, count: int) -> None:
        """Begin so many workers, as far as they may be."""
        for _ in range(min(count, self._settings.in_flight - len(self._workers))):
            worker = asyncio.ensure_future(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        """Send requests one after the other, as long as there are any to be sent."""
        try:
            while self._may_begin():
                messages, lanes = self._take()
                await self._send(messages)
                self._ready.extend(lane for lane in lanes if self._lanes[lane])
                self._spawn(len(self._ready) - 1)
        except BaseException as error:  # noqa: BLE001 - raised by `run`, once nothing is on its way
            self._failure = self._failure or error

    def _may_begin(self) -> bool:
        if not self._ready or self._failure is not None:
            return False
        if time.monotonic() > self._deadline:
            self._failure = self._late()
        return self._failure is None

    def _take(self) -> tuple[list[Message], set[Hashable]]:
        """What goes into the next request: of a lane as much as fits, in its order, then of the next lane."""
        taken: list[Message] = []
        lanes: set[Hashable] = set()
        others: list[Hashable] = []
        size = self._settings.around_bytes
        while self._ready and len(taken) < self._settings.batch:
            name = self._ready.popleft()
            lane, before = self._lanes[name], len(taken)
            while lane and len(taken) < self._settings.batch:
                length = len(lane[0].body) + len(self._settings.separator)
                if taken and (size + length > self._settings.most_bytes or not taken[0].goes_with(lane[0])):
                    break
                size += length
                taken.append(lane.popleft())
            if len(taken) > before:
                lanes.add(name)
            else:
                others.append(name)
                if len(others) > self._settings.in_flight:
                    break  # a full request is not worth a look at every lane
        self._ready.extendleft(reversed(others))
        return taken, lanes

    def _late(self) -> RetriableError:
        text = (
            f"{origin(self._settings.url)} is slow: a put ends after {self._settings.put_seconds:.0f} seconds"
        )
        return SlowError(text) if self._some_done else RetriableError(text, after_seconds=0)

    # One request

    async def _send(self, messages: list[Message]) -> None:
        request = self._messages.request(messages)
        status = await self._attempts(request)
        if status is None:
            for message in messages:
                self._done(message, None)
        elif len(messages) == 1:
            self._done(
                messages[0], RowError(f"{origin(request.url)} refuses the record: it answers {status}")
            )
        else:
            # One of them is a bad one, or they are too large together.
            middle = len(messages) // 2
            await self._send(messages[:middle])
            await self._send(messages[middle:])

    def _done(self, message: Message, error: RowError | None) -> None:
        self._some_done = True
        self._tell(message, error)

    async def _attempts(self, request: Request) -> int | None:
        """Send a request until it is answered for; gives the status with which its records are refused, or None."""
        attempt = 0
        while True:
            if self._client.not_before or time.monotonic() > self._deadline:
                await self._wait_for_leave()
            asked: float | None = None
            answer: Answer | None = None
            try:
                answer = await self._client.post(
                    request.url, self._messages.signed(request, int(time.time())), request.body
                )
            except RetriableError as error:
                reason = str(error)
            else:
                match verdict(self._settings, answer.status):
                    case Verdict.DONE:
                        return None
                    case Verdict.RECORD:
                        return answer.status
                    case Verdict.FAIL:
                        raise _refused(request.url, answer.status)
                reason, asked = (
                    f"{origin(request.url)} is busy: it answers {answer.status}",
                    answer.retry_after_seconds,
                )
            pause = self._pause(attempt, answer, asked)
            attempt += 1
            if attempt > self._settings.retries or time.monotonic() + pause > self._deadline:
                rest = self._settings.rest_seconds
                raise RetriableError(reason, after_seconds=rest if asked is None else max(asked, rest or 0))
            _log.warning("a request is sent again", id=request.id, seconds=round(pause, 3), reason=reason)
            await asyncio.sleep(pause)

    def _pause(self, attempt: int, answer: Answer | None, asked: float | None) -> float:
        """How long to wait before the next attempt; a receiver that is too busy is left alone by all requests."""
        pause = self._settings.backoff_seconds * 2.0 ** min(attempt, 20)
        pause *= 1 + _JITTER * (random.random() * 2 - 1)  # noqa: S311 - no secret
        if asked is not None:
            pause = max(asked, 0.0)
        if answer is not None and answer.status in _THROTTLED:
            self._client.not_before = max(self._client.not_before, time.monotonic() + pause)
        return pause

    async def _wait_for_leave(self) -> None:
        while (wait := self._client.not_before - time.monotonic()) > 0:
            if time.monotonic() + wait > self._deadline:
                raise RetriableError(
                    f"{origin(self._settings.url)} is busy and asks for a pause", after_seconds=wait
                )
            await asyncio.sleep(wait)
        if time.monotonic() > self._deadline:
            raise self._late()


def _refused(url: str, status: int) -> TargetError:
    if 300 <= status <= 399:
        return TargetError(
            f"{origin(url)} answers {status}: a redirect, which is not followed",
            hint=f"put the address that it leads to into {names.URL}",
        )
    if status in (401, 403):
        return TargetError(
            f"{origin(url)} refuses the login: it answers {status}", hint=f"see {names.AUTHORIZATION_TYPE}"
        )
    if status == 407:
        return TargetError("the proxy refuses requests: it answers 407")
    return TargetError(
        f"{origin(url)} answers {status}: it takes no records",
        hint=f"see {names.URL}; where the answer is about one record, name it in {names.RECORD}",
    )
