"""A Filter in Kafka Connect drops rows that Debezium has counted: the transaction is waited for visibly, or given up visibly."""

import json
import secrets
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from side_by_side import PLAIN_JSON, Side, until
from translatorlab.poison import letters
from translatorlab.processes import StageProcess
from translatorlab.published import Published
from translatorlab.store import TABLES, create_store

from tidings_stack.connect import connector_settings

OPTIONS = {
    "provide.transaction.metadata": "true",
    "snapshot.mode": "no_data",
    "table.include.list": rf"public\.({'|'.join(TABLES)})",
    **PLAIN_JSON,
    "transforms": "drop",
    "transforms.drop.type": "io.debezium.transforms.Filter",
    "transforms.drop.language": "jsr223.groovy",
    "transforms.drop.condition": "value.after.number > 1",
    "transforms.drop.topic.regex": r".*\.payments",
}
WAITING = "tidings_sequencer_missing_rows_age_seconds "


@pytest.fixture
def debezium(connect_url: str, kafka_bootstrap: str, pg_database: str, unique_name: str) -> Iterator[Side]:
    """The store on Debezium that drops the first payment of each order."""
    create_store(pg_database, f"{unique_name}_order")
    side = Side(connect_url, f"d{secrets.token_hex(4)}", kafka_bootstrap)
    side.create(connector_settings(pg_database, **OPTIONS))
    query = "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = %s"
    streams = (
        "SELECT count(*) FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid"
        " WHERE slot_name = %s AND state = 'streaming'"
    )
    with psycopg.connect(pg_database, autocommit=True) as connection:
        until(
            "it streams", lambda: side.check() or connection.execute(streams, [side.base]).fetchone() == (1,)
        )
        yield side
        side.delete()
        until("it has let go", lambda: connection.execute(query, [side.base]).fetchone() == (0,))


def metric(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        [line] = [one for one in answer.read().decode().splitlines() if one.startswith(name)]
    return float(line.rpartition(" ")[2])


def logged(stage: StageProcess) -> list[dict[str, object]]:
    return [json.loads(line) for line in stage.log.read_bytes().splitlines() if line.startswith(b"{")]


@pytest.mark.turns
@pytest.mark.timeout(300)
def test_rows_that_debezium_drops_are_waited_for_visibly_or_given_up(
    debezium: Side, kafka_bootstrap: str, registry_url: str, pg_database: str, tmp_path: Path
) -> None:
    with psycopg.connect(pg_database) as connection:
        connection.execute("INSERT INTO customers (name) VALUES ('Ann')")
        connection.execute("INSERT INTO orders (customer_id, status) VALUES (1, 'placed')")
        connection.commit()
        connection.execute("INSERT INTO payments VALUES (1, 1, 5)")
        connection.execute("UPDATE orders SET status = 'waits'")
        connection.commit()
        connection.execute("INSERT INTO payments VALUES (1, 2, 7)")
        connection.execute("UPDATE orders SET status = 'paid'")
        connection.commit()
    settings = {
        "TIDINGS_KAFKA": kafka_bootstrap,
        "TIDINGS_REGISTRY": registry_url,
        "TIDINGS_SOURCE": debezium.base,
        "TIDINGS_LAB_NAME": debezium.base,
        "TIDINGS_MALFORMED_GRACE_SECONDS": "0.5",
        "TIDINGS_MISSING_ROWS_SECONDS": "1",
    }
    published = Published(kafka_bootstrap, debezium.base)
    translator = StageProcess("translator", "1", tmp_path, settings)
    waits = StageProcess("sequencer", "1", tmp_path, settings)
    gives_up = StageProcess("sequencer", "2", tmp_path, {**settings, "TIDINGS_ON_MISSING_ROWS": "give_up"})
    try:
        translator.start()
        waits.start()
        until("the first events", lambda: published.read() >= 3)
        until("it says so in /readyz", lambda: "1 rows of public.payments" in str(waits.ready()))
        [error] = [one for one in logged(waits) if one["event"] == "rows of a transaction are missing"]
        assert "although all partitions of its tables were read to the end" in str(error["waiting"])
        [url] = [str(one["url"]) for one in logged(waits) if one["event"] == "listening"]
        assert metric(url, WAITING) > 1
        assert published.read() == 3
        assert letters(kafka_bootstrap, f"tidings.{debezium.base}.") == set()
        waits.stop()
        gives_up.start()
        until("what follows", lambda: published.read() >= 4)
    finally:
        for stage in (translator, waits, gives_up):
            stage.stop()
    events = {event: by_order.get("1") for event, by_order in published.events.items() if by_order}
    assert set(events) == {"order-placed.v1", "order-placed.v2", "order-seen.v1", "status-changed.v1"}
    [changed] = events["status-changed.v1"] or []
    assert (changed["former"], changed["status"], str(changed["paid"])) == ("placed", "paid", "7.00")
    topics = {topic for topic, _, _ in letters(kafka_bootstrap, f"tidings.{debezium.base}.")}
    assert topics == {f"{debezium.base}.{name}" for name in ("transaction", "public.orders")}
