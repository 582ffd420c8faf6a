"""What ``tidings-capture tail`` needs of the server: the tables, a publication, a connection; and what it leaves or removes.

A publication cannot be temporary. One that a killed `tail` left behind is dropped by the next: each live one holds an
advisory lock on its publication's name.
"""

import difflib
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tidings_capture.errors import CatalogError, PostgresError
from tidings_capture.postgres import Endpoint, Replication, Session, quote

PREFIX: Final = "tidings_tail_"
"""What the names of publications and slots that go at the end begin with."""
_LOCK: Final = 1_953_063_020
"""The first key of the advisory locks; the second comes from the publication's name."""
_TABLES: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
 ORDER BY 1, 2
"""
_INSUFFICIENT_PRIVILEGE: Final = "42501"


@dataclass(frozen=True, slots=True)
class TailOptions:
    """What to show."""

    endpoint: Endpoint
    tables: tuple[str, ...] = ()
    """``schema.table``, or ``table`` of schema public; none: all tables."""
    slot: str | None = None
    """A durable slot, made when it is missing; its publication has the same name."""
    publication: str | None = None
    """A publication that exists, instead of one of our own."""
    snapshot: bool = False
    """Show the rows that are there first."""


def chosen_tables(session: Session, options: TailOptions) -> list[tuple[str, str]]:
    """The tables that were named, as schema and name; none for all.

    Raises:
        CatalogError: one does not exist; the hint has names like it.
    """
    found: list[tuple[str, str]] = session.rows(_TABLES)
    names = {f"{schema}.{table}": (schema, table) for schema, table in found}
    chosen = []
    for given in options.tables:
        name = given if given in names else f"public.{given}"
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3)
            raise CatalogError(
                f"there is no table {given!r} in database {options.endpoint.database!r}",
                hint=f"did you mean {', '.join(near)}?" if near else "name it as schema.table",
            )
        chosen.append(names[name])
    return chosen


def open_replication(options: TailOptions) -> Replication:
    """A walsender connection.

    Raises:
        CatalogError: the role may not replicate.
        PostgresError: the server refused for another reason, or could not be reached.
    """
    user = options.endpoint.user
    try:
        return Replication(options.endpoint)
    except PostgresError as error:
        if error.sqlstate != _INSUFFICIENT_PRIVILEGE and "replication" not in str(error):
            raise
        raise CatalogError(
            f"role {user!r} may not read the WAL: {error}",
            hint=f"ALTER ROLE {quote(user)} REPLICATION, or another user in the URL",
        ) from error


def publish(session: Session, options: TailOptions, publication: str, tables: list[tuple[str, str]]) -> bool:
    """See to the publication; one that goes at the end is locked by the session for as long as that lives.
    Tells whether it has been made now.

    Raises:
        CatalogError: it is missing, or the role may not make it.
    """
    if options.publication is not None:
        if not session.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,)):
            raise CatalogError(f"there is no publication {publication!r}", hint="leave --publication out")
        return False
    if options.slot is None:
        _drop_left_behind(session)
        session.rows("SELECT pg_advisory_lock(%s, hashtext(%s))", (_LOCK, publication))
    listed = ", ".join(f"{quote(schema)}.{quote(table)}" for schema, table in tables)
    exists = session.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (publication,))
    if exists and not tables:
        return False
    what = f"TABLE {listed}" if tables else "ALL TABLES"
    statement = f"ALTER PUBLICATION {quote(publication)} SET {what}" if exists else (
        f"CREATE PUBLICATION {quote(publication)} FOR {what}"
    )  # fmt: skip
    try:
        session.execute(statement)
    except PostgresError as error:
        if error.sqlstate != _INSUFFICIENT_PRIVILEGE:
            raise
        raise CatalogError(
            f"role {options.endpoint.user!r} may not publish {'these' if tables else 'all'} tables: {error}",
            hint="connect as their owner with CREATE on the database (all tables: as a superuser), "
            "or give --publication with one that exists",
        ) from error
    return not exists


def _drop_left_behind(session: Session) -> None:
    pattern = rf"^{PREFIX}[0-9a-f]{{8}}$"
    for (name,) in session.rows("SELECT pubname::text FROM pg_publication WHERE pubname ~ %s", (pattern,)):
        if not session.value("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK, name)):
            continue
        with suppress(PostgresError):  # another role's, or gone meanwhile
            session.execute(f"DROP PUBLICATION IF EXISTS {quote(name)}")
        session.rows("SELECT pg_advisory_unlock(%s, hashtext(%s))", (_LOCK, name))


def drop_durable(endpoint: Endpoint, slot: str) -> None:
    """Drop a durable slot and its publication; what is not there is fine.

    Raises:
        PostgresError: the slot is in use, or the role may not.
    """
    session = Session(endpoint)
    try:
        if session.rows("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)):
            session.rows("SELECT pg_drop_replication_slot(%s)", (slot,))
        session.execute(f"DROP PUBLICATION IF EXISTS {quote(slot)}")
    finally:
        session.close()
