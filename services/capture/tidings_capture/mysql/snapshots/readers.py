"""Reads tables by one connection, or by several at once that see the same moment (see `moment`)."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from tidings_capture.cdc.snapshots.parallel_reads import ParallelReads, Reader
from tidings_capture.mysql.client import Session

Rows = Sequence[bytes]
"""As the server writes them."""
Batch = tuple[int, Rows | None]
"""The statement's number and some of its rows; None after the last."""


def read_all(sessions: Sequence[Session], statements: Sequence[str], rows: int) -> Generator[Batch]:
    """The rows of every statement; those of one are in order.

    Args:
        rows: how many are fetched at a time.

    Raises:
        MariaDbError: a statement fails.
    """
    if len(sessions) == 1:
        for number, statement in enumerate(statements):
            for found in _fetched(sessions[0], statement, rows):
                yield number, found
            yield number, None
        return
    readers = [partial(_reader, session, statements, rows) for session in sessions]

    def interrupt() -> None:
        for session in sessions:
            session.interrupt()

    yield from ParallelReads(readers, len(statements)).batches(interrupt=interrupt)


@contextmanager
def _reader(session: Session, statements: Sequence[str], rows: int) -> Iterator[Reader[Rows]]:
    yield lambda number: _fetched(session, statements[number], rows)


def _fetched(session: Session, statement: str, count: int) -> Iterator[Rows]:
    result = session.open(statement)
    try:
        while rows := result.fetch(count):
            yield rows
    except BaseException:
        result.abandon()
        raise
    result.close()
