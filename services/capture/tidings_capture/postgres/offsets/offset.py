"""Source offsets: how far a connector has come, in the form Debezium stores them in Kafka Connect's offsets topic.

Key ``["<connector>",{"server":"<prefix>"}]``, value a JSON object with Debezium's names (`PostgresOffsetContext`).
The resume position is a commit position: transactions that ended at or before `done_lsn` are done; when the next one was
sent in part, its rows before `lsn`, and the first `events_at_lsn` rows at `lsn`, are done too. Several rows can share one
LSN (COPY writes many rows in one WAL record), which is why their number is stored. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from tidings_capture.cdc.incremental.state import FIELDS as INCREMENTAL_FIELDS
from tidings_capture.postgres.offsets.history import History, history_of
from tidings_connect.errors import OffsetError

_TABLE_COUNT: Final = "transaction_data_collection_order_"
_LEFT_OUT: Final = "tidings_left_out_"
_UNFINISHED: Final = "tidings_snapshot_tables_done"
_HISTORY: Final = "tidings_history"
_ROW_TYPES: Final = frozenset({"INSERT", "UPDATE", "DELETE", "TRUNCATE", "MESSAGE"})
"""Of the last event, while a transaction is in progress; MESSAGE also stands for a message without a transaction."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A position in a database's history. LSNs are numbers, times microseconds since the Unix epoch."""

    done_lsn: int
    """Transactions that ended here or before are done. While nothing is captured it moves on with the server's WAL."""
    lsn: int
    """The last event's LSN; equal to `done_lsn` between transactions."""
    commit_lsn: int | None = None
    """The end of the last captured transaction, None before the first."""
    tx_id: int | None = None
    """The transaction of the last event."""
    ts_us: int = 0
    message_type: str | None = None
    """``BEGIN``, ``INSERT``, ..., ``COMMIT``: what the last event was."""
    events_at_lsn: int = 0
    """How many rows at `lsn` are done, while a transaction is in progress."""
    transaction_id: str | None = None
    """The transaction in progress, when transaction metadata is on."""
    event_counts: tuple[tuple[str, int], ...] = ()
    """Its events so far by ``schema.table``."""
    left_out: tuple[tuple[str, int], ...] = ()
    """Those of them that did not come out (`left_out.Stored`)."""
    snapshot: str | None = None
    """``INITIAL`` in the offset that ends a snapshot."""
    unfinished: tuple[str, ...] | None = None
    """While a snapshot is being taken: the tables (``schema.table``) that have been sent as a whole. Debezium, which
    does not know the field it is stored in, sees an initial snapshot that was interrupted and takes a new one."""

    incremental: Mapping[str, Any] | None = None
    """The fields of an incremental snapshot that is under way (`cdc.incremental.state`)."""

    history: History | None = None
    """The server and publication that this is a position of; None in Debezium's offsets."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was sent in part.

        Its rows may lie before `done_lsn`: it may have begun before others that ended first.
        """
        return self.message_type in _ROW_TYPES and (self.events_at_lsn > 0 or self.lsn > self.done_lsn)


def offset_key(connector: str, topic_prefix: str) -> bytes:
    """The key of a connector's offset."""
    return orjson.dumps([connector, {"server": topic_prefix}])


def encode_offset(offset: SourceOffset) -> bytes:
    """An offset as Debezium would store it."""
    value: dict[str, Any] = {"ts_usec": offset.ts_us}
    if offset.tx_id is not None:
        value["txId"] = offset.tx_id
    value["lsn"] = offset.lsn
    value |= offset.incremental or {}
    if offset.history is not None:
        value[_HISTORY] = offset.history.stored()
    if offset.snapshot is not None:
        value |= {"snapshot": offset.snapshot, "last_snapshot_record": True, "snapshot_completed": True}
        return orjson.dumps(value)
    value["lsn_proc"] = offset.done_lsn
    if offset.unfinished is not None:
        value |= {"snapshot": "INITIAL", "snapshot_completed": False, "last_snapshot_record": False}
        value[_UNFINISHED] = list(offset.unfinished)
    if offset.commit_lsn is not None:
        value["lsn_commit"] = offset.commit_lsn
    if offset.message_type is not None:
        value["messageType"] = offset.message_type
    if offset.events_at_lsn:
        value["lsn_events_processed"] = offset.events_at_lsn
    if offset.transaction_id is not None:
        value["transaction_id"] = offset.transaction_id
    for table, count in offset.event_counts:
        value[_TABLE_COUNT + table] = count
    for name, count in offset.left_out:
        value[_LEFT_OUT + name] = count  # Kafka Connect takes numbers and texts only
    return orjson.dumps(value)


def decode_offset(data: bytes) -> SourceOffset | None:
    """Understand a stored offset, ours or Debezium's; None when it stands for an unfinished snapshot.

    Raises:
        OffsetError: it is not an offset of a PostgreSQL connector.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise OffsetError("the stored source offset is not JSON") from error
    if not isinstance(value, dict):
        raise OffsetError("the stored source offset is not a JSON object")
    unfinished = value.get(_UNFINISHED)
    if (
        unfinished is None
        and value.get("snapshot")
        and not (value.get("snapshot_completed") or value.get("last_snapshot_record"))
    ):
        return None
    processed = _number(value, "lsn_proc")
    lsn = _number(value, "lsn")
    commit = _number(value, "lsn_commit")
    last = next((x for x in (lsn, processed, commit) if x is not None), None)
    if last is None:
        raise OffsetError("the stored source offset has none of lsn, lsn_proc and lsn_commit")
    message_type = value.get("messageType")
    events = _number(value, "lsn_events_processed") or 0
    done = _done_lsn(last, processed, commit, message_type, events)
    if message_type == "MESSAGE" and done < last:
        events = max(events, 1)  # Debezium does not count messages; each has an LSN of its own
    return SourceOffset(
        done_lsn=done,
        lsn=last,
        commit_lsn=commit,
        tx_id=_number(value, "txId"),
        ts_us=_number(value, "ts_usec") or 0,
        message_type=message_type,
        events_at_lsn=events,
        transaction_id=value.get("transaction_id"),
        event_counts=_counts(value, _TABLE_COUNT),
        left_out=_counts(value, _LEFT_OUT),
        snapshot=None if unfinished is not None else value.get("snapshot") or None,
        unfinished=None if unfinished is None else tuple(unfinished),
        incremental={n: value[n] for n in INCREMENTAL_FIELDS if n in value} or None,
        history=history_of(value.get(_HISTORY)),
    )


def _done_lsn(
    lsn: int, processed: int | None, commit: int | None, message_type: str | None, events_at_lsn: int
) -> int:
    if message_type not in _ROW_TYPES or (not events_at_lsn and commit is not None and commit >= lsn):
        return max(lsn, processed or 0, commit or 0)
    # In a transaction. Debezium's lsn_proc is then the row's own LSN, which says nothing about what ended before.
    if processed is not None and processed != lsn:
        return max(commit or 0, processed) if commit is None or processed >= commit else commit
    if commit is None and events_at_lsn:
        # The first transaction after a snapshot: Debezium confirms the slot up to its row. What ended before that row
        # was sent before this transaction began, because transactions come in the order of their ends.
        return lsn
    return commit or 0


def _counts(value: dict[str, Any], prefix: str) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name.removeprefix(prefix), int(count)) for name, count in value.items() if name.startswith(prefix)
    )


def _number(value: dict[str, Any], name: str) -> int | None:
    found = value.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise OffsetError(f"the stored source offset's {name} is not an LSN or number")
    return found
