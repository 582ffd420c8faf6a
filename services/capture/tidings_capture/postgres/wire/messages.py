"""The messages of PostgreSQL's ``pgoutput`` plugin, as events without behaviour.

Format: PostgreSQL documentation, "Logical Replication Message Formats". LSNs, oids and transaction ids are unsigned;
times are microseconds since the Unix epoch in UTC (the wire counts from 2000-01-01).
"""

from dataclasses import dataclass
from typing import TypeAlias

from tidings_capture.cdc.cells import Cells


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction starts; pgoutput sends it only once the transaction has committed."""

    final_lsn: int
    """The commit record's LSN (`Commit.commit_lsn` of the same transaction)."""
    commit_ts_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    """The position after the commit record."""
    commit_ts_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_oid: int
    typmod: int
    is_key: bool
    """Part of the replica identity."""


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    """Empty for ``pg_catalog``."""
    name: str
    replica_identity: str
    """``d``, ``n``, ``f`` or ``i``."""
    columns: tuple[RelationColumn, ...]
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Type:
    oid: int
    schema: str
    name: str
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    commit_lsn: int
    """On the origin server."""
    name: str


@dataclass(frozen=True, slots=True)
class Insert:
    relation_oid: int
    new: Cells
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    relation_oid: int
    old_kind: str | None
    """``K``: `old` holds the old key, other cells are NULL; ``O``: the whole old row; None: no old row."""
    old: Cells | None
    new: Cells
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    relation_oid: int
    old_kind: str
    """``K`` or ``O``."""
    old: Cells
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    cascade: bool
    restart_identity: bool
    relation_oids: tuple[int, ...]
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """``pg_logical_emit_message``."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes
    xid: int | None = None


@dataclass(frozen=True, slots=True)
class StreamStart:
    xid: int
    first_segment: bool


@dataclass(frozen=True, slots=True)
class StreamStop:
    pass


@dataclass(frozen=True, slots=True)
class StreamCommit:
    xid: int
    commit_lsn: int
    end_lsn: int
    commit_ts_us: int


@dataclass(frozen=True, slots=True)
class StreamAbort:
    """A streamed transaction, or one of its subtransactions, was rolled back."""

    xid: int
    subtransaction_xid: int
    """The top-level transaction's own id when all of it was."""
    abort_lsn: int | None = None
    """Only with ``streaming 'parallel'`` (protocol 4)."""
    abort_ts_us: int | None = None


@dataclass(frozen=True, slots=True)
class BeginPrepare:
    """A transaction that was prepared starts (protocol 3)."""

    prepare_lsn: int
    end_lsn: int
    """The position after the prepare record."""
    prepare_ts_us: int
    xid: int
    gid: str
    """The name that PREPARE TRANSACTION gave it."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """The end of a prepared transaction's changes."""

    prepare_lsn: int
    end_lsn: int
    prepare_ts_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class StreamPrepare:
    """A streamed transaction was prepared."""

    prepare_lsn: int
    end_lsn: int
    prepare_ts_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class CommitPrepared:
    commit_lsn: int
    end_lsn: int
    commit_ts_us: int
    xid: int
    gid: str


@dataclass(frozen=True, slots=True)
class RollbackPrepared:
    prepare_end_lsn: int
    rollback_end_lsn: int
    prepare_ts_us: int
    rollback_ts_us: int
    xid: int
    gid: str


Message: TypeAlias = (
    Begin
    | Commit
    | Relation
    | Type
    | Origin
    | Insert
    | Update
    | Delete
    | Truncate
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
    | BeginPrepare
    | Prepare
    | StreamPrepare
    | CommitPrepared
    | RollbackPrepared
)
