"""Records what a real database did, from its technical topics, as a file that authors' tests play again.

The file is JSON: ``given`` are the rows that the recorded transactions build on, as they were just before the first;
``transactions`` are whole, in commit order, with their commit position and time, so that the events' ids are those that
were published. It holds the columns that the domain declares and no others. Rows are as Debezium represents them.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from tidings_domain.aggregate.uses import Role, root_of
from tidings_domain.changes import identity
from tidings_domain.errors import TranslatorError
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.tables import declared_columns
from tidings_envelope.envelope import Envelope, TransactionMarker, lsn_of, txid_of
from tidings_envelope.toast import is_unavailable

_Row = dict[str, Any]


class RecordingError(TranslatorError):
    """What was asked for cannot be recorded, or a file is not a recording."""

    code = "recording"


class RecordedChange(msgspec.Struct, frozen=True, array_like=True):
    """One row change: all declared columns, of a deleted row its key."""

    op: str
    table: str
    values: _Row


class RecordedTransaction(msgspec.Struct, frozen=True):
    """One committed transaction; `ts_us` is the commit time in microseconds since 1970."""

    txid: int
    lsn: int
    ts_us: int
    rows: list[RecordedChange]


class Recording(msgspec.Struct, frozen=True):
    """What the file holds."""

    source: str
    given: list[tuple[str, _Row]]
    transactions: list[RecordedTransaction]


def encode_recording(recording: Recording) -> bytes:
    """As JSON that people can read and version control can compare."""
    return msgspec.json.format(msgspec.json.encode(recording), indent=1) + b"\n"


def decode_recording(data: bytes) -> Recording:
    """The recording in a file.

    Raises:
        RecordingError: it holds none.
    """
    try:
        return msgspec.json.decode(data, type=Recording)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = error if isinstance(error, msgspec.DecodeError) else "too deep, or a text that is not UTF-8"
        raise RecordingError(
            f"not a recording: {reason}", hint="tidings-translator record writes them"
        ) from error


class Recorder:
    """Takes in everything that is on the technical topics, in any order, and cuts a recording out of it.

    Args:
        masks: ``schema.table.column`` whose texts are replaced, each by a name of its own.
    """

    def __init__(self, source: str, domain: Domain, masks: Iterable[str] = ()) -> None:
        self._source = source
        self._domain = domain
        self._columns = {table: declared_columns(domain, table) for table in domain.tables}
        self._key = {table: uses[0].key for table, uses in domain.tables.items()}
        self._masks: dict[str, set[str]] = {}
        for mask in masks:
            table, _, column = mask.rpartition(".")
            if column not in self._columns.get(table, ()):
                raise RecordingError(f"--mask {mask}: the domain declares no such schema.table.column")
            self._masks.setdefault(table, set()).add(column)
        self._snapshot: list[Envelope] = []
        self._rows: dict[int, dict[int, Envelope]] = {}
        self._ends: dict[int, TransactionMarker] = {}

    def row(self, envelope: Envelope) -> None:
        """A record of a table's topic; one that comes twice counts once."""
        if envelope.source.qualified_table not in self._columns or envelope.op not in {"c", "u", "d", "r"}:
            return
        if envelope.transaction is None:
            self._snapshot.append(envelope)
        else:
            rows = self._rows.setdefault(txid_of(envelope.transaction.id), {})
            rows[envelope.transaction.total_order] = envelope

    def marker(self, marker: TransactionMarker) -> None:
        """A record of the transaction topic."""
        if marker.is_end:
            self._ends[txid_of(marker.id)] = marker

    def cut(self, *, last: int = 10, first: int | None = None, until: int | None = None) -> Recording:
        """A recording of consecutive transactions that touch the domain's tables.

        Args:
            last: how many, the last ones; not looked at with `first`.
            first: the transaction id to begin with.
            until: the transaction id to end with; the last one if None.

        Raises:
            RecordingError: there is no such transaction, or one of them is not whole.
        """
        order = sorted((lsn_of(end.id), txid) for txid, end in self._ends.items() if txid in self._rows)
        txids = [txid for _, txid in order]
        if not txids:
            raise RecordingError(
                "the topics hold no transaction of the domain's tables",
                hint="transactions need provide.transaction.metadata=true",
            )
        for wanted in (first, until):
            if wanted is not None and wanted not in txids:
                raise RecordingError(
                    f"transaction {wanted} is not on the topics, or touches no table of the domain",
                    hint=f"the last ones are {', '.join(map(str, txids[-10:]))}",
                )
        stop = len(txids) if until is None else txids.index(until) + 1
        start = max(stop - last, 0) if first is None else txids.index(first)
        tables = _Tables(self._columns, self._key)
        for envelope in self._snapshot:
            tables.apply(envelope)
        for txid in txids[:start]:
            for _, envelope in sorted(self._rows[txid].items()):
                tables.apply(envelope)
        before = {table: dict(rows) for table, rows in tables.rows.items()}
        transactions = [self._transaction(txid, tables) for txid in txids[start:stop]]
        if not transactions:
            raise RecordingError(
                "the transactions end before they begin", hint="choose others with --from, --to or --last"
            )
        given = list(self._given(before, transactions))
        return Recording(
            self._source,
            [(table, self._masked(table, row)) for table, row in given],
            [
                msgspec.structs.replace(
                    transaction,
                    rows=[
                        msgspec.structs.replace(row, values=self._masked(row.table, row.values))
                        for row in transaction.rows
                    ],
                )
                for transaction in transactions
            ],
        )

    def _transaction(self, txid: int, tables: "_Tables") -> RecordedTransaction:
        rows, end = self._rows[txid], self._ends[txid]
        for collection in end.data_collections or ():
            table = collection.data_collection
            found = sum(1 for envelope in rows.values() if envelope.source.qualified_table == table)
            if table in self._columns and found != collection.event_count:
                raise RecordingError(
                    f"transaction {txid} is not whole: of {collection.event_count} rows of {table} the topics hold {found}",
                    hint="older records are gone, or it has just been committed; choose later ones with --from",
                )
        changes = [change for _, envelope in sorted(rows.items()) if (change := tables.apply(envelope))]
        source = next(iter(rows.values())).source
        return RecordedTransaction(txid, lsn_of(end.id), source.ts_us or source.ts_ms * 1000, changes)

    def _given(
        self, before: dict[str, dict[str, _Row]], transactions: list[RecordedTransaction]
    ) -> Iterator[tuple[str, _Row]]:
        """The rows of every aggregate that is touched, and what these and the recorded rows refer to."""
        touched: set[tuple[str, str]] = set()

        def find(table: str, key: str) -> _Row | None:
            return before.get(table, {}).get(key)

        rows: list[tuple[str, _Row]] = []
        found: set[tuple[str, str]] = set()
        for change in (change for transaction in transactions for change in transaction.rows):
            key = identity(change.values, self._key[change.table])
            old = before.get(change.table, {}).get(key)
            if old is not None:
                found.add((change.table, key))
                touched |= self._roots(change.table, old, find)
            if change.op != "d":
                touched |= self._roots(change.table, change.values, find)
                rows.append((change.table, change.values))
        for table, known in before.items():
            for key, row in known.items():
                if (table, key) in found or touched & self._roots(table, row, find):
                    found.add((table, key))
                    rows.append((table, row))
        self._add_referred(before, rows, found)
        for table, key in sorted(found):
            yield table, before[table][key]

    def _add_referred(
        self,
        before: dict[str, dict[str, _Row]],
        rows: list[tuple[str, _Row]],
        found: set[tuple[str, str]],
    ) -> None:
        """Add what `rows` refer to, and what that refers to."""
        while rows:
            table, row = rows.pop()
            for use in self._domain.references.get(table, ()):
                if any(row.get(column) is None for column in use.by):
                    continue
                place = (use.table, identity(row, use.by))
                other = before.get(use.table, {}).get(place[1])
                if other is not None and place not in found:
                    found.add(place)
                    rows.append((use.table, other))

    def _roots(self, table: str, row: _Row, find: Callable[[str, str], _Row | None]) -> set[tuple[str, str]]:
        return {
            (use.aggregate, root)
            for use in self._domain.tables[table]
            if use.role is not Role.REFERENCE and (root := root_of(use, row, find)) is not None
        }

    def _masked(self, table: str, row: _Row) -> _Row:
        masked = dict(row)
        for column in self._masks.get(table, ()):
            value = masked.get(column)
            if value is not None:
                if not isinstance(value, str):
                    raise RecordingError(f"--mask {table}.{column}: only texts can be masked")
                masked[column] = f"masked-{blake2b(value.encode(), digest_size=5).hexdigest()}"
        return masked


class _Tables:
    """What is in the tables after the changes so far."""

    def __init__(self, columns: dict[str, tuple[str, ...]], key: dict[str, tuple[str, ...]]) -> None:
        self._columns = columns
        self._key = key
        self.rows: dict[str, dict[str, _Row]] = {}

    def apply(self, envelope: Envelope) -> RecordedChange | None:
        """Take in a change; what is to be recorded of it, None for a deleted row that was not known."""
        table = envelope.source.qualified_table
        rows = self.rows.setdefault(table, {})
        if envelope.after is None:
            assert envelope.before is not None
            key = identity(envelope.before, self._key[table])
            if rows.pop(key, None) is None:
                return None
            return RecordedChange(
                "d", table, {column: envelope.before[column] for column in self._key[table]}
            )
        key = identity(envelope.after, self._key[table])
        known = rows.get(key)
        row = {column: envelope.after[column] for column in self._columns[table] if column in envelope.after}
        for column, value in row.items():
            if known is not None and is_unavailable(value):
                row[column] = known[column]
        rows[key] = row
        return RecordedChange("c" if known is None else "u", table, row)
