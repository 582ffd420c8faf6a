"""What the tests of tables share: envelopes of a table's changes, and the options that write them."""

from typing import Any

from sink_targets import Sink

TOPIC = "shop.public.orders"
UPSERT = {
    "insert_mode": "upsert",
    "delete_enabled": "true",
    "primary_key_mode": "record_key",
    "schema_evolution": "basic",
}
LETTERS = {
    "errors_tolerance": "all",
    "errors_deadletterqueue_topic_name": "letters",
    "errors_deadletterqueue_context_headers_enable": "true",
}


def envelope(op: str, after: Any, before: Any = None) -> dict[str, Any]:
    """An envelope as Debezium writes it."""
    source = {"schema": "public", "table": "orders", "connector": "postgresql"}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}


def put(sink: Sink, number: int, op: str = "c", topic: str = TOPIC, **row: Any) -> None:
    """Write a change of the row of a key; after a delete a tombstone."""
    key = {"id": number}
    if op == "d":
        sink.send(topic, key, envelope("d", None, key))
        sink.send(topic, key, None)
    else:
        sink.send(topic, key, envelope(op, key | row))


def put_changes_of_rows(sink: Sink) -> None:
    """Changes whose order counts: in the end there are rows 1 (b), 3 (q) and 5 (changes its key)."""
    put(sink, 1, note="a")
    put(sink, 1, "d")
    put(sink, 1, note="b")
    put(sink, 2, note="x")
    put(sink, 2, "u", note="y")
    put(sink, 2, "d")
    put(sink, 3, note="p")
    put(sink, 3, "u", note="q")
    put(sink, 4, "r", note="changes its key")
    put(sink, 4, "d")
    put(sink, 5, note="changes its key")
