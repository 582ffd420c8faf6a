"""Envelopes of MariaDB and MySQL as the pipeline reads them: a commit gets a position that compares as PostgreSQL's do.

MariaDB numbers the commits of a replication domain one after the other: a GTID is ``domain-server-sequence`` (MariaDB
documentation, "Global Transaction ID"). Debezium's connector writes it as a transaction's id and into ``source.gtid``, and no
position inside of a transaction. A commit's position is its sequence number times 2**24; the numbers below it, down to the
commit before, are its rows' by ``total_order``. So positions are whole numbers of 63 bits as LSNs are, and nothing
behind the decoder has to know which database they come from.

Sequences of two domains do not compare, so a source has one: a decoder refuses the second that it meets.

MySQL's servers number their commits each by itself, so capture gives them numbers, in a header of each record
(`tidings_envelope.headers.commit`); positions are made of these as `tidings_envelope.commit_number` says. Debezium writes no
such header, and without it a change is refused.
"""

from typing import Final, Literal

import msgspec

from tidings_envelope.commit_number import checked, commit_position, position_before
from tidings_envelope.envelope import Envelope, Int64, Row, Source, TransactionRef
from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import ROWS, Gtid, gtid_of
from tidings_envelope.headers.as_of import as_of
from tidings_envelope.headers.commit import commit_of
from tidings_envelope.headers.reading import Headers

FAMILY: Final = "binlog"
"""Of the envelopes of both, whose fields are the same."""
_MYSQL: Final = "mysql"
_CONNECTORS: Final = frozenset({"mariadb", _MYSQL})
"""``source.connector``."""
NO_NUMBER: Final = (
    "a record of MySQL lacks the header tidings.commit, and nothing else puts its commits in order: its connector has to be"
    " Tidings' own, with provide.transaction.metadata=true"
)


class BinlogSource(msgspec.Struct, frozen=True):
    """The ``source`` block, as far as it is read."""

    name: str
    db: str
    table: str
    ts_ms: Int64
    connector: Literal["mariadb", "mysql"]
    gtid: str | None = None
    """Null in a snapshot."""
    ts_us: Int64 | None = None
    ts_ns: Int64 | None = None
    snapshot: str | None = "false"
    version: str | None = None


class BinlogEnvelope(msgspec.Struct, frozen=True):
    """A change event of MariaDB's or MySQL's connector."""

    op: str
    source: BinlogSource
    before: Row | None = None
    after: Row | None = None
    transaction: TransactionRef | None = None
    ts_ms: Int64 | None = None
    ts_us: Int64 | None = None
    ts_ns: Int64 | None = None


class OneDomain:
    """The replication domain of a source."""

    def __init__(self) -> None:
        self.number: int | None = None
        """None before the first GTID."""

    def take(self, text: str) -> Gtid:
        """A GTID of the source.

        Raises:
            DecodeError: it is none, or of another domain than those before it.
        """
        gtid = gtid_of(text)
        if self.number is None:
            self.number = gtid.domain
        if gtid.domain != self.number:
            raise DecodeError(
                f"GTID {text} is of replication domain {gtid.domain}, and those before it are of {self.number}: their"
                " commits have no common order"
            )
        return gtid

    def is_other(self, text: str) -> bool:
        """Whether a GTID is of another domain, or nothing has told yet of which one the source is.

        Raises:
            DecodeError: it is none.
        """
        return gtid_of(text).domain != self.number


def with_position(envelope: BinlogEnvelope, domain: OneDomain, headers: Headers = ()) -> Envelope:
    """The envelope with what PostgreSQL's have: a schema (the database), ``txId``, ``lsn`` and ``sequence``.

    Rows that a snapshot reads have no GTID and no number, and no position here (see `read_as_of`).

    Args:
        headers: of its record; a change of MySQL has its place by them.

    Raises:
        DecodeError: its GTID is not one, or of MySQL its headers say no place.
    """
    source, transaction = envelope.source, envelope.transaction
    order = 0 if transaction is None else transaction.total_order
    tx_id = lsn = before = None
    if source.connector == _MYSQL:
        if (commit := commit_of(headers)) is not None:
            tx_id, before = checked(commit, order), position_before(commit)
            lsn = before + order
            transaction = transaction and msgspec.structs.replace(transaction, id=numbered_id(commit))
        elif as_of(headers) is None:
            raise DecodeError(NO_NUMBER)
    elif source.gtid is not None:
        tx_id = domain.take(source.gtid).sequence
        before = (tx_id - 1) * ROWS
        lsn = before + min(order, ROWS - 1)
    elif source.snapshot in (None, "false"):
        raise DecodeError("not an envelope: source.gtid is null, so the change has no position")
    sequence = None if lsn is None else f'["{before}","{lsn}"]'
    return Envelope(
        envelope.op,
        Source(
            source.name,
            source.db,
            source.db,
            source.table,
            source.ts_ms,
            source.ts_us,
            source.ts_ns,
            source.snapshot,
            sequence,
            tx_id,
            lsn,
            version=source.version,
            connector=source.connector,
        ),
        envelope.before,
        envelope.after,
        transaction,
        envelope.ts_ms,
        envelope.ts_us,
        envelope.ts_ns,
    )


def numbered_id(commit: int, events: int = 0) -> str:
    """The id of a transaction that has a number, as PostgreSQL's are written: the number, and where it is committed.

    Raises:
        DecodeError: with so many events it has no position.
    """
    return f"{checked(commit, events)}:{commit_position(commit, events)}"


def ordered_id(transaction_id: str, domain: OneDomain, commit: int | None, events: int) -> str | None:
    """The id of a marker as one that says its position (`tidings_envelope.envelope.lsn_of`).

    A transaction of MariaDB without an event does not say of which domain a source is: it may be of one that does not count
    (`gtid.source.excludes`), whose markers Debezium tells as well.

    Args:
        commit: the number of its commit, by its record's headers.
        events: of the transaction, as its end counts them.

    Returns:
        None: it has no event, and its domain is not known to be the source's; so it says nothing of it.

    Raises:
        DecodeError: its GTID is of another replication domain, or it is MySQL's and has no number.
    """
    if commit is not None:
        return numbered_id(commit, events)
    if ("-" in transaction_id and ":" in transaction_id) or transaction_id.startswith("file="):
        raise DecodeError(NO_NUMBER)  # of MySQL, <uuid>:<number>, or a place in a file
    if "-" in transaction_id:
        if not events and domain.is_other(transaction_id):
            return None
        domain.take(transaction_id)
    return transaction_id


def read_as_of(envelope: Envelope, position: int) -> Envelope:
    """A row that a snapshot of MariaDB or MySQL has read, at the position that its record's header gives (`tidings_envelope.headers.as_of`)."""
    source = envelope.source
    if source.connector not in _CONNECTORS or source.lsn is not None:
        return envelope
    return msgspec.structs.replace(envelope, source=msgspec.structs.replace(source, lsn=position))
