"""``tidings-capture tail URL [table ...]``: shows a database's changes, with no Kafka at all.

Exit codes: 0 when it was stopped, 1 when the server could not be reached or refused, 2 for arguments that do not fit.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from tidings_capture.postgres.client import read_url
from tidings_capture.postgres.tail.output import OURS, JsonOutput, Output, TextOutput
from tidings_capture.postgres.tail.run import Tail
from tidings_capture.postgres.tail.setup import TailOptions, drop_durable
from tidings_service import TidingsError, print_error

_LAST_LINE_BYTES: Final = 16 << 20
"""How far back the beginning of an unfinished line is looked for."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    options_of = parser()
    given = options_of.parse_intermixed_args(arguments)
    if given.drop and given.slot is None:
        options_of.error("--drop needs --slot")
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: _stop(stopped, received))
    try:
        endpoint = read_url(given.url)
        if given.drop:
            drop_durable(endpoint, given.slot)
            return 0
        options = TailOptions(endpoint, tuple(given.table), given.slot, given.publication, given.snapshot)
        with opened(given.output) as stream:
            Tail(options, _output(given, stream), stream, lambda: bool(stopped), _say).run()
    except BrokenPipeError:
        # The reader has seen enough (`| head`). Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TidingsError as error:
        return print_error(error)
    except OSError as error:
        print(f"error: --output {given.output}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _stop(stopped: list[int], received: int) -> None:
    stopped.append(received)
    signal.signal(received, signal.SIG_DFL)  # the second time it ends at once, whatever it waits for


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-capture tail",
        description="Show a PostgreSQL database's changes as they are committed. Needs wal_level=logical and a role "
        "with REPLICATION; by default nothing is left behind in the database.",
    )
    parser.add_argument("url", help="postgresql://user:password@host/database")
    parser.add_argument(
        "table", nargs="*", help="schema.table, or a table of schema public; default: all tables"
    )
    parser.add_argument("--snapshot", action="store_true", help="show the rows that are there first")
    parser.add_argument("--format", choices=("text", "json"), help="default: text, with --output json")
    parser.add_argument(
        "--json", dest="format", action="store_const", const="json", help="the same as --format json"
    )
    parser.add_argument("--output", metavar="FILE", help="append to a file")
    parser.add_argument(
        "--slot",
        metavar="NAME",
        help="keep a slot of this name, and go on with it; it holds WAL until --drop. After a crash the last "
        "transactions may come twice",
    )
    parser.add_argument(
        "--drop", action="store_true", help="drop the slot and the publication of --slot, and end"
    )
    parser.add_argument("--publication", metavar="NAME", help="use a publication that exists")
    return parser


@contextlib.contextmanager
def opened(path: str | None) -> Iterator[TextIO]:
    """Standard output, or the file to append to."""
    if path is None:
        yield sys.stdout
        return
    with Path(path).open("a", encoding="utf-8") as stream:
        if Path(path).is_file():  # no device, no pipe
            _end_last_line(Path(path), stream)
        yield stream


def _end_last_line(path: Path, stream: TextIO) -> None:
    """A run that was killed may have left half a line: ours is taken away (it comes again), another's is ended."""
    with path.open("rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - _LAST_LINE_BYTES)
        file.seek(start)
        _, newline, rest = file.read().rpartition(b"\n")
        if not rest:
            return
        if rest.startswith(OURS) and (newline or start == 0):
            stream.truncate(file.tell() - len(rest))
        else:
            stream.write("\n")


def _output(given: argparse.Namespace, stream: TextIO) -> Output:
    if (given.format or ("json" if given.output else "text")) == "json":
        return JsonOutput()
    return TextOutput(colours=stream.isatty() and "NO_COLOR" not in os.environ)


def _say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)
