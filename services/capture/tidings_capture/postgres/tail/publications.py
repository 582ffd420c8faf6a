"""The publications that ``tidings-capture tail`` makes: two, which one slot reads together.

One is of inserts and truncates of all tables that are to be seen, also of those that come later. The other is of updates
and deletes, and holds only tables with a replica identity: of others PostgreSQL would refuse an application's UPDATE and
DELETE (`updatable`). It follows the tables while `tail.run` runs.

A publication cannot be temporary. One that was left behind is dropped by the next run: each live one holds an advisory
lock on its publication's name.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tidings_capture.postgres.client import Session, quote
from tidings_capture.postgres.errors import CatalogError, PostgresError
from tidings_capture.postgres.server.updatable import Name, by_updatable, listed, shown

PREFIX: Final = "tidings_tail_"
"""What the names of publications and slots that go at the end begin with."""
_INSERTS: Final = "_inserts"
_LONGEST: Final = 63
"""Bytes of a name of PostgreSQL's."""
_LOCK: Final = 1_953_063_020
"""The first key of the advisory locks; the second comes from the publication's name."""
_INSUFFICIENT_PRIVILEGE: Final = "42501"
_LOOK_SECONDS: Final = 5.0
_MEMBERS: Final = """
SELECT n.nspname, c.relname FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
  JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s
"""


class Publications:
    """Those of one run.

    Args:
        name: of the first; a durable slot's own name.
        tables: the chosen tables; none: all.
        say: what a person is told beside the changes.
    """

    def __init__(
        self, session: Session, name: str, tables: Sequence[Name], say: Callable[[str], None]
    ) -> None:
        self._session = session
        self._tables = tuple(tables)
        self._say = say
        self._told: set[Name] = set()
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self.updates, self.inserts = self.names = both_names(name)

    def make(self, user: str) -> bool:
        """Make them, or go on with those of a durable slot; whether they have been made now.

        Raises:
            CatalogError: the role may not make them, or the first exists alone.
        """
        there = {
            name for (name,) in self._session.rows(
                "SELECT pubname::text FROM pg_publication WHERE pubname = ANY(%s)", (list(self.names),)
            )
        }  # fmt: skip
        if there == {self.updates}:
            raise CatalogError(
                f"publication {self.updates!r} exists without {self.inserts!r}: tail has not made it, or an earlier version has",
                hint=f"--slot {self.updates} --drop, and begin again; or --publication {self.updates} to use it as it is",
            )
        can, cannot = by_updatable(self._session, self._tables or None)
        try:
            if there:
                self._go_on()
            else:
                self._create(can)
        except PostgresError as error:
            if error.sqlstate != _INSUFFICIENT_PRIVILEGE:
                raise
            raise CatalogError(
                f"role {user!r} may not publish {'these' if self._tables else 'all'} tables: {error}",
                hint="connect as their owner with CREATE on the database (all tables: as a superuser), "
                "or give --publication with one that exists",
            ) from error
        self._tell(cannot)
        return not there

    def _create(self, can: list[Name]) -> None:
        what = f"TABLE {listed(self._tables)}" if self._tables else "ALL TABLES"
        updates = f" FOR TABLE {listed(can)}" if can else ""
        statements = (
            f"CREATE PUBLICATION {quote(self.updates)}{updates} WITH (publish = 'update, delete')",
            f"CREATE PUBLICATION {quote(self.inserts)} FOR {what} WITH (publish = 'insert, truncate')",
        )
        self._session.execute("BEGIN")
        try:
            for statement in statements:
                self._session.execute(statement)
        except PostgresError:
            self._session.execute("ROLLBACK")
            raise
        self._session.execute("COMMIT")

    def _go_on(self) -> None:
        if self._tables:
            self._session.execute(f"ALTER PUBLICATION {quote(self.inserts)} SET TABLE {listed(self._tables)}")
        self._follow()

    def look(self) -> None:
        """When it is time, take up tables that have come or have got an identity, and leave out those that lost theirs."""
        if time.monotonic() < self._look_at:
            return
        # Somebody who changes a table now holds a lock for longer than changes can wait to be shown: again next time.
        with suppress(PostgresError):
            self._session.execute("SET lock_timeout = '1s'")
            self._follow()
        self._look_at = time.monotonic() + _LOOK_SECONDS

    def _follow(self) -> None:
        can, cannot = by_updatable(self._session, self._tables or None)
        members = set(self._session.rows(_MEMBERS, (self.updates,)))
        gone = sorted(members - set(can))
        come = [table for table in can if table not in members]
        if gone:
            self._session.execute(f"ALTER PUBLICATION {quote(self.updates)} DROP TABLE {listed(gone)}")
        self._tell(cannot)
        if come:
            self._session.execute(f"ALTER PUBLICATION {quote(self.updates)} ADD TABLE {listed(come)}")
            self._say(f"from now on updates and deletes are shown as well of {shown(come)}")
        self._told -= set(can)

    def _tell(self, cannot: list[Name]) -> None:
        new = [table for table in cannot if table not in self._told]
        self._told.update(new)
        if new:
            self._say(
                f"only inserts and truncates are shown of {shown(new)}: without a replica identity PostgreSQL would "
                "refuse their updates (a primary key, or ALTER TABLE ... REPLICA IDENTITY FULL, is one)"
            )

    def hold(self) -> None:
        """Drop what runs that were killed have left, and keep the next one from dropping these."""
        _drop_left_behind(self._session)
        self._session.rows("SELECT pg_advisory_lock(%s, hashtext(%s))", (_LOCK, self.updates))

    def drop(self) -> None:
        drop_both(self._session, self.updates)


def both_names(name: str) -> tuple[str, str]:
    """The publications for a name: of updates and deletes, and of inserts and truncates."""
    if len(name) + len(_INSERTS) <= _LONGEST:
        return name, name + _INSERTS
    short = hashlib.sha256(name.encode()).hexdigest()[:8]
    return name, f"{name[: _LONGEST - len(_INSERTS) - 9]}_{short}{_INSERTS}"


def drop_both(session: Session, name: str) -> None:
    """Drop a name's publications; those that are not there are fine."""
    session.execute(f"DROP PUBLICATION IF EXISTS {', '.join(map(quote, both_names(name)))}")


def _drop_left_behind(session: Session) -> None:
    pattern = f"^{PREFIX}[0-9a-f]{{8}}({_INSERTS})?$"
    found = session.rows("SELECT pubname::text FROM pg_publication WHERE pubname ~ %s", (pattern,))
    for name in sorted({name.removesuffix(_INSERTS) for (name,) in found}):
        if not session.value("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK, name)):
            continue
        with suppress(PostgresError):  # another role's, or gone meanwhile
            drop_both(session, name)
        session.rows("SELECT pg_advisory_unlock(%s, hashtext(%s))", (_LOCK, name))
