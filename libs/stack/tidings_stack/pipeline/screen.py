"""Shows figures while something runs in a thread: a live picture on a terminal, a line now and then elsewhere."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from rich.console import Console
from rich.live import Live

from tidings_stack.pipeline.figures import Figures
from tidings_stack.pipeline.view import draw, line

EXIT_STOPPED = 130
_FRAME_SECONDS = 0.25
_LINE_SECONDS = 5.0
_SAME_LINE_SECONDS = 30.0

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - not an error
    """Somebody asked to stop."""


def watched(course: Callable[[], T], figures: Figures, console: Console) -> T:
    """Run `course` in a thread, and show the figures until it ends.

    Raises:
        What the course raises.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(course())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the main thread
            errors.append(error)

    thread = threading.Thread(target=run, name="course", daemon=True)
    thread.start()
    with live_picture(figures, console) as show:
        while thread.is_alive():
            show()
            thread.join(_FRAME_SECONDS)
        show()
    if errors:
        raise errors[0]
    return results[0]


@contextlib.contextmanager
def live_picture(figures: Figures, console: Console) -> Iterator[Callable[[], None]]:
    """What to call again and again to show the figures: a picture on a terminal, else a line now and then."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda: live.update(draw(figures, console.height), refresh=True)
        return
    said, said_at, announced = "", 0.0, False

    def show() -> None:
        nonlocal said, said_at, announced
        if not announced and figures.first_event_seconds is not None:
            announced = True
            console.print(f"first business event {figures.first_event_seconds:.1f} s after the start")
        now = time.monotonic()
        if now - said_at < _LINE_SECONDS:
            return
        text = line(figures)
        if text != said or now - said_at >= _SAME_LINE_SECONDS:
            said, said_at = text, now
            console.print(f"{figures.elapsed:5.0f} s  {text}", soft_wrap=True)

    yield show


def stop_on_signals(stop: threading.Event) -> None:
    """The first signal stops in order, the second at once: the guards then end what is left."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(EXIT_STOPPED)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)


def report(console: Console, error: Exception) -> int:
    """Say what went wrong; the exit code."""
    console.print("[bold red]error:[/]", end=" ")
    console.print(str(error), soft_wrap=True, markup=False)
    hint = getattr(error, "hint", None)
    if hint:
        console.print(f"hint: {hint}", soft_wrap=True, markup=False)
    return 1
