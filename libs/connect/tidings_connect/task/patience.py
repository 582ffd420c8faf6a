"""How long a step of a record is tried again before the task fails: ``errors.retry.timeout``, as Kafka Connect has it."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tidings_connect.config.sink_options import RETRY_TIMEOUT
from tidings_connect.task.worker_link import WorkerLink

_FIRST_SECONDS: Final = 0.3
_LONGEST: Final = "errors.retry.delay.max.ms"
_LONGEST_MS: Final = 60_000
"""Kafka Connect's; a task that fails is started again after at most ten seconds, which is Debezium's."""
_WITHOUT_END: Final = -1
_SLICE_SECONDS: Final = 0.05


class Patience:
    """The pauses between attempts of one step.

    Args:
        on_retry: called before each.
    """

    def __init__(self, config: Mapping[str, str], link: WorkerLink, on_retry: Callable[[], None]) -> None:
        timeout = int(config.get(RETRY_TIMEOUT, "").strip() or "0")
        self._seconds = float("inf") if timeout == _WITHOUT_END else timeout / 1000
        self._longest = int(config.get(_LONGEST, "").strip() or _LONGEST_MS) / 1000
        self._link = link
        self._on_retry = on_retry

    def pauses(self) -> Iterator[None]:
        """One for each further attempt; ends when the time is over, which begins now.

        Raises:
            StopRequested: the task is to stop; from the iterator.
        """
        deadline = time.monotonic() + self._seconds
        pause = _FIRST_SECONDS
        while (now := time.monotonic()) < deadline:
            # Above the longest it is anything up to it, so that tasks do not ask all at once.
            length = pause if pause <= self._longest else random.uniform(0, self._longest)  # noqa: S311
            self._wait(min(now + length, deadline))
            pause = min(pause * 2, 2 * self._longest)
            self._on_retry()
            yield

    def _wait(self, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            self._link.listen()
            time.sleep(min(left, _SLICE_SECONDS))
        self._link.listen()
