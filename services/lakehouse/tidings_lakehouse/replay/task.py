"""What a Spark task does: it evaluates the shares that are in its partition.

A partition's rows are sorted by share, and within it as the stream had them (`rows`). All that a share needs comes with it, so a
task needs nothing but the domain's package.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from tidings_domain.evaluation.tracing import Trace, trace_of_column, trace_of_headers
from tidings_domain.loading.domain import Domain, load_domain
from tidings_domain.replay.replay import KnownDifference, Replay, Replayed
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import Envelope
from tidings_envelope.errors import DecodeError

FIRST, STREAMED, AGAIN = -1, 0, 1
"""Kinds of rows: of the first snapshot, of a transaction, of an incremental snapshot."""
_ROWS = 2_000
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SHAPE = pa.schema(
    [
        ("topic", pa.string()),
        ("aggregate", pa.string()),
        ("id", pa.string()),
        ("commit_lsn", pa.int64()),
        ("event_id", pa.string()),
        ("rule", pa.string()),
        ("ts_us", pa.int64()),
        ("is_snapshot", pa.bool_()),
        ("headers", pa.list_(_HEADER)),
        ("body", pa.binary()),
        ("data", pa.string()),
        ("told", pa.string()),
        ("until", pa.int64()),
        ("reason", pa.string()),
        ("rows_read", pa.int64()),
        ("state", pa.binary()),
        ("memory_key", pa.binary()),
        ("memory_value", pa.binary()),
    ]
)
DDL = (
    "topic string, aggregate string, id string, commit_lsn bigint, event_id string, rule string, ts_us bigint,"
    " is_snapshot boolean, headers array<struct<key: string, value: binary>>, body binary, data string, told string,"
    " until bigint, reason string, rows_read bigint, state binary, memory_key binary, memory_value binary"
)
"""The same in Spark's words: an event; where `told` is set, what is told of an aggregate; where only `rows_read` is, a count; where
`state` is, an aggregate at the end of the range; where `memory_key` is, a record of what the sequencer remembers of rows by then."""


@functools.cache
def _domain(package: str) -> Domain:
    return load_domain(package)


@dataclass(frozen=True)
class ReplayTask:
    """Evaluates shares; `evaluate` is the function for `mapInArrow`.

    Args:
        package: the domain's.
        shares: how many there are.
        paths: where Python looks for packages, as the driver's does.
        with_data: give each event as JSON, too.
        with_state: give what is known at the end, too.
    """

    package: str
    shares: int
    paths: Sequence[str] = ()
    with_data: bool = False
    with_state: bool = False

    def evaluate(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows as `rows.shared_rows` gives them to rows in `SHAPE`."""
        sys.path += [path for path in self.paths if path not in sys.path]
        run: _Share | None = None
        out = _Out(self.with_data)
        for batch in batches:
            for row in batch.to_pylist():
                number = row["share"]
                if run is None or run.number != number:
                    yield from self._ended(run, out)
                    run = _Share(_domain(self.package), number, self.shares)
                run.take(row, out)
                if out.is_full:
                    yield out.batch()
        yield from self._ended(run, out)
        if not out.is_empty:
            yield out.batch()

    def _ended(self, run: _Share | None, out: _Out) -> Iterator[pa.RecordBatch]:
        if run is None:
            return
        run.end(out)
        for row in run.kept() if self.with_state else ():
            out.add(row)
            if out.is_full:
                yield out.batch()


@dataclass
class _Transaction:
    txid: int
    commit_lsn: int
    lost: bool
    ts_us: int | None
    trace: Trace | None
    rows: list[Envelope] = field(default_factory=list)
    last_order: int = -1


class _Share:
    def __init__(self, domain: Domain, number: int, count: int) -> None:
        self.number = number
        self._replay = Replay(domain, number, count)
        self._decode = EnvelopeDecoder().envelope
        self._open: _Transaction | None = None
        self._rows = 0

    def take(self, row: dict[str, Any], out: _Out) -> None:
        """The next row in the order of the stream."""
        self._rows += 1
        if row["kind"] != STREAMED:
            self._close(out)
            envelope = self._envelope(row)
            if row["kind"] == FIRST:
                out.events(self._replay.snapshot_row(envelope))
            else:
                out.events(self._replay.incremental_row(envelope, row["position"]))
            return
        transaction = self._open
        if transaction is None or transaction.commit_lsn != row["position"]:
            self._close(out)
            transaction = self._open = _Transaction(
                row["tx_id"], row["position"], bool(row["lost"]), row["ts_us"], _trace(row)
            )
        if row["place"] == transaction.last_order:
            return  # it was written again after a crash
        transaction.last_order = row["place"]
        transaction.rows.append(self._envelope(row))

    def end(self, out: _Out) -> None:
        """No more rows."""
        self._close(out)
        out.told(self._replay.take_known_differences())
        out.read(self._rows)

    def kept(self) -> Iterator[dict[str, Any]]:
        """What is known at the end, as rows in `SHAPE`."""
        for aggregate, id_, state in self._replay.states():
            yield {"aggregate": aggregate, "id": id_, "state": state}
        for key, value in self._replay.remembered():
            yield {"memory_key": key, "memory_value": value}

    def _close(self, out: _Out) -> None:
        done, self._open = self._open, None
        if done is None:
            return
        if done.lost:
            self._replay.give_up(done.rows)
            return
        found = self._replay.transaction(done.txid, done.commit_lsn, done.rows, done.trace, done.ts_us)
        out.events(found)

    def _envelope(self, row: dict[str, Any]) -> Envelope:
        envelope = self._decode(row["value"].encode())
        if envelope is None:
            raise DecodeError("a row of a log is not a change event")
        return envelope


def _trace(row: dict[str, Any]) -> Trace | None:
    headers = row["trace_headers"]
    found = None if headers is None else trace_of_headers([(one["key"], one["value"]) for one in headers])
    return trace_of_column(row["trace_column"]) if found is None else found


class _Out:
    """Rows in `SHAPE`."""

    def __init__(self, with_data: bool) -> None:
        self._with_data = with_data
        self._rows: list[dict[str, Any]] = []

    @property
    def is_empty(self) -> bool:
        return not self._rows

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= _ROWS

    def batch(self) -> pa.RecordBatch:
        """All since the last one."""
        rows, self._rows = self._rows, []
        return pa.RecordBatch.from_pylist(rows, SHAPE)

    def events(self, found: list[Replayed]) -> None:
        for change_set, event in found:
            self._rows.append(
                {
                    "topic": event.topic,
                    "aggregate": change_set.aggregate,
                    "id": change_set.id,
                    "commit_lsn": change_set.commit_lsn,
                    "event_id": event.event_id,
                    "rule": event.rule,
                    "ts_us": event.ts_us,
                    "is_snapshot": change_set.snapshot,
                    "headers": [{"key": name, "value": value} for name, value in event.headers],
                    "body": event.body,
                    "data": msgspec.json.encode(event.event).decode() if self._with_data else None,
                }
            )

    def told(self, found: list[KnownDifference]) -> None:
        for one in found:
            self._rows.append(
                {
                    "told": one.kind,
                    "aggregate": one.aggregate,
                    "id": one.id,
                    "commit_lsn": one.since,
                    "until": one.until,
                    "reason": one.reason,
                }
            )

    def read(self, rows: int) -> None:
        self.add({"rows_read": rows})

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
