"""`tidings-shop`: makes the shop's tables, fills them, and lets customers in.

Exit codes: 0 done (also when stopped by Ctrl-C or SIGTERM), 1 a named error, 2 wrong arguments.
"""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from tidings_service.errors import TidingsError
from tidings_shop.database import ShopDatabase
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic, seed_shop

_DEFAULT_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the console script's entry point."""
    options = parser().parse_args(arguments)
    errors = Console(stderr=True, highlight=False)
    try:
        with ShopDatabase(options.database) as database:
            created = database.ensure_schema()
            if options.command == "schema":
                print(
                    f"the shop's tables {'have been created' if created else 'are there'} in {database.name}"
                )
                return 0
            if options.command == "seed":
                summary = seed_shop(
                    database, options.seed, customers=options.customers, products=options.products
                )
            else:
                summary = _traffic(database, options, errors)
    except TidingsError as error:
        errors.print(f"[red]error:[/] {error}", soft_wrap=True)
        if error.hint:
            errors.print(f"hint: {error.hint}", soft_wrap=True)
        return 1
    if options.json:
        print(json.dumps(summary.to_dict()))
    else:
        Console(highlight=False).print(summary_table(summary))
    return 0


def _traffic(database: ShopDatabase, options: argparse.Namespace, console: Console) -> TrafficSummary:
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    seconds = options.duration
    if seconds is None and options.count is None:
        seconds = _DEFAULT_SECONDS
    summary = TrafficSummary(options.seed)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[orders]} orders"),
        TimeElapsedColumn(),
    )
    try:
        plan = prepare_plan(database, options.seed, rate=options.rate)
        with Progress(*columns, console=console, disable=options.no_progress) as progress:
            total = options.count or (round(seconds * options.rate) if options.rate and seconds else None)
            task = progress.add_task("transactions", total=total, orders=0)

            def show(so_far: TrafficSummary) -> None:
                progress.update(
                    task,
                    completed=so_far.transactions + so_far.not_committed.total(),
                    orders=so_far.committed["order_placed"],
                )

            run_traffic(
                database,
                plan,
                summary,
                rate=options.rate,
                count=options.count,
                seconds=seconds,
                stop=stop,
                on_transaction=show,
            )
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return summary


def summary_table(summary: TrafficSummary) -> Table:
    """The summary for a person."""
    table = Table(
        title=f"{summary.transactions} transactions committed in {summary.seconds:.1f} s (seed {summary.seed})",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("transaction")
    table.add_column("count", justify="right")
    for kind, count in sorted(summary.committed.items()):
        table.add_row(kind.replace("_", " "), f"{count:,}")
    table.add_section()
    for outcome, count in sorted(summary.not_committed.items()):
        table.add_row(f"{outcome.replace('_', ' ')} (not committed)", f"{count:,}", style="dim")
    return table


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-shop", description="The bike store: its tables and its customers."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in {
        "schema": "make the tables when they are missing",
        "seed": "add customers and products",
        "traffic": "place orders, pay, ship, cancel, correct, change prices and more, at a rate",
    }.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "--database",
            required=True,
            help="postgresql://user:password@host:port/database, or mysql://... for MariaDB and MySQL",
        )
        if name == "schema":
            continue
        command.add_argument("--seed", type=int, default=1, help="equal seeds make equal data (default 1)")
        command.add_argument("--json", action="store_true", help="print the summary as JSON")
        if name == "seed":
            command.add_argument("--customers", type=_positive_int, default=50)
            command.add_argument("--products", type=_positive_int, default=60)
            continue
        command.add_argument(
            "--rate",
            type=_rate,
            default=20.0,
            help="transactions per second (default 20); 0: as fast as it goes",
        )
        length = command.add_mutually_exclusive_group()
        length.add_argument("--count", type=_positive_int, help="stop after so many transactions")
        length.add_argument("--duration", type=_rate, help="stop after so many seconds (default 60)")
        command.add_argument("--no-progress", action="store_true", help="no progress bar")
    return parser


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _rate(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must not be negative")
    return value


if __name__ == "__main__":
    sys.exit(main())
