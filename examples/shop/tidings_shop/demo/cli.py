"""`tidings-demo`: everything up, a minute of shop traffic to watch, and a verdict.

Exit codes: 0 all is well, 1 a number is off or a part failed, 2 wrong arguments, 130 stopped by Ctrl-C or SIGTERM.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.live import Live

from tidings_jvm import prefetch
from tidings_jvm.errors import JvmError
from tidings_service.errors import TidingsError
from tidings_shop.demo.checks import Verdict
from tidings_shop.demo.figures import Figures
from tidings_shop.demo.pipeline import Options
from tidings_shop.demo.run import Demo, Stopped
from tidings_shop.demo.summary_view import draw_summary
from tidings_shop.demo.view import draw, line
from tidings_stack.errors import StackError

EXIT_OFF = 1
EXIT_STOPPED = 130
_PARTS = ("pg-16", "kafka", "registry", "lakehouse")
_QUERY = "select * from business.order_placed_v2 limit 10"
_FRAME_SECONDS = 0.25
_LINE_SECONDS = 5.0
_SAME_LINE_SECONDS = 30.0
_CLOSE_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the console script's entry point."""
    options = parser().parse_args(arguments)
    console = Console(highlight=False)
    stop = threading.Event()
    _stop_on_signals(stop)
    directory = _directory(options.directory)
    figures = Figures()
    try:
        # Before the picture, because a first download is long and has progress of its own.
        prefetch(_PARTS)
        demo = Demo(
            Options(directory, seconds=options.seconds, rate=options.rate, seed=options.seed), figures, stop
        )
    except (JvmError, StackError, TidingsError) as error:
        return _report(console, error)
    keep_files = options.directory is not None
    try:
        verdict = _watched(demo, figures, console)
        console.print(draw_summary(verdict, figures))
        code = EXIT_OFF if verdict.problems() else 0
        if options.keep:
            _where_to_look(demo, console, directory)
            demo.stay()
    except Stopped:
        code = EXIT_STOPPED
    except (JvmError, StackError, TidingsError) as error:
        code = _report(console, error)
    finally:
        _close(demo, console)
    if code == EXIT_OFF or keep_files:
        console.print(f"logs: {directory / 'logs'}", style="dim")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _watched(demo: Demo, figures: Figures, console: Console) -> Verdict:
    """Run the demo in a thread, and show it until it ends.

    Raises:
        What the demo raises.
    """
    results: list[Verdict] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(demo.run())
        except BaseException as error:  # noqa: BLE001 - raised again below, in the main thread
            errors.append(error)

    thread = threading.Thread(target=run, name="demo", daemon=True)
    thread.start()
    with _live(figures, console) as show:
        while thread.is_alive():
            show()
            thread.join(_FRAME_SECONDS)
        show()
    if errors:
        raise errors[0]
    return results[0]


@contextlib.contextmanager
def _live(figures: Figures, console: Console) -> Iterator[Callable[[], None]]:
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


def _close(demo: Demo, console: Console) -> None:
    """Stop everything within a minute; what is left after it dies with this process."""
    console.print("stopping ...", style="dim")
    closing = threading.Thread(target=demo.close, name="close", daemon=True)
    closing.start()
    closing.join(_CLOSE_SECONDS)
    if closing.is_alive():
        os._exit(EXIT_OFF)


def _where_to_look(demo: Demo, console: Console, directory: Path) -> None:
    pipeline = demo.pipeline
    capture = pipeline.urls["capture"]
    settings = directory / "settings.sh"
    settings.write_text(
        "".join(f"export {name}='{value}'\n" for name, value in pipeline.settings().items()), "utf-8"
    )
    lines = {
        "PostgreSQL": f"psql {pipeline.database_url}",
        "more traffic": f"tidings-shop traffic --database {pipeline.database_url}",
        "Kafka": f"{pipeline.stack.kafka.bootstrap}, topics shop.public.*, shop.transaction, shop.<event>.v<major>",
        "schema registry": f"{pipeline.stack.registry.url}/subjects",
        "Connect REST": f"{capture}/connectors/shop/status",
        "the lake": f"source {settings}; tidings-lakehouse sql '{_QUERY}'",
        **{f"{name}'s metrics": f"{url}/metrics" for name, url in pipeline.urls.items()},
        "logs": str(directory / "logs"),
    }
    console.print()
    console.print("Everything stays up until Ctrl-C.", style="bold")
    for name, text in lines.items():
        console.print(f"  {name:<20} {text}", soft_wrap=True, markup=False)


def _report(console: Console, error: Exception) -> int:
    console.print("[bold red]error:[/]", end=" ")
    console.print(str(error), soft_wrap=True, markup=False)
    hint = getattr(error, "hint", None)
    if hint:
        console.print(f"hint: {hint}", soft_wrap=True, markup=False)
    return EXIT_OFF


def _stop_on_signals(stop: threading.Event) -> None:
    """The first signal stops in order, the second at once: the guards then end what is left."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(EXIT_STOPPED)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)


def _directory(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="tidings-demo-"))
    given.mkdir(parents=True, exist_ok=True)
    return given.absolute()


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-demo", description="The whole pipeline under shop traffic."
    )
    parser.add_argument("--keep", action="store_true", help="stay up afterwards, and say where to look")
    parser.add_argument("--seconds", type=_positive, default=60.0, help="of traffic (default 60)")
    parser.add_argument("--rate", type=_positive, default=20.0, help="transactions per second (default 20)")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds make equal traffic (default 1)")
    parser.add_argument(
        "--directory", type=Path, help="for logs and the lake, kept (default: a temporary one)"
    )
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


if __name__ == "__main__":
    sys.exit(main())
