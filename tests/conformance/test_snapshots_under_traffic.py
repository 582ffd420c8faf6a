"""Blocking snapshots of Debezium, and of capture, while customers are busy: every event is there once, as SQL tells it.

Debezium's reads rows ahead of its stream, and tells the transactions between after them. Capture comes to the rows' position
first.
"""

import json
import random
import secrets
from collections.abc import Iterator

import psycopg
import pytest
from in_memory import everything
from side_by_side import Side, until
from translatorlab.store import TABLES, Customers, create_store
from translatorlab.truth import count, expected_events

from tidings_stack.connect import connector_settings
from tidings_translator.domain import load_domain

JSON = "org.apache.kafka.connect.json.JsonConverter"
OPTIONS = {
    "provide.transaction.metadata": "true",
    "table.include.list": rf"public\.({'|'.join(TABLES)}|signals)",
    "signal.data.collection": "public.signals",
    "decimal.handling.mode": "string",
    "key.converter": JSON,
    "value.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "poll.interval.ms": "20",
    "topic.prefix": "{base}",
    "slot.name": "{base}",
    "publication.name": "{base}",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}
Sides = tuple[Side, Side]


@pytest.fixture
def seed() -> int:
    chosen = random.SystemRandom().randrange(1 << 32)
    print("seed", chosen)
    return chosen


@pytest.fixture
def order_slot(pg_database: str, unique_name: str) -> str:
    """The store is there, and a slot that remembers the order of commits."""
    create_store(pg_database, f"{unique_name}_order")
    return f"{unique_name}_order"


@pytest.fixture
def sides(connect_url: str, worker_url: str, kafka_bootstrap: str, pg_database: str) -> Iterator[Sides]:
    """Debezium and capture."""
    token = secrets.token_hex(4)
    made = Side(connect_url, f"d{token}", kafka_bootstrap), Side(worker_url, f"t{token}", kafka_bootstrap)
    yield made
    for side in made:
        side.delete()
    slots = [side.base for side in made]
    busy = "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = ANY(%s)"
    with psycopg.connect(pg_database, autocommit=True) as connection:
        until("both have let go", lambda: connection.execute(busy, [slots]).fetchone() == (0,))


def start(sides: Sides, url: str, **options: str) -> None:
    for side in sides:
        side.create(connector_settings(url, **OPTIONS, **options))


def found(side: Side, what: bytes) -> int:
    """How many records have something in them."""
    side.read()
    return sum(what in (value or b"") for records in side.records.values() for _, value, _ in records)


def streamed(side: Side) -> set[int]:
    """The ids of the transactions that a side has told of."""
    records = side.records[f"{side.base}.transaction", 0]
    ends = [json.loads(value) for _, value, _ in records if value and b'"END"' in value]
    return {int(end["id"].partition(":")[0]) for end in ends}


def more(customers: Customers, transactions: int) -> None:
    """Wait until so many more transactions were committed."""
    done = customers.transactions
    until("customers to have been there", lambda: customers.transactions >= done + transactions)


def caught_up(side: Side, url: str) -> None:
    """Wait until a side has told of a transaction that is committed now."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO signals VALUES (%s, 'nothing', NULL) RETURNING pg_current_xact_id()::xid::text::bigint",
            (secrets.token_hex(4),),
        ).fetchone()
    assert row is not None

    def told() -> bool:
        side.read()
        side.check()
        return row[0] in streamed(side)

    until(f"{side.base} has come to the end", told)


def streams(side: Side, url: str) -> bool:
    """Whether nothing is missed that is committed from now on."""
    side.check()
    streaming = (
        "SELECT count(*) FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid"
        " WHERE slot_name = %s AND state IN ('catchup', 'streaming')"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(streaming, [side.base]).fetchone() == (1,)


def check_events(side: Side, url: str, slot: str, registry: str, seed: int) -> None:
    """The events of all transactions that a side has told of are there, once, and no others."""
    domain = load_domain("translatorlab.domain")
    told = everything(domain, side, registry, seed)
    truth = expected_events(url, slot, streamed(side))
    want = {event: by_order for event, by_order in truth.items() if by_order}
    assert told.snapshot_rows > 20
    assert told.events == want, side.base
    assert len(set(told.ids)) == len(told.ids) == count(want) > 100


@pytest.mark.timeout(600)
def test_a_blocking_snapshot_among_transactions(
    sides: Sides, pg_database: str, order_slot: str, registry_url: str, seed: int
) -> None:
    start(sides, pg_database, **{"snapshot.mode": "no_data"})
    for side in sides:
        until("it streams", lambda side=side: streams(side, pg_database))
    tables = ", ".join(f'"public.{table}"' for table in TABLES)
    with Customers(pg_database, seed, pause=0.01, big=0.01) as customers:
        for number in (1, 2):
            more(customers, 100)
            with psycopg.connect(pg_database, autocommit=True) as connection:
                connection.execute(
                    "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)",
                    (secrets.token_hex(4), f'{{"type": "blocking", "data-collections": [{tables}]}}'),
                )
            for side in sides:
                until("a snapshot", lambda s=side, n=number: found(s, b'"snapshot":"last"') >= n)
        more(customers, 100)
    for side in sides:
        caught_up(side, pg_database)
        assert found(side, b'"END"') > 300
        check_events(side, pg_database, order_slot, registry_url, seed)
