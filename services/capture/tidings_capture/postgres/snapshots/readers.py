"""Reads tables as of one exported snapshot by COPY, through one session or through several at once.

Every session runs a REPEATABLE READ transaction on the same exported snapshot (PostgreSQL documentation, "Snapshot
Synchronization Functions"), so that all rows are as of one position. A batch of lines is about a megabyte.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from tidings_capture.cdc.snapshots.parallel_reads import ParallelReads, Reader
from tidings_capture.cdc.sql_fragment import enclosed
from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.client import Endpoint, Session, quote
from tidings_capture.postgres.errors import CatalogError, PostgresError

Batch = tuple[int, list[bytes] | None]
"""The statement's number and some of its lines; None after the last."""


class Check(Protocol):
    """Looks whether what a statement gave is what the table held at the snapshot's moment."""

    def read(self, session: Session, number: int, rows: int) -> None:
        """A session has just read the statement of a number, which gave as many lines.

        Raises:
            PostgresError: it is not.
        """

    def failed(self, number: int, error: PostgresError) -> PostgresError:
        """What to raise for the error that the statement of a number ended with."""


def begin_snapshot(session: Session, snapshot: str) -> None:
    """Pin the session to an exported snapshot until COMMIT."""
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    session.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    session.execute("SET LOCAL statement_timeout = 0")  # a big table takes its time


def copy_statement(session: Session, table: Table, select: str | None = None) -> str:
    """The COPY that gives a table's rows as lines, columns in the table's order.

    Args:
        session: looks at what columns `select` gives.
        select: what to read instead of the whole table; columns that it does not give are null.
    """
    names = [quote(column.name) for column in table.columns]
    source = f"{quote(table.schema)}.{quote(table.name)}"
    if select is not None:
        try:
            select = enclosed(select)  # it may end as in psql, or in a comment
        except ValueError as error:
            raise CatalogError(
                f"the select statement for {table.schema}.{table.name} cannot be used: {error}"
            ) from error
        given = set(session.columns(f"SELECT * FROM ({select}) AS selected LIMIT 0"))  # noqa: S608 - the user's own
        names = [
            name if column.name in given else f"NULL AS {name}"
            for name, column in zip(names, table.columns, strict=True)
        ]
        source = f"({select}) AS selected"
    return f"COPY (SELECT {', '.join(names)} FROM {source}) TO STDOUT"  # noqa: S608 - quoted names


def read_all(
    session: Session,
    endpoint: Endpoint,
    snapshot: str,
    statements: Sequence[str],
    readers: int,
    on_wait: Callable[[], None],
    check: Check,
) -> Iterator[Batch]:
    """The lines of every statement.

    Args:
        session: pinned already; the only one used where one reader is enough.
        snapshot: the exported snapshot that further sessions are pinned to.
        readers: how many statements may run at once.
        on_wait: called while nothing arrives; may raise to give up.
        check: asked behind the lines of each statement.

    Raises:
        PostgresError: a statement failed, or the check says so.
    """
    readers = min(readers, len(statements))
    if readers <= 1:
        for number, statement in enumerate(statements):
            for lines in _checked(session, statement, number, check):
                yield number, lines
            yield number, None
        return
    reader = partial(_reader, endpoint, snapshot, statements, check)
    yield from ParallelReads([reader] * readers, len(statements)).batches(on_wait)


@contextmanager
def _reader(
    endpoint: Endpoint, snapshot: str, statements: Sequence[str], check: Check
) -> Iterator[Reader[list[bytes]]]:
    session = Session(endpoint)
    try:
        begin_snapshot(session, snapshot)
        yield lambda number: _checked(session, statements[number], number, check)
    finally:
        session.close()


def _checked(session: Session, statement: str, number: int, check: Check) -> Iterator[list[bytes]]:
    """The lines of a statement, and behind them the check."""
    rows = 0
    try:
        for lines in session.copy_out(statement):
            rows += len(lines)
            yield lines
    except PostgresError as error:
        raise check.failed(number, error) from error
    check.read(session, number, rows)
