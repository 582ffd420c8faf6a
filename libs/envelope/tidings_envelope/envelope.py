"""Debezium's change event and transaction marker as msgspec structs.

Format: Debezium documentation, PostgreSQL connector, "Data change events" and "Transaction metadata". Field names are
Debezium's own, except that they are written in Python's way (`tx_id` for ``txId``).
"""

from typing import Annotated, Any, TypeAlias

import msgspec

from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import gtid_of

Row: TypeAlias = dict[str, Any]
"""Column name to value, as Debezium represents it."""

Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Connect's INT64: JSON has larger numbers."""
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_LSN_DIGITS = 20
"""Of the largest number of 64 bits."""


class Source(msgspec.Struct, frozen=True, rename={"tx_id": "txId"}):
    """The ``source`` block: where the change comes from."""

    name: str
    """The topic prefix."""
    db: str
    schema: str
    """PostgreSQL's; of MariaDB and MySQL the database (`tidings_envelope.binlog`)."""
    table: str
    ts_ms: Int64
    """Commit time (for snapshot rows: the snapshot's time) in milliseconds since the Unix epoch."""
    ts_us: Int64 | None = None
    ts_ns: Int64 | None = None
    snapshot: str | None = "false"
    sequence: str | None = None
    """JSON: ``["last commit LSN or null","LSN"]``."""
    tx_id: Int64 | None = None
    lsn: Int64 | None = None
    origin: str | None = None
    origin_lsn: Int64 | None = None
    version: str | None = None
    connector: str | None = None

    @property
    def qualified_table(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.table}"

    @property
    def is_snapshot(self) -> bool:
        return self.snapshot not in (None, "false")

    @property
    def last_commit_lsn(self) -> int | None:
        """The LSN of the last commit before this change's transaction, from `sequence`."""
        if self.sequence is None:
            return None
        try:
            last_commit, _ = _SEQUENCE.decode(self.sequence)
            return None if last_commit is None else _number(last_commit)
        except (msgspec.MsgspecError, ValueError) as error:
            raise DecodeError("source.sequence is not a JSON pair of LSNs") from error


_SEQUENCE = msgspec.json.Decoder(tuple[str | None, str | None])


class TransactionRef(msgspec.Struct, frozen=True):
    """The ``transaction`` block: which transaction, and which event of it."""

    id: str
    """``txid:lsn``, whose LSN part differs within a transaction, or MariaDB's GTID; see `txid_of`."""
    total_order: _Count
    data_collection_order: _Count


class Envelope(msgspec.Struct, frozen=True):
    """A change event."""

    op: str
    """``c``, ``u``, ``d``, ``r`` (snapshot), ``t`` (truncate) or ``m`` (logical message)."""
    source: Source
    before: Row | None = None
    after: Row | None = None
    transaction: TransactionRef | None = None
    ts_ms: Int64 | None = None
    ts_us: Int64 | None = None
    ts_ns: Int64 | None = None


class CollectionCount(msgspec.Struct, frozen=True):
    """How many events of a transaction fell to one table."""

    data_collection: str
    """``schema.table``."""
    event_count: _Count


class TransactionMarker(msgspec.Struct, frozen=True):
    """A record of the transaction topic."""

    status: str
    """``BEGIN`` or ``END``."""
    id: str
    """``txid:lsn``, where END's LSN is the position after the commit, or MariaDB's GTID."""
    ts_ms: Int64
    event_count: _Count | None = None
    """END only."""
    data_collections: tuple[CollectionCount, ...] | None = None
    """END only."""

    @property
    def is_end(self) -> bool:
        return self.status == "END"


def txid_of(transaction_id: str) -> int:
    """The transaction's own id, which alone is equal in BEGIN, rows and END (the LSN behind the colon is not).

    Raises:
        DecodeError: the text is neither ``txid:lsn`` nor a GTID.
    """
    if "-" in transaction_id:
        return gtid_of(transaction_id).sequence
    try:
        return _number(transaction_id.partition(":")[0])
    except ValueError as error:
        raise DecodeError("a transaction id is written txid:lsn") from error


def lsn_of(transaction_id: str) -> int:
    """The LSN behind the colon, or a GTID's position; in an END marker it is the position after the commit.

    Raises:
        DecodeError: the text is neither ``txid:lsn`` nor a GTID.
    """
    if "-" in transaction_id:
        return gtid_of(transaction_id).commit_position
    try:
        return _number(transaction_id.partition(":")[2])
    except ValueError as error:
        raise DecodeError("a transaction id is written txid:lsn") from error


def _number(text: str) -> int:
    """A whole number that is not negative and has 64 bits at most, in digits alone.

    Raises:
        ValueError: the text is none.
    """
    if len(text) > _LSN_DIGITS or not (text.isascii() and text.isdigit()):
        raise ValueError
    number = int(text)
    if number >> 64:
        raise ValueError
    return number
