"""How a worker's loops are run: none may end without anybody knowing.

A loop that has ended looks like one that has nothing to do: statuses say RUNNING, and nothing runs. So each loop, be it a
task of the event loop or a thread, is given who is told when it ends by itself, which fails the connector's task or the
worker with the reason.
"""

import asyncio
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from tidings_connect.errors import LoopError
from tidings_service import TidingsError, get_logger

OnEnd = Callable[[TidingsError], None]

_log = get_logger(__name__)


def supervise(
    work: Coroutine[Any, Any, None], name: str, on_end: OnEnd, *, may_return: bool = False
) -> asyncio.Task[None]:
    """Run a loop as a task.

    Args:
        name: what it does, for people.
        on_end: hears of its end, unless it was cancelled.
        may_return: it has an end; only errors are told.
    """

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None or not may_return:
            on_end(loop_error(name, error))

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(ended)
    return task


def supervised_thread(work: Callable[[], None], name: str, on_end: OnEnd) -> threading.Thread:
    """A thread, not started yet, which returns when it is told to; `on_end` is called in it when it fails."""

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told to whoever can do something about it
            on_end(loop_error(name, error))

    return threading.Thread(target=run, name=name, daemon=True)


def supervised_call(call: Callable[..., None], name: str, on_end: OnEnd) -> Callable[..., None]:
    """A callback of the event loop, which only logs what a callback raises."""

    def run(*arguments: object) -> None:
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - told to whoever can do something about it
            on_end(loop_error(name, error))

    return run


def loop_error(name: str, error: BaseException | None) -> TidingsError:
    """Why a loop has ended; what is not an error of our own is logged with its traceback."""
    if isinstance(error, TidingsError):
        return error
    if error is None:
        return LoopError(f"the loop {name!r} has ended by itself")
    _log.error("a loop has failed", loop=name, exc_info=error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" in {frames[-1].name}, line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""
    return LoopError(f"the loop {name!r} has failed: {type(error).__name__}{place}")
