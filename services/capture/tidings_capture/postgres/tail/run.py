"""``tidings-capture tail``: a database's changes, straight from its WAL to a terminal or a file.

Strategy: publications and a slot of its own, all gone at the end unless ``--slot`` names them; then pgoutput messages
are decoded and written as they come. With a durable slot the server is told a transaction's end once its lines are
written and flushed, so that a restart goes on with the next transaction, and repeats one that was cut.
"""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

from tidings_capture.cdc.cells import UNCHANGED, Cells
from tidings_capture.cdc.filters import ColumnFilter
from tidings_capture.cdc.tables import Table
from tidings_capture.postgres.client import Replication, Session, parse_keepalive, quote
from tidings_capture.postgres.errors import CatalogError, PostgresError
from tidings_capture.postgres.server.catalog import Catalog
from tidings_capture.postgres.server.setup import check_server
from tidings_capture.postgres.snapshots.readers import begin_snapshot, copy_statement
from tidings_capture.postgres.tail.guard import TailGuard
from tidings_capture.postgres.tail.output import Moment, Output
from tidings_capture.postgres.tail.publications import PREFIX, Publications
from tidings_capture.postgres.tail.setup import (
    TailOptions,
    check_publication,
    chosen_tables,
    open_replication,
)
from tidings_capture.postgres.wire.copy_format import parse_copy_line
from tidings_capture.postgres.wire.messages import (
    Begin,
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
from tidings_capture.postgres.wire.pgoutput import TAG, XLOG_DATA, decode_message
from tidings_envelope.position import lsn_from_text, lsn_to_text

_BATCH: Final = 1000
_STATUS_SECONDS: Final = 5.0


class _StoppedError(Exception):
    """A person has stopped it while it waited."""


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
        name = f"{PREFIX}{secrets.token_hex(4)}"
        self._slot = options.slot or name
        self._temporary = options.slot is None
        self._relations: dict[int, Relation] = {}
        self._moment: Moment | None = None
        self._changes = 0
        self._done_lsn = 0
        self._names: tuple[str, ...] = () if options.publication is None else (options.publication,)
        self._publications: Publications | None = None
        """Our own; none where one was named."""
        self._keeps_publications = False
        self._told_to_wait = self._started = False

    def run(self) -> None:
        """Show changes until stopped.

        Raises:
            ConnectError: the server cannot do it, or a table is missing; the message says what to do.
        """
        session = Session(self._options.endpoint)
        try:
            check_server(session)
            tables = chosen_tables(session, self._options)
            replication = open_replication(self._options)
            guard = self._prepared(session, replication, tables)
            try:
                self._publish(session)
                self._begin(session, replication, tables)
                self._follow(replication)
            except PostgresError as error:
                if not self._started:
                    raise
                raise PostgresError(str(error), sqlstate=error.sqlstate, hint=self._what_next()) from error
            except _StoppedError:
                pass
            finally:
                replication.close()
                if self._publications is not None and not self._keeps_publications:
                    with suppress(PostgresError):  # the guard, or the next run, drops what a lost server kept
                        self._publications.drop()
                        if guard is not None:
                            guard.release()
        finally:
            session.close()

    # Preparation

    def _prepared(
        self, session: Session, replication: Replication, tables: list[tuple[str, str]]
    ) -> TailGuard | None:
        """Our own publications, not made yet, and their guard, where they go at the end."""
        if self._options.publication is not None:
            return None
        self._publications = Publications(session, self._slot, tables, self._say)
        self._names = self._publications.names
        if not self._temporary:
            return None
        return TailGuard(self._options.endpoint, self._slot, self._names, replication.pid)

    def _publish(self, session: Session) -> None:
        if self._publications is None:
            check_publication(session, *self._names)
            return
        if self._temporary:
            self._publications.hold()
        self._keeps_publications |= not self._publications.make(self._options.endpoint.user)

    def _begin(self, session: Session, replication: Replication, tables: list[tuple[str, str]]) -> None:
        options = (
            ("proto_version", "1"),
            ("publication_names", ",".join(map(quote, self._names))),
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
            self._keeps_publications = True
            self._done_lsn = lsn_from_text(confirmed) if confirmed else 0
            if self._options.snapshot:
                self._say("--snapshot reads rows only when the slot is made")
            ready = f"going on after {lsn_to_text(self._done_lsn)} (slot {self._slot})"
        else:
            created = replication.create_slot(
                self._slot,
                temporary=self._temporary,
                export=self._options.snapshot,
                meanwhile=self._while_slot_is_made,
            )
            self._keeps_publications |= not self._temporary
            self._done_lsn = lsn_from_text(created.consistent_lsn)
            if created.snapshot is not None:
                self._read_tables(session, created.snapshot, tables)
            ready = f"waiting for changes after {lsn_to_text(self._done_lsn)}; Ctrl-C ends"
        replication.start(self._slot, lsn_to_text(self._done_lsn), options)
        self._started = True
        self._say(ready)

    def _while_slot_is_made(self, seconds: float) -> None:
        if self._stopped():
            raise _StoppedError
        if seconds > 1 and not self._told_to_wait:
            self._told_to_wait = True
            self._say("waiting for the transactions that are open now to end: a slot begins behind them")

    def _read_tables(self, session: Session, snapshot: str, tables: list[tuple[str, str]]) -> None:
        published = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1, 2"
        publication = self._names[-1]  # the one of all tables
        catalog = Catalog(session, ColumnFilter())
        begin_snapshot(session, snapshot)
        names = tables or [(schema, name) for schema, name in session.rows(published, (publication,))]
        for table in catalog.tables_by_name(names, publication):
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
                if data[0] == XLOG_DATA:
                    self._show(data)
                else:
                    self._keepalive(data)
            self._stream.flush()
            now = time.monotonic()
            if now >= next_status:
                next_status = now + _STATUS_SECONDS
                self._confirm(replication)
            if self._publications is not None:
                self._publications.look()
            if not messages:
                replication.wait(0.25)
        self._confirm(replication)

    def _what_next(self) -> str:
        if self._temporary:
            return "start it again; changes in between are not shown (with --slot NAME they are)"
        return f"start it again with --slot {self._slot}: it goes on with what comes next"

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
        message = decode_message(data[TAG:])
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
