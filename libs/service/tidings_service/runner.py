"""Runs a service: signals, the one place that turns an error into an exit code, and the last log line.

SIGTERM and SIGINT set the stop event; the service ends what it has begun and returns. A second signal ends it at once.
Exit codes: what the service returned (0 after a stop), 1 for a named error, 2 for a wrong setting, 70 (EX_SOFTWARE)
for an error nobody foresaw. SIGUSR1 writes the stack of every thread to standard error, and harms nothing: what a service
that hangs is doing.
"""

import asyncio
import faulthandler
import os
import signal
from collections.abc import Awaitable, Callable

from tidings_service.errors import SettingsError, TidingsError
from tidings_service.logs import get_logger

EXIT_ERROR = 1
EXIT_SETTINGS = 2
EXIT_SOFTWARE = 70

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_service(main: Callable[[asyncio.Event], Awaitable[int]], *, service: str) -> int:
    """Run `main(stop)` in a new event loop until it returns; logs must be configured by then or by `main`.

    Returns:
        The exit code; a named error has been logged as one line with its code and hint.
    """
    stacks_on_signal()
    try:
        return asyncio.run(_with_signals(main))
    except TidingsError as error:
        return report_error(error, service=service)
    except Exception:  # noqa: BLE001 - the last line of defence, logged with its traceback
        get_logger(service).exception("the service stopped on an unexpected error")
        return EXIT_SOFTWARE


def stacks_on_signal() -> None:
    """From now on SIGUSR1 writes the stack of every thread of this process to standard error."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)


def report_error(error: TidingsError, *, service: str) -> int:
    """Log a named error as one line and give the exit code that belongs to it."""
    get_logger(service).error(str(error), code=error.code, retry=str(error.retry), hint=error.hint)
    return EXIT_SETTINGS if isinstance(error, SettingsError) else EXIT_ERROR


async def _with_signals(main: Callable[[asyncio.Event], Awaitable[int]]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await main(stop)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
