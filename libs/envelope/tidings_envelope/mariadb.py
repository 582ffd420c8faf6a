"""MariaDB's envelopes as the pipeline reads them: a GTID becomes a position that compares as PostgreSQL's do.

MariaDB numbers the commits of a replication domain one after the other: a GTID is ``domain-server-sequence`` (MariaDB
documentation, "Global Transaction ID"). Debezium's connector writes it as a transaction's id and into ``source.gtid``, and no
position inside of a transaction. A commit's position is its sequence number times 2**24; the numbers below it, down to the
commit before, are its rows' by ``total_order``. So positions are whole numbers of 63 bits as LSNs are, and nothing
behind the decoder has to know which database they come from.

Sequences of two domains do not compare, so a source has one: a decoder refuses the second that it meets.
"""

from typing import Final, Literal

import msgspec

from tidings_envelope.envelope import Envelope, Int64, Row, Source, TransactionRef
from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import ROWS, Gtid, gtid_of

CONNECTOR: Final = "mariadb"
"""``source.connector`` of its envelopes."""


class MariaDbSource(msgspec.Struct, frozen=True):
    """The ``source`` block, as far as it is read."""

    name: str
    db: str
    table: str
    ts_ms: Int64
    connector: Literal["mariadb", "mysql"]
    """MySQL's has the same fields, and is refused: see `with_position`."""
    gtid: str | None = None
    """Null in a snapshot."""
    ts_us: Int64 | None = None
    ts_ns: Int64 | None = None
    snapshot: str | None = "false"
    version: str | None = None


class MariaDbEnvelope(msgspec.Struct, frozen=True):
    """A change event of MariaDB's connector."""

    op: str
    source: MariaDbSource
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


def with_position(envelope: MariaDbEnvelope, domain: OneDomain) -> Envelope:
    """The envelope with what PostgreSQL's have: a schema (the database), ``txId``, ``lsn`` and ``sequence``.

    Rows that a snapshot reads have no GTID, and no position here (see `read_as_of`).

    Raises:
        DecodeError: its GTID is not one, or it is MySQL's: those are numbered by each server anew, so that behind a failover the
            numbers of commits are smaller than those before it.
    """
    source, transaction = envelope.source, envelope.transaction
    if source.connector != CONNECTOR:
        raise DecodeError(
            "not an envelope of PostgreSQL or MariaDB: source.connector is mysql, whose commits nothing here can put in order"
        )
    tx_id = lsn = sequence = None
    if source.gtid is not None:
        tx_id = domain.take(source.gtid).sequence
        before = (tx_id - 1) * ROWS
        order = 0 if transaction is None else transaction.total_order
        lsn = before + min(order, ROWS - 1)
        sequence = f'["{before}","{lsn}"]'
    elif source.snapshot in (None, "false"):
        raise DecodeError("not an envelope: source.gtid is null, so the change has no position")
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


def read_as_of(envelope: Envelope, position: int) -> Envelope:
    """A row that a snapshot of MariaDB has read, at the position that its record's header gives (`tidings_envelope.headers.as_of`)."""
    source = envelope.source
    if source.connector != CONNECTOR or source.lsn is not None:
        return envelope
    return msgspec.structs.replace(envelope, source=msgspec.structs.replace(source, lsn=position))
