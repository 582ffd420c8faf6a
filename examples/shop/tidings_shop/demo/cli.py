"""`tidings-demo`: everything up, a minute of shop traffic to watch, and a verdict.

Exit codes: 0 all is well, 1 a number is off or a part failed, 2 wrong arguments, 130 stopped by Ctrl-C or SIGTERM.
"""

import argparse
import os
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tidings_jvm.errors import JvmError
from tidings_service.errors import TidingsError
from tidings_shop.demo.pipeline import Options
from tidings_shop.demo.run import Demo
from tidings_shop.demo.shown import shop_figures
from tidings_shop.demo.source import POSTGRESQL, SOURCES
from tidings_shop.demo.summary_view import draw_summary
from tidings_stack.errors import PackagesUnavailableError, StackError
from tidings_stack.members import fetch_members
from tidings_stack.pipeline.screen import EXIT_STOPPED, Stopped, report, stop_on_signals, watched

EXIT_OFF = 1
_PG_VERSION = "16"
_QUERY = "select order_id, total, currency, placed_at from business.order_placed_v2 order by placed_at desc limit 10"
_CLOSE_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the console script's entry point."""
    options = parser().parse_args(arguments)
    console = Console(highlight=False)
    stop = threading.Event()
    stop_on_signals(stop)
    directory = _directory(options.directory)
    figures = shop_figures()
    source = SOURCES[options.source]
    try:
        # Before the picture, because a first download is long and has progress of its own.
        fetch_members((source.member, "kafka", "registry"), _PG_VERSION, more=("lakehouse",))
        asked = Options(
            directory, seconds=options.seconds, rate=options.rate, seed=options.seed, source=source
        )
        demo = Demo(asked, figures, stop)
    except PackagesUnavailableError as error:
        ways = (error.hint, "the shop runs on another database as well: --source mariadb or postgresql")
        return report(console, PackagesUnavailableError(str(error), hint="; ".join(filter(None, ways))))
    except (JvmError, StackError, TidingsError) as error:
        return report(console, error)
    keep_files = options.directory is not None
    try:
        verdict = watched(demo.run, figures, console)
        console.print(draw_summary(verdict, figures))
        code = EXIT_OFF if verdict.problems() else 0
        if options.keep:
            _where_to_look(demo, console, directory)
            demo.stay()
    except Stopped:
        code = EXIT_STOPPED
    except (JvmError, StackError, TidingsError) as error:
        code = report(console, error)
    finally:
        _close(demo, console)
    if code == EXIT_OFF or keep_files:
        console.print(f"logs: {directory / 'logs'}", style="dim")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


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
    commands = Path(sys.executable).parent
    settings = directory / "settings.sh"
    given = pipeline.settings() | {"TIDINGS_LAKEHOUSE_AUDIT_DATABASE": pipeline.database_url}
    settings.write_text(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in given.items())
        + f'export PATH={shlex.quote(str(commands))}:"$PATH"\n',
        "utf-8",
    )
    addresses = {
        pipeline.source.title: f"psql {pipeline.database_url}"
        if pipeline.source is POSTGRESQL
        else pipeline.database_url,
        "Kafka": f"{pipeline.stack.kafka.bootstrap}, topics shop.public.*, shop.transaction, shop.<event>.v<major>",
        "schema registry": f"{pipeline.stack.registry.url}/subjects",
        "Connect REST": f"{capture}/connectors/shop/status",
        **{f"{name}'s metrics": f"{url}/metrics" for name, url in pipeline.urls.items()},
        "logs": str(directory / "logs"),
    }
    looks = {
        "first of all": f". {shlex.quote(str(settings))}",
        "more traffic": f"tidings shop traffic --database {pipeline.database_url}",
        "the lake": f'tidings lakehouse sql "{_QUERY}"',
        "is it the same": "tidings lakehouse audit",
        "is all well": "tidings doctor",
    }
    for title, lines in (("Everything stays up until Ctrl-C.", addresses), ("In another terminal:", looks)):
        console.print(f"\n{title}", style="bold")
        for name, text in lines.items():
            console.print(f"  {name:<20} {text}", soft_wrap=True, markup=False)


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
    parser.add_argument(
        "--source",
        choices=SOURCES,
        default="postgresql",
        help="the shop's database (default: %(default)s); MariaDB and MySQL run on Linux on x86-64 only, MySQL on Debian and its like",
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
