"""What ``tidings-capture tail`` needs of the server: the tables and a connection; and what ``--drop`` removes."""

import difflib
from dataclasses import dataclass
from typing import Final

from tidings_capture.postgres.client import Endpoint, Replication, Session, quote
from tidings_capture.postgres.errors import CatalogError, PostgresError
from tidings_capture.postgres.tail.publications import drop_both

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
    quoted = {
        f"{shown}.{quote(table)}": (schema, table)
        for schema, table in found
        for shown in (schema, quote(schema))
    } | {quote(table): (schema, table) for schema, table in found if schema == "public"}
    chosen = []
    for given in options.tables:
        name = given if given in names else f"public.{given}"
        if given in quoted:  # as psql shows it, and as SQL wants it
            chosen.append(quoted[given])
            continue
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


def check_publication(session: Session, name: str) -> None:
    """Make sure that a publication is there.

    Raises:
        CatalogError: it is not.
    """
    if not session.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)):
        raise CatalogError(f"there is no publication {name!r}", hint="leave --publication out")


def drop_durable(endpoint: Endpoint, slot: str) -> None:
    """Drop a durable slot and its publication; what is not there is fine.

    Raises:
        PostgresError: the slot is in use, or the role may not.
    """
    session = Session(endpoint)
    try:
        if session.rows("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (slot,)):
            session.rows("SELECT pg_drop_replication_slot(%s)", (slot,))
        drop_both(session, slot)
    finally:
        session.close()
