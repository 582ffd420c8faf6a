"""What a record says of its transaction: a row's place in one, or a marker. Pure.

Format: Debezium's ``transaction`` and ``source`` blocks, and its transaction topic, as in `tidings_envelope.envelope`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidings_connect.task.sink import SinkRecord
from tidings_envelope.binlog import OneDomain, ordered_id
from tidings_envelope.commit_number import position_before, row_position
from tidings_envelope.envelope import lsn_of, txid_of
from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import ROWS, Gtid, gtid_of
from tidings_envelope.headers.commit import HEADER as COMMIT
from tidings_envelope.headers.commit import commit_of
from tidings_envelope.headers.left_out import HEADER, LeftOut, left_out
from tidings_sinks.errors import TransactionError


class RowPlace(NamedTuple):
    """Where a row stands in the source's history."""

    last_commit: int | None
    """The position of the last commit before its transaction."""
    position: int | None
    """Its own; below that of its transaction's commit."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of a transaction."""

    txid: int
    position: int
    """Of the commit."""
    counts: Mapping[str, int]
    """Rows by collection, without those that capture has dropped on purpose."""
    text: str
    """The transaction's id as the marker has it."""
    gtid: Gtid | None = None
    """Of MariaDB."""


class Reader:
    """Reads the blocks of one source."""

    def __init__(self) -> None:
        self._domain = OneDomain()

    def end(self, record: SinkRecord) -> End | None:
        """The end of a transaction that a record of the transaction topic tells of; None of a beginning, or where it says nothing of
        the source (see `ordered_id`).

        Raises:
            TransactionError: the record is not a marker.
        """
        value = record.value
        try:
            if value["status"] != "END":
                return None
            text = value["id"]
            commit = _commit(record)
            id_ = ordered_id(text, self._domain, commit, value["event_count"])
            if id_ is None:
                return None
            skipped = self._left_out(record).filtered
            counts = {
                each["data_collection"]: each["event_count"] - skipped.get(each["data_collection"], 0)
                for each in value["data_collections"] or ()
            }
            gtid = gtid_of(text) if commit is None and "-" in text else None
            return End(txid_of(id_), lsn_of(id_), counts, text, gtid)
        except DecodeError as error:
            raise _unread(record, str(error)) from None
        except (TypeError, LookupError, AttributeError, ValueError) as error:
            raise _unread(record, f"it is not a marker of Debezium's ({type(error).__name__})") from None

    def place(self, record: SinkRecord) -> RowPlace:
        """Where a row stands.

        Raises:
            TransactionError: its source block says nothing of that.
        """
        value = record.value
        try:
            source = value["source"]
            commit = _commit(record)
            if commit is not None:
                return RowPlace(
                    position_before(commit), row_position(commit, value["transaction"]["total_order"])
                )
            gtid = source.get("gtid")
            if gtid is not None:
                before = (self._domain.take(gtid).sequence - 1) * ROWS
                return RowPlace(before, before + min(value["transaction"]["total_order"], ROWS - 1))
            sequence = source.get("sequence")
            last = None if sequence is None else json.loads(sequence)[0]
            lsn = source.get("lsn")
            return RowPlace(None if last is None else int(last), None if lsn is None else int(lsn))
        except DecodeError as error:
            raise _unread(record, str(error)) from None
        except (TypeError, LookupError, AttributeError, ValueError) as error:
            raise _unread(record, f"its source block is not Debezium's ({type(error).__name__})") from None

    @staticmethod
    def _left_out(record: SinkRecord) -> LeftOut:
        found = next((header.encoded for header in record.headers if header.key == HEADER), None)
        return LeftOut() if found is None else left_out(found)


def reference_of(record: SinkRecord) -> Mapping[str, Any] | None:
    """The transaction block of a row; None where it has none.

    Raises:
        TransactionError: the record is not an envelope.
    """
    value = record.value
    if not isinstance(value, Mapping) or "op" not in value or "transaction" not in value:
        raise _unread(
            record,
            "it is not an envelope with a transaction block",
            hint="leave ExtractNewRecordState out, and read topics of tables and the transaction topic alone",
        )
    found = value["transaction"]
    if found is None or isinstance(found, Mapping):
        return found
    raise _unread(record, "its transaction block is not a struct")


def transaction_of(record: SinkRecord, reference: Mapping[str, Any]) -> tuple[int, int]:
    """The transaction's number, and the row's in it.

    Raises:
        TransactionError: the block is not Debezium's.
    """
    try:
        commit = _commit(record)
        return txid_of(reference["id"]) if commit is None else commit, reference["total_order"]
    except DecodeError as error:
        raise _unread(record, str(error)) from None
    except (TypeError, LookupError) as error:
        raise _unread(record, f"its transaction block is not Debezium's ({type(error).__name__})") from None


def collection_of(record: SinkRecord) -> str:
    """A row's collection, as the markers name it.

    Raises:
        TransactionError: its source block does not say it.
    """
    try:
        source = record.value["source"]
        return f"{source.get('schema') or source['db']}.{source['table']}"
    except (TypeError, LookupError, AttributeError) as error:
        raise _unread(record, f"its source block names no table ({type(error).__name__})") from None


def _commit(record: SinkRecord) -> int | None:
    """The number of its commit, where its headers have one."""
    return commit_of([(header.key, header.encoded) for header in record.headers if header.key == COMMIT])


def is_incremental(record: SinkRecord) -> bool:
    """Whether a row was read by an incremental snapshot, in the midst of the stream."""
    source = record.value.get("source")
    return isinstance(source, Mapping) and source.get("snapshot") == "incremental"


def place_in_words(record: SinkRecord) -> str:
    """Where a record stands."""
    return f"topic {record.original.topic}, partition {record.original.partition}, offset {record.offset}"


def _unread(record: SinkRecord, reason: str, hint: str | None = None) -> TransactionError:
    return TransactionError(f"{place_in_words(record)}: {reason}", hint=hint)
