"""A transaction's trace context goes from its rows to its events, and nothing else does."""

from typing import Any

import msgspec
import pytest
from bikes import domain as bikes_domain

from tidings_domain import load_domain
from tidings_domain.changes import ChangeSet, decode_change_set, encode_change_set
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.evaluation.tracing import Trace, Traces, trace_of_column, trace_of_headers
from tidings_domain.testing import Rehearsal, insert
from tidings_envelope.envelope import Envelope, Source, TransactionRef

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PROPERTIES = f"#Tue Nov 10 10:00:00 UTC 2026\ntracestate=a\\=1\ntraceparent={PARENT}\n"


def row(txid: int, after: dict[str, Any] | None = None) -> Envelope:
    source = Source(name="p", db="d", schema="public", table="orders", ts_ms=5)
    return Envelope(op="c", source=source, after=after, transaction=TransactionRef(f"{txid}:90", 1, 1))


@pytest.mark.parametrize(
    ("headers", "trace"),
    [
        ([], None),
        ([("traceparent", PARENT.encode())], Trace(PARENT)),
        ([("traceparent", f'"{PARENT}"'.encode())], Trace(PARENT)),  # by Kafka Connect's JSON converter
        ([("x", None), ("tracestate", b"a=1"), ("traceparent", PARENT.encode())], Trace(PARENT, "a=1")),
        ([("tracestate", "ä".encode()), ("traceparent", PARENT.encode())], Trace(PARENT)),
        ([("tracestate", b"a=1")], None),
        ([("traceparent", b"\xff\xfe")], None),
        ([("traceparent", PARENT.replace("4736", "473").encode())], None),
        ([("traceparent", f"00-{'0' * 32}-00f067aa0ba902b7-01".encode())], None),
        ([("traceparent", PARENT.replace("00-", "ff-", 1).encode())], None),
        ([("traceparent", None)], None),
    ],
)
def test_headers(headers: Any, trace: Trace | None) -> None:
    assert trace_of_headers(headers) == trace


@pytest.mark.parametrize(
    ("value", "trace"),
    [
        (PARENT, Trace(PARENT)),
        (PROPERTIES, Trace(PARENT, "a=1")),
        ("no trace", None),
        ("a=b", None),
        (None, None),
        (7, None),
    ],
)
def test_columns(value: object, trace: Trace | None) -> None:
    assert trace_of_column(value) == trace


def change_set(txid: int) -> ChangeSet:
    return ChangeSet("Order", "1", 100, txid, 5, False, ())


def test_a_transaction_has_the_trace_of_its_first_row_that_has_one() -> None:
    traces = Traces(None)
    traces.note([], row(7, {"trace": PARENT}))
    traces.note([("traceparent", PARENT.encode())], row(7))
    traces.note([("traceparent", PARENT.replace("4736", "4737").encode())], row(7))
    traces.note([("traceparent", PARENT.encode())], Envelope(op="r", source=row(1).source, after={}))
    assert traces.hand_on(8, [change_set(8)]) == [change_set(8)]
    [part] = traces.hand_on(7, [change_set(7)], last=False)
    [one] = traces.hand_on(7, [change_set(7)])
    assert part == one
    assert (one.traceparent, one.tracestate) == (PARENT, None)
    assert decode_change_set(encode_change_set(one)) == one
    assert traces.hand_on(7, [change_set(7)]) == [change_set(7)], "it was handed on"


def test_a_column_where_headers_say_nothing() -> None:
    traces = Traces("trace")
    traces.note([], row(7, {"trace": PROPERTIES}))
    [one] = traces.hand_on(7, [change_set(7)])
    assert (one.traceparent, one.tracestate) == (PARENT, "a=1")


def test_a_change_set_of_an_earlier_version_has_no_trace() -> None:
    older = msgspec.msgpack.encode(["Order", "1", 100, 7, 5, False, [], {}])
    assert decode_change_set(older) == change_set(7)


def test_events_carry_it_for_cloudevents_and_for_kafka() -> None:
    domain = load_domain(bikes_domain.__package__ or "")
    [plain] = Rehearsal(domain).change_sets(insert("public.orders", id=1, customer_id=None, status="placed"))
    traced = msgspec.structs.replace(plain, traceparent=PARENT, tracestate="a=1")
    before, after = (Evaluator(domain).apply(None, one).events for one in (plain, traced))
    assert [event.event_id for event in before] == [event.event_id for event in after]
    for old, new in zip(before, after, strict=True):
        assert new.headers == [
            *old.headers,
            ("ce_traceparent", PARENT.encode()),
            ("ce_tracestate", b"a=1"),
            ("traceparent", PARENT.encode()),
            ("tracestate", b"a=1"),
        ]
