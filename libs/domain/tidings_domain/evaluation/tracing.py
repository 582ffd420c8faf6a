"""Hands on the trace context (W3C) of a transaction from technical records to the business events that follow.

It comes in as the record header ``traceparent`` (with ``tracestate``), or in a column of the rows: either the header's
text itself, or what Debezium's outbox and tracing tools write, the text of Java properties with a ``traceparent`` line. It
goes out as CloudEvents' Distributed Tracing extension (``ce_traceparent``), and as a plain header, where Kafka's
instrumentations look for it. What is not a trace context is passed over: a trace is never worth losing an event.
Format: W3C Trace Context, section 3.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tidings_domain.changes import ChangeSet
from tidings_envelope.envelope import Envelope, txid_of

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
TRACE_HEADERS = frozenset({TRACEPARENT, TRACESTATE})
T = TypeVar("T")
_KEPT = 100_000
"""Transactions whose trace is remembered until they are complete; of more, the oldest go without."""
_VALID = re.compile(r"^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$")
_STATE = re.compile(r"^[\x20-\x7e]{1,512}$")


class Trace(NamedTuple):
    """A trace context."""

    parent: str
    state: str | None = None


def trace_of_headers(headers: Sequence[tuple[str, bytes | None]]) -> Trace | None:
    """The trace context in a record's headers."""
    found = {
        name: value.decode("utf-8", "replace").strip('"')
        for name, value in headers
        if value is not None and name in (TRACEPARENT, TRACESTATE)
    }
    return _trace(found) if found else None


def trace_of_column(value: object) -> Trace | None:
    """The trace context in a row's column: the text of `traceparent`, or of Java properties."""
    if not isinstance(value, str):
        return None
    if "=" not in value:
        return _trace({TRACEPARENT: value.strip()})
    lines = [line.partition("=") for line in value.splitlines() if not line.startswith(("#", "!"))]
    return _trace({name.strip(): text.strip().replace("\\", "") for name, _, text in lines})


def _trace(found: dict[str, str]) -> Trace | None:
    parent, state = found.get(TRACEPARENT, ""), found.get(TRACESTATE, "")
    if not _VALID.match(parent):
        return None
    return Trace(parent, state if _STATE.match(state) else None)


def trace_headers(parent: str, state: str | None) -> list[tuple[str, bytes]]:
    """The headers of an event with this trace context."""
    known = [(TRACEPARENT, parent.encode()), *([(TRACESTATE, state.encode())] if state is not None else [])]
    return [(f"ce_{name}", value) for name, value in known] + known


class Traces:
    """The trace context of each transaction that is being gathered: that of the first of its rows that has one.

    Args:
        column: where rows hold it; None where only headers do.
    """

    def __init__(self, column: str | None) -> None:
        self._column = column
        self._known: dict[int, Trace] = {}
        self.reads_rows = column is not None

    def note(self, headers: Sequence[tuple[str, bytes | None]], envelope: Envelope) -> None:
        """Look at a row's record."""
        trace = trace_of_headers(headers) if headers else None
        if trace is None and self._column is not None and envelope.after is not None:
            trace = trace_of_column(envelope.after.get(self._column))
        if trace is None or envelope.op == "r":
            return
        # Row by row, where the source tells no transactions, the id is in the source block alone.
        ref, source = envelope.transaction, envelope.source
        self._known.setdefault(txid_of(ref.id) if ref is not None else source.tx_id or 0, trace)
        if len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]

    def hand_on(self, txid: int, change_sets: list[T], *, last: bool = True) -> list[T]:
        """The change sets of a complete transaction, with its trace context; not `last`: more of it will come."""
        trace = self._known.get(txid)
        if trace is not None and last:
            del self._known[txid]
        if trace is None:
            return change_sets
        return [
            msgspec.structs.replace(one, traceparent=trace.parent, tracestate=trace.state)
            if isinstance(one, ChangeSet)
            else one
            for one in change_sets
        ]
