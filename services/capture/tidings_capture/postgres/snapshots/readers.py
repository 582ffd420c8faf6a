"""Reads tables as of one exported snapshot by COPY, through one session or through several at once.

Every session runs a REPEATABLE READ transaction on the same exported snapshot (PostgreSQL documentation, "Snapshot
Synchronization Functions"), so that all rows are as of one position. Several readers are threads that only fetch lines;
conversion stays with the caller. What they have fetched waits in a queue of two batches a reader, and a batch is about
a megabyte, so memory is bounded whatever the tables hold.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tidings_capture.cdc.sql_fragment import enclosed
from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.client import Endpoint, Session, quote
from tidings_capture.postgres.errors import CatalogError

_BATCHES_PER_READER: Final = 2
_WAIT_SECONDS: Final = 0.2
_END_SECONDS: Final = 5.0

Batch = tuple[int, list[bytes] | None]
"""The statement's number and some of its lines; None after the last."""


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
) -> Iterator[Batch]:
    """The lines of every statement.

    Args:
        session: pinned already; the only one used where one reader is enough.
        snapshot: the exported snapshot that further sessions are pinned to.
        readers: how many statements may run at once.
        on_wait: called while nothing arrives; may raise to give up.
    """
    readers = min(readers, len(statements))
    if readers <= 1:
        for number, statement in enumerate(statements):
            for lines in session.copy_out(statement):
                yield number, lines
            yield number, None
        return
    yield from _Readers(endpoint, snapshot, dict(enumerate(statements)), readers).batches(on_wait)


class _Readers:
    def __init__(
        self, endpoint: Endpoint, snapshot: str, statements: Mapping[int, str], readers: int
    ) -> None:
        self._endpoint = endpoint
        self._snapshot = snapshot
        self._statements = statements
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in statements:
            self._todo.put(number)
        self._out: queue.Queue[Batch | BaseException] = queue.Queue(readers * _BATCHES_PER_READER)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"snapshot reader {i}", daemon=True)
            for i in range(readers)
        ]

    def batches(self, on_wait: Callable[[], None]) -> Iterator[Batch]:
        for thread in self._threads:
            thread.start()
        left = len(self._statements)
        try:
            while left:
                try:
                    found = self._out.get(timeout=_WAIT_SECONDS)
                except queue.Empty:
                    on_wait()
                    continue
                if isinstance(found, BaseException):
                    raise found
                left -= found[1] is None
                yield found
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(_END_SECONDS)

    def _run(self) -> None:
        session: Session | None = None
        try:
            session = Session(self._endpoint)
            begin_snapshot(session, self._snapshot)
            while True:
                try:
                    number = self._todo.get_nowait()
                except queue.Empty:
                    return
                for lines in session.copy_out(self._statements[number]):
                    if not self._give((number, lines)):
                        return
                self._give((number, None))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for rows, which raises it
            self._give(error)
        finally:
            if session is not None:
                session.close()

    def _give(self, found: Batch | BaseException) -> bool:
        while not self._stop.is_set():
            try:
                self._out.put(found, timeout=_WAIT_SECONDS)
            except queue.Full:
                continue
            return True
        return False
