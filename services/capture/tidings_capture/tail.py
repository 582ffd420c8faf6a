"""``tidings-capture tail``: a database's changes, straight from its WAL to a terminal or a file.

Strategy: a publication and a slot of its own, both gone at the end unless ``--slot`` names them; then pgoutput messages
are decoded and written as they come. With a durable slot the server is told a transaction's end once its lines are
written and flushed, so that a restart goes on with the next transaction, and repeats one that was cut.

A publication cannot be temporary. One that a killed `Tail` left behind is dropped by the next: each live one holds an
advisory lock on its publication's name.
"""

import difflib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TextIO

from tidings_capture.catalog import Catalog
from tidings_capture.copy_format import parse_copy_line
from tidings_capture.errors import CatalogError, PostgresError
from tidings_capture.filters import ColumnFilter
from tidings_capture.pgoutput import decode_message
from tidings_capture.pgoutput_messages import (
    UNCHANGED,
    Begin,
    Cells,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Origin,
    Relation,
    RelationColumn,
    Truncate,
    Type,
    Update,
)
from tidings_capture.postgres import Endpoint, Replication, Session, parse_keepalive, quote
from tidings_capture.preparation import check_server
from tidings_capture.relations import Table
from tidings_capture.snapshot_readers import begin_snapshot, copy_statement
from tidings_capture.tail_output import Moment, Output
from tidings_envelope.position import lsn_from_text, lsn_to_text

_PREFIX: Final = "tidings_tail_"
_LOCK: Final = 1_953_063_020
"""The first key of the advisory locks; the second comes from the publication's name."""
_BATCH: Final = 1000
_STATUS_SECONDS: Final = 5.0
_TAG: Final = 25
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


class Tail:
    """One run.

    Args:
        output: the form of a line.
        stream: where the lines go.
        stopped: asked again and again.
        say: what a person is told beside the changes.
    """

    def __init__(
        self,
        options: TailOptions,
        output: Output,
        stream: TextIO,
        stopped: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._options = options
        self._output = output
        self._stream = stream
        self._stopped = stopped
        self._say = say
        name = f"{_PREFIX}{secrets.token_hex(4)}"
        self._slot = options.slot or name
        self._publication = options.publication or self._slot
        self._temporary = options.slot is None
        self._relations: dict[int, Relation] = {}
        self._moment: Moment | None = None
        self._changes = 0
        self._done_lsn = 0

    def run(self) -> None:
        """Show changes until stopped.

        Raises:
            CaptureError: the server cannot do it, or a table is missing; the message says what to do.
        """
        session = Session(self._options.endpoint)
        try:
            check_server(session)
            tables = self._chosen(session)
            replication = self._replication()
            try:
                self._publish(session, tables)
                self._begin(session, replication, tables)
                self._follow(replication)
            finally:
                replication.close()
                if self._temporary and self._options.publication is None:
                    with suppress(PostgresError):  # the next run drops what a lost server kept
                        session.execute(f"DROP PUBLICATION IF EXISTS {quote(self._publication)}")
        finally:
            session.close()

    # Preparation

    def _chosen(self, session: Session) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = session.rows(_TABLES)
        names = {f"{schema}.{table}": (schema, table) for schema, table in found}
        chosen = []
        for given in self._options.tables:
            name = given if given in names else f"public.{given}"
            if name not in names:
                near = difflib.get_close_matches(name, names, n=3)
                raise CatalogError(
                    f"there is no table {given!r} in database {self._options.endpoint.database!r}",
                    hint=f"did you mean {', '.join(near)}?" if near else "name it as schema.table",
                )
            chosen.append(names[name])
        return chosen

    def _replication(self) -> Replication:
        user = self._options.endpoint.user
        try:
            return Replication(self._options.endpoint)
        except PostgresError as error:
            if error.sqlstate != _INSUFFICIENT_PRIVILEGE and "replication" not in str(error):
                raise
            raise CatalogError(
                f"role {user!r} may not read the WAL: {error}",
                hint=f"ALTER ROLE {quote(user)} REPLICATION, or another user in the URL",
            ) from error

    def _publish(self, session: Session, tables: list[tuple[str, str]]) -> None:
        if self._options.publication is not None:
            if not session.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._publication,)):
                raise CatalogError(
                    f"there is no publication {self._publication!r}", hint="leave --publication out"
                )
            return
        if self._temporary:
            self._drop_left_behind(session)
            session.rows("SELECT pg_advisory_lock(%s, hashtext(%s))", (_LOCK, self._publication))
        listed = ", ".join(f"{quote(schema)}.{quote(table)}" for schema, table in tables)
        exists = session.rows("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._publication,))
        if exists and not tables:
            return
        what = f"TABLE {listed}" if tables else "ALL TABLES"
        statement = f"ALTER PUBLICATION {quote(self._publication)} SET {what}" if exists else (
            f"CREATE PUBLICATION {quote(self._publication)} FOR {what}"
        )  # fmt: skip
        try:
            session.execute(statement)
        except PostgresError as error:
            if error.sqlstate != _INSUFFICIENT_PRIVILEGE:
                raise
            raise CatalogError(
                f"role {self._options.endpoint.user!r} may not publish {'these' if tables else 'all'} tables: {error}",
                hint="connect as their owner with CREATE on the database (all tables: as a superuser), "
                "or give --publication with one that exists",
            ) from error

    def _drop_left_behind(self, session: Session) -> None:
        pattern = rf"^{_PREFIX}[0-9a-f]{{8}}$"
        for (name,) in session.rows(
            "SELECT pubname::text FROM pg_publication WHERE pubname ~ %s", (pattern,)
        ):
            if not session.value("SELECT pg_try_advisory_lock(%s, hashtext(%s))", (_LOCK, name)):
                continue
            with suppress(PostgresError):  # another role's, or gone meanwhile
                session.execute(f"DROP PUBLICATION IF EXISTS {quote(name)}")
            session.rows("SELECT pg_advisory_unlock(%s, hashtext(%s))", (_LOCK, name))

    def _begin(self, session: Session, replication: Replication, tables: list[tuple[str, str]]) -> None:
        options = (
            ("proto_version", "1"),
            ("publication_names", quote(self._publication)),
            ("messages", "true"),
        )
        known = session.rows(
            "SELECT plugin, database, confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s",
            (self._slot,),
        )
        if known:
            plugin, database, confirmed = known[0]
            if plugin != "pgoutput" or database != self._options.endpoint.database:
                raise CatalogError(
                    f"slot {self._slot!r} exists, but for plugin {plugin} and database {database}",
                    hint="choose another --slot",
                )
            self._done_lsn = lsn_from_text(confirmed) if confirmed else 0
            self._say(f"going on after {lsn_to_text(self._done_lsn)} (slot {self._slot})")
        else:
            created = replication.create_slot(
                self._slot, temporary=self._temporary, export=self._options.snapshot
            )
            self._done_lsn = lsn_from_text(created.consistent_lsn)
            if created.snapshot is not None:
                self._read_tables(session, created.snapshot, tables)
            self._say(f"waiting for changes after {lsn_to_text(self._done_lsn)}; Ctrl-C ends")
        replication.start(self._slot, lsn_to_text(self._done_lsn), options)

    def _read_tables(self, session: Session, snapshot: str, tables: list[tuple[str, str]]) -> None:
        published = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
        catalog = Catalog(session, ColumnFilter())
        begin_snapshot(session, snapshot)
        for schema, name in tables or session.rows(published, (self._publication,)):
            table = catalog.table_by_name(schema, name, self._publication)
            relation = _relation(table)
            moment = Moment(self._done_lsn)
            for lines in session.copy_out(copy_statement(session, table)):
                self._write(
                    "".join(
                        self._output.change("read", relation, None, parse_copy_line(line), moment)
                        for line in lines
                    )
                )
                if self._stopped():
                    session.execute("ROLLBACK")
                    return
        session.execute("COMMIT")
        self._stream.flush()

    # Streaming

    def _follow(self, replication: Replication) -> None:
        next_status = 0.0
        while not self._stopped():
            messages = replication.read(_BATCH)
            for data in messages:
                if data[0] == ord("w"):
                    self._show(data)
                else:
                    self._keepalive(data)
            self._stream.flush()
            now = time.monotonic()
            if now >= next_status:
                next_status = now + _STATUS_SECONDS
                self._confirm(replication)
            if not messages:
                replication.wait(0.25)
        self._confirm(replication)

    def _confirm(self, replication: Replication) -> None:
        """Tell the server what has been written, once the file's data is on its disk."""
        if not self._temporary:
            with suppress(OSError, ValueError):  # a terminal or a pipe has no disk
                os.fsync(self._stream.fileno())
        replication.send_status(self._done_lsn, self._done_lsn)

    def _keepalive(self, data: bytes) -> None:
        wal_end, _ = parse_keepalive(data)
        if self._moment is None:
            self._done_lsn = max(self._done_lsn, wal_end)

    def _show(self, data: bytes) -> None:
        lsn = int.from_bytes(data[1:9], "big")
        message = decode_message(data[_TAG:])
        match message:
            case Begin():
                self._moment, self._changes = Moment(lsn, message.xid, message.commit_ts_us), 0
            case Relation():
                self._relations[message.oid] = message
            case Insert():
                self._change("insert", message.relation_oid, None, message.new, lsn)
            case Update():
                self._change("update", message.relation_oid, self._old(message), message.new, lsn)
            case Delete():
                self._change("delete", message.relation_oid, self._old(message), None, lsn)
            case Truncate():
                for oid in message.relation_oids:
                    self._change("truncate", oid, None, None, lsn)
            case LogicalMessage():
                self._message(message)
            case Commit():
                self._commit(message)
            case Type() | Origin():
                pass
            case _:
                raise CatalogError(
                    f"slot {self._slot!r} was made for two-phase commits, which tail does not show",
                    hint="choose another --slot",
                )

    def _change(self, op: str, oid: int, old: Cells | None, new: Cells | None, lsn: int) -> None:
        relation = self._relations.get(oid)
        if relation is None:
            return  # a truncated table of another publication
        moment = self._announced(lsn)
        self._write(self._output.change(op, relation, old, new, moment))

    def _old(self, message: Update | Delete) -> Cells | None:
        """The old row, without the columns that an old key does not tell."""
        relation = self._relations.get(message.relation_oid)
        if message.old is None or message.old_kind != "K" or relation is None:
            return message.old
        return [
            cell if column.is_key else UNCHANGED
            for column, cell in zip(relation.columns, message.old, strict=True)
        ]

    def _message(self, message: LogicalMessage) -> None:
        moment = self._announced(message.lsn) if message.transactional else Moment(message.lsn)
        self._write(self._output.message(message.prefix, message.content, moment))

    def _announced(self, lsn: int) -> Moment:
        """Where a change stands, after the transaction's first line: one without changes shows nothing."""
        assert self._moment is not None
        if self._changes == 0:
            self._write(self._output.begin(self._moment))
        self._changes += 1
        return Moment(lsn, self._moment.xid, self._moment.commit_us)

    def _commit(self, commit: Commit) -> None:
        if self._changes and self._moment is not None:
            self._write(self._output.commit(self._moment, self._changes))
        self._moment = None
        self._done_lsn = max(self._done_lsn, commit.end_lsn)

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)


def _relation(table: Table) -> Relation:
    columns = tuple(
        RelationColumn(column.name, column.type_oid, column.typmod, column.key_position is not None)
        for column in table.columns
    )
    return Relation(table.oid, table.schema, table.name, table.replica_identity.value, columns)


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
