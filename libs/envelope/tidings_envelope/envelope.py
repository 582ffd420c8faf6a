"""Debezium's change event and transaction marker as msgspec structs.

Format: Debezium documentation, PostgreSQL connector, "Data change events" and "Transaction metadata". Field names are
Debezium's own, except that they are written in Python's way (`tx_id` for ``txId``).
"""

from typing import Any, TypeAlias

import msgspec

from tidings_envelope.errors import DecodeError

Row: TypeAlias = dict[str, Any]
"""Column name to value, as Debezium represents it."""


class Source(msgspec.Struct, frozen=True, rename={"tx_id": "txId"}):
    """The ``source`` block: where the change comes from."""

    name: str
    """The topic prefix."""
    db: str
    schema: str
    table: str
    ts_ms: int
    """Commit time (for snapshot rows: the snapshot's time) in milliseconds since the Unix epoch."""
    ts_us: int | None = None
    ts_ns: int | None = None
    snapshot: str | None = "false"
    sequence: str | None = None
    """JSON: ``["last commit LSN or null","LSN"]``."""
    tx_id: int | None = None
    lsn: int | None = None
    origin: str | None = None
    origin_lsn: int | None = None
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
        except msgspec.MsgspecError as error:
            raise DecodeError("source.sequence is not a JSON pair of LSNs") from error
        return None if last_commit is None else int(last_commit)


_SEQUENCE = msgspec.json.Decoder(tuple[str | None, str | None])


class TransactionRef(msgspec.Struct, frozen=True):
    """The ``transaction`` block: which transaction, and which event of it."""

    id: str
    """``txid:lsn``; the LSN part differs within a transaction, see `txid_of`."""
    total_order: int
    data_collection_order: int


class Envelope(msgspec.Struct, frozen=True):
    """A change event."""

    op: str
    """``c``, ``u``, ``d``, ``r`` (snapshot), ``t`` (truncate) or ``m`` (logical message)."""
    source: Source
    before: Row | None = None
    after: Row | None = None
    transaction: TransactionRef | None = None
    ts_ms: int | None = None
    ts_us: int | None = None
    ts_ns: int | None = None


class CollectionCount(msgspec.Struct, frozen=True):
    """How many events of a transaction fell to one table."""

    data_collection: str
    """``schema.table``."""
    event_count: int


class TransactionMarker(msgspec.Struct, frozen=True):
    """A record of the transaction topic."""

    status: str
    """``BEGIN`` or ``END``."""
    id: str
    """``txid:lsn``; END's LSN is the position after the commit."""
    ts_ms: int
    event_count: int | None = None
    """END only."""
    data_collections: tuple[CollectionCount, ...] | None = None
    """END only."""

    @property
    def is_end(self) -> bool:
        return self.status == "END"


def txid_of(transaction_id: str) -> int:
    """The transaction's own id, which alone is equal in BEGIN, rows and END (the LSN behind the colon is not).

    Raises:
        DecodeError: the text is not ``txid:lsn``.
    """
    try:
        return int(transaction_id.partition(":")[0])
    except ValueError as error:
        raise DecodeError("a transaction id is written txid:lsn") from error


def lsn_of(transaction_id: str) -> int:
    """The LSN behind the colon; in an END marker it is the position after the commit.

    Raises:
        DecodeError: the text is not ``txid:lsn``.
    """
    try:
        return int(transaction_id.partition(":")[2])
    except ValueError as error:
        raise DecodeError("a transaction id is written txid:lsn") from error
