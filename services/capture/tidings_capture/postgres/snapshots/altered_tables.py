"""Tables that were altered behind a snapshot's moment, before they were read.

The snapshot sees the catalog as of its moment. A COPY finds tables and columns under the names that they have by now, and fails
where one was dropped or renamed since.

Some forms of ALTER TABLE write a table anew, and TRUNCATE empties it; to transactions with an older snapshot it is empty
from then on (PostgreSQL documentation, "Caveats" of concurrency control). No log has the rows that a rewrite has moved,
so a table that was read as empty for that reason would stay so. The catalog, which an older snapshot sees as it was, has
another file of the table then than the server. VACUUM FULL and CLUSTER also give it one, and keep the rows visible.
"""

from collections.abc import Container, Sequence
from typing import Final

from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.client import Session, quote
from tidings_capture.postgres.errors import PostgresError
from tidings_service import Retry

_OTHER_FILES: Final = """
WITH RECURSIVE parts (oid) AS (
    SELECT %s::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON p.oid = i.inhparent)
SELECT c.oid, n.nspname || '.' || c.relname FROM parts JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relfilenode <> 0 AND c.relfilenode <> pg_relation_filenode(c.oid) AND pg_relation_size(c.oid) > 0
"""
"""Of a table and those that inherit from it; one without a page has nothing that could be missed."""
_GONE: Final = frozenset({"42703", "42P01"})
"""SQLSTATEs of a column and of a table that the server does not know by its name."""
_HINT: Final = (
    "nothing is lost: the snapshot goes on at a later moment with the tables that were not read yet (a blocking"
    " one has to be asked for again); let ALTER TABLE wait for its end"
)
_HEIRS: Final = "SELECT DISTINCT inhparent FROM pg_inherits WHERE inhparent = ANY(%s)"


class AlteredTables:
    """Tells tables that were altered behind the snapshot's moment from mistakes, and from tables without rows.

    Args:
        session: in the snapshot.
        tables: that are read, in the order of their statements.
        selected: those of them, by ``schema.table``, that the user's own SQL reads.
    """

    def __init__(self, session: Session, tables: Sequence[Table], selected: Container[str]) -> None:
        self._tables = tables
        self._selected = selected
        self._heirs = {oid for (oid,) in session.rows(_HEIRS, ([table.oid for table in tables],))}

    def read(self, session: Session, number: int, rows: int) -> None:
        """See that the rows of a table are seen by a session's snapshot, which has just read it: so nobody can alter it now.

        Args:
            number: the table's place.
            rows: as many were read. With one of them it is not a table that is seen as empty, unless others inherit from it.

        Raises:
            PostgresError: they are not; a snapshot of a later moment sees them.
        """
        table = self._tables[number]
        if rows and table.oid not in self._heirs:
            return
        for oid, name in session.rows(_OTHER_FILES, (table.oid,)):
            # Not by the partition's own name: there may be no right to it by itself.
            source = f"{quote(table.schema)}.{quote(table.name)}"
            if not session.value(f"SELECT EXISTS (SELECT FROM {source} WHERE tableoid = {oid})"):  # noqa: S608 - quoted
                raise PostgresError(
                    f"{name} was rewritten, or truncated and filled, behind the moment of the snapshot, which cannot see its rows any"
                    " more",
                    hint=_HINT,
                    retry=Retry.TIMED,
                )

    def failed(self, number: int, error: PostgresError) -> PostgresError:
        """The error of a table's statement; where a name has gone, one that a snapshot of a later moment cures.

        Args:
            number: the table's place.
        """
        table = self._tables[number]
        if error.sqlstate not in _GONE or table.qualified_name in self._selected:
            return error
        return PostgresError(
            f"{table.qualified_name} or a column of it was dropped or renamed behind the moment of the snapshot, before it was"
            f" read: {error}",
            sqlstate=error.sqlstate,
            hint=_HINT,
            retry=Retry.TIMED,
        )
