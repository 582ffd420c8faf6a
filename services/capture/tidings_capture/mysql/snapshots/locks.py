"""The locks of a snapshot (``snapshot.locking.mode``): which tables cannot be written meanwhile, and until when.

``minimal`` locks tables of engines without transactions only, as MariaDB tells where its log is at the beginning of a
transaction that sees all others at that moment; MySQL does not, nor MariaDB of distributed transactions (XA), so that all tables are
locked until the transaction has begun; ``extended`` locks all of the server's tables, or the captured ones where the user
may not, until their rows are read; ``none`` nothing.

A lock lasts as long as its connection. The server would keep one of a host that is gone for as long as its ``wait_timeout``, eight
hours as a rule, or until its kernel asks, after two; and nobody could write. So its ``wait_timeout`` is two minutes, and it says
something much more often.
"""

import contextlib
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.selected import quoted
from tidings_capture.mysql.errors import MariaDbError, UnsupportedError
from tidings_capture.mysql.schemas.catalog import Found, tables
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_capture.mysql.snapshots.moment import IDLE_SECONDS, commits_xa, warn_of_xa
from tidings_service import get_logger
from tidings_service.errors import Retry

_log = get_logger(__name__)
_TRANSACTIONAL: Final = frozenset({"INNODB", "ROCKSDB"})
_REFUSED: Final = frozenset({1044, 1142, 1227})
"""The server's numbers for a right that the user has not."""
_TIMED_OUT: Final = 1205
_SPOKEN_SECONDS: Final = 15.0
"""How often the connection of a lock says something."""


def has_transactions(found: Found) -> bool:
    """Whether a table's engine has transactions."""
    return (found.engine or "").upper() in _TRANSACTIONAL


def captured_tables(
    session: Session, config: MariaDbConfig, only: Collection[tuple[str, str]] | None = None
) -> list[Found]:
    """The captured tables whose rows a snapshot reads, in its order: not the table of signals, which are not data.

    Args:
        only: none but these; None: all that ``snapshot.include.collection.list`` leaves.

    Raises:
        MariaDbError: the server cannot be asked.
    """
    there = {(found.database, found.name): found for found in tables(session)}
    chosen = [
        name
        for name in there
        if config.captures(*name)
        and name != config.signals.table
        and (config.snapshot.includes(*name) if only is None else name in only)
    ]
    found = [there[name] for name in config.tables.order(chosen)]
    order = config.snapshot.order
    if order != "disabled":
        found.sort(key=lambda one: one.rows or 0, reverse=order == "descending")
    return found


class _Lock:
    """A connection that locks, and says something every now and then until it is closed.

    Raises:
        MariaDbError: it cannot be made.
    """

    def __init__(self, config: MariaDbConfig) -> None:
        self.session = Session(config.endpoint)
        self._closed = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._speak, name="snapshot lock", daemon=True)
        try:
            self.session.rows(f"SET SESSION wait_timeout = {IDLE_SECONDS}")
            self.session.rows(f"SET SESSION lock_wait_timeout = {max(1, round(config.lock_seconds))}")
        except BaseException:
            self.session.close()
            raise

    def keep(self) -> None:
        """It has locked: from now on nobody else uses its session."""
        self._thread.start()

    def _speak(self) -> None:
        while not self._closed.wait(_SPOKEN_SECONDS):
            with self._turn:
                if self._closed.is_set():
                    return
                try:
                    self.session.rows("DO 0")
                except MariaDbError as error:
                    # `give_back` finds the same, and then what was read does not count.
                    _log.warning("the connection that holds the snapshot's locks is lost", reason=str(error))
                    return

    def give_back(self) -> None:
        """Unlock, and close the connection.

        Raises:
            MariaDbError: it was lost before: others may have written meanwhile.
        """
        self._closed.set()
        try:
            with self._turn:
                self.session.rows("UNLOCK TABLES")
        finally:
            self.close()

    def close(self) -> None:
        """End the connection, and with it the lock."""
        self._closed.set()
        with self._turn:
            self.session.close()
        if self._thread.is_alive():
            self._thread.join()


class Locks:
    """The locks of one snapshot, on a connection of their own: to begin a transaction would give them back.

    Args:
        only: see `captured_tables`.

    Raises:
        MariaDbError: they cannot be had; names the rights that they need.
        UnsupportedError: a table without transactions needs one, and ``snapshot.locking.mode`` is ``none``.
    """

    def __init__(self, config: MariaDbConfig, only: Collection[tuple[str, str]] | None = None) -> None:
        self._config = config
        self._only = only
        self.whole = False
        """Whether every table is locked."""
        self.locked: frozenset[tuple[str, str]] = frozenset()
        """Those that are locked for themselves."""
        self.holds_all = False
        """Whether all tables that are read are locked."""
        self._commits: _Lock | None = None
        """Holds commits up until the snapshot has begun."""
        self._tables: _Lock | None = _Lock(config)
        try:
            self._lock(self._tables.session)
            self._tables.keep()
        except BaseException:
            self.close()
            raise
        if not (self.whole or self.locked):
            self.release()

    def _lock(self, session: Session) -> None:
        is_whole = self._config.locking == "extended" or self._config.flavour.moment_needs_lock
        if not is_whole and commits_xa(session):
            self._hold_commits()
        if is_whole:
            self.whole = self._lock_all(session)
            if self.whole:
                self.holds_all = True
                _log.info("no table can be written until the snapshot gives its lock back")
                return
            _log.warning("the user has no right RELOAD: the captured tables are locked one by one")
        captured = captured_tables(session, self._config, self._only)
        chosen = [found for found in captured if is_whole or not has_transactions(found)]
        self.holds_all = is_whole
        if not chosen:
            return
        check_engines(chosen, self._config)
        self._lock_each(session, chosen)

    def _hold_commits(self) -> None:
        """Nobody commits until `begun`, where the user may do that; waits for commits that are under way."""
        self._commits = _Lock(self._config)
        if self._lock_all(self._commits.session):
            self._commits.keep()
        else:
            self._commits.close()
            self._commits = None
            warn_of_xa()

    def _lock_all(self, session: Session) -> bool:
        """Lock all of the server's tables against writing; False, where the user has no right to."""
        with self._told("all tables"):
            try:
                session.rows("FLUSH TABLES WITH READ LOCK")
            except MariaDbError as error:
                if error.number not in _REFUSED:
                    raise
                return False
        return True

    def begun(self) -> None:
        """The snapshot has begun: commits may go on.

        Raises:
            MariaDbError: they went on before, when the connection was lost.
        """
        lock, self._commits = self._commits, None
        if lock is not None:
            lock.give_back()

    def _lock_each(self, session: Session, chosen: Sequence[Found]) -> None:
        names = ", ".join(f"{quoted(found.database)}.{quoted(found.name)} READ" for found in chosen)
        with self._told(f"{len(chosen)} tables"):
            session.rows(f"LOCK TABLES {names}")
        self.locked = frozenset((found.database, found.name) for found in chosen)
        _log.info("tables cannot be written until the snapshot has read them", count=len(chosen))

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        mode = self._config.locking
        try:
            yield
        except MariaDbError as error:
            if error.number in _REFUSED:
                raise MariaDbError(
                    f"snapshot.locking.mode={mode} cannot lock {what}: the user does not have the rights for it",
                    number=error.number,
                    hint=_rights(mode),
                    retry=Retry.MANUAL,
                ) from error
            if error.number == _TIMED_OUT:
                raise MariaDbError(
                    f"{what} could not be locked in {self._config.lock_seconds:g} seconds (snapshot.lock.timeout.ms)",
                    number=error.number,
                    hint="statements and transactions that run for long hold a lock up, and it then holds up all others",
                ) from error
            raise

    def release(self) -> None:
        """Give the locks back.

        Raises:
            MariaDbError: they were lost before, with their connection: what was read may be of several moments.
        """
        lock, self._tables = self._tables, None
        if lock is not None:
            lock.give_back()

    def close(self) -> None:
        """End the connections, and with them the locks."""
        for lock in (self._tables, self._commits):
            if lock is not None:
                lock.close()
        self._tables = self._commits = None


def _rights(mode: str) -> str:
    if mode == "extended":
        return "GRANT RELOAD ON *.*, or LOCK TABLES and SELECT on the captured databases; or set snapshot.locking.mode=minimal"
    return "GRANT LOCK TABLES and SELECT on their databases; or leave tables of engines without transactions out with table.exclude.list"


def check_engines(captured: Sequence[Found], config: MariaDbConfig) -> None:
    """See that no table needs a lock that none is taken of.

    Raises:
        UnsupportedError: one does.
    """
    if config.locking != "none":
        return
    for found in captured:
        if not has_transactions(found):
            raise UnsupportedError(
                f"{found.database}.{found.name} is of the engine {found.engine}, of which no snapshot can be read without a lock",
                hint="set snapshot.locking.mode=minimal, leave it out with table.exclude.list, or ALTER TABLE ... ENGINE=InnoDB",
            )
