"""Snapshots of Debezium, and of capture, while customers are busy: every event is there once, as SQL tells it.

Debezium's blocking ones read rows ahead of the stream, and transactions between are told after them. Capture comes to the
rows' position first. At a restart, with ``snapshot.mode=always`` or when the first snapshot was interrupted, capture does the
same, and Debezium's stream begins anew: there is nothing of what was committed before, and of what was committed while the
snapshot was read there are no events, but all others are right.
"""

import json
import random
import secrets
from collections.abc import Iterator

import msgspec
import psycopg
import pytest
from plans.in_memory import InMemory, everything
from side_by_side import PLAIN_JSON, Side, rest, until
from translatorlab.store import TABLES, Customers, create_store
from translatorlab.truth import count, expected_events

from tidings_domain import load_domain
from tidings_envelope.headers.as_of import as_of
from tidings_stack.connect import connector_settings

OPTIONS = {
    "provide.transaction.metadata": "true",
    "table.include.list": rf"public\.({'|'.join(TABLES)}|signals)",
    "signal.data.collection": "public.signals",
    **PLAIN_JSON,
}
Sides = tuple[Side, Side]
SNAPSHOT_SECONDS = 180


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


def streamed(side: Side, since: int = 0) -> set[int]:
    """The ids of the transactions that a side has told of, which were committed behind a position."""
    records = side.records[f"{side.base}.transaction", 0]
    ends = [json.loads(value) for _, value, _ in records if value and b'"END"' in value]
    ids = (end["id"].split(":") for end in ends)
    return {int(txid) for txid, lsn in ids if int(lsn) > since}


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


def check_events(side: Side, url: str, slot: str, registry: str, seed: int, since: int = 0) -> InMemory:
    """The events of all transactions that a side has told of, behind a position, are there, once, and no others; silent ones have
    none."""
    domain = load_domain("translatorlab.domain")
    # SQL's history says nothing of what the rules say which speak about a snapshot's rows.
    domain = msgspec.structs.replace(domain, rules=tuple(rule for rule in domain.rules if not rule.snapshot))
    told = everything(domain, side, registry, seed, since)
    truth = expected_events(url, slot, streamed(side, since) - told.silent)
    want = {event: found for event, found in truth.items() if found and event != "order-seen.v1"}
    assert told.snapshot_rows > 20
    assert told.events == want, side.base
    assert told.lost == set() or told.beginnings
    assert len(set(told.ids)) == len(told.ids) == count(want) > 100
    return told


def stop(side: Side) -> None:
    """Stop the connector, and wait until its task is gone."""
    assert rest(f"{side.url}/connectors/{side.base}/stop", "PUT")[0] in {202, 204}

    def stopped() -> bool:
        _, status = rest(f"{side.url}/connectors/{side.base}/status")
        return status["connector"]["state"] == "STOPPED" and not status["tasks"]

    until(f"{side.base} has stopped", stopped)


def resume(side: Side, config: dict[str, str] | None = None) -> None:
    """Let the connector go on, with another configuration if one is given."""
    if config is not None:
        own = {name: value.replace("{base}", side.base) for name, value in config.items()}
        assert rest(f"{side.url}/connectors/{side.base}/config", "PUT", own)[0] == 200
    assert rest(f"{side.url}/connectors/{side.base}/resume", "PUT")[0] in {202, 204}


def check_restart(sides: Sides, url: str, slot: str, registry: str, seed: int, since: int = 0) -> None:
    """After a snapshot at a restart: capture has told everything, and of Debezium it is known what it has not.

    Args:
        since: of capture only what was committed behind this is looked at.
    """
    for side in sides:
        caught_up(side, url)
    debezium = check_events(sides[0], url, slot, registry, seed)
    capture = check_events(sides[1], url, slot, registry, seed, since)
    assert (capture.beginnings, capture.silent, capture.lost) == ([], set(), set())
    # At most the one that was under way when it was stopped, of which it never tells the rest.
    assert len(debezium.lost) <= 1
    assert not debezium.lost & streamed(sides[0])
    assert len(debezium.beginnings) == 1
    assert 0 < len(debezium.silent) < len(streamed(sides[0])) - 100


def aged(side: Side, url: str) -> None:
    """Wait until what is committed now is certainly newer than the last snapshot's rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        read_ms = max(
            json.loads(value)["ts_ms"]
            for records in side.records.values()
            for _, value, _ in records
            if value and b'"op":"r"' in value
        )
        now = "SELECT extract(epoch FROM clock_timestamp()) * 1000 > %s"
        until("two seconds more", lambda: connection.execute(now, [read_ms + 2_100]).fetchone() == (True,))


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
        # Else a quick machine leaves the snapshot's rows waiting for what is committed behind them.
        aged(side, pg_database)
        caught_up(side, pg_database)
        assert found(side, b'"END"') > 300
        check_events(side, pg_database, order_slot, registry_url, seed)


@pytest.mark.timeout(600)
def test_a_snapshot_at_every_start_among_transactions(
    sides: Sides, pg_database: str, order_slot: str, registry_url: str, seed: int
) -> None:
    start(sides, pg_database, **{"snapshot.mode": "always"})
    for side in sides:
        until("it streams", lambda side=side: streams(side, pg_database))
    with Customers(pg_database, seed, pause=0.01, big=0.01) as customers:
        more(customers, 50)
        for side in sides:
            stop(side)
        more(customers, 50)
        former = [found(side, b'"snapshot":"last"') for side in sides]
        for side in sides:
            resume(side)
        for side, count_ in zip(sides, former, strict=True):
            until("a snapshot", lambda s=side, n=count_: found(s, b'"snapshot":"last"') > n, SNAPSHOT_SECONDS)
        for side in sides:
            aged(side, pg_database)
        more(customers, 150)
    check_restart(sides, pg_database, order_slot, registry_url, seed)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_interrupted_first_snapshot_among_transactions(
    sides: Sides, pg_database: str, order_slot: str, registry_url: str, seed: int
) -> None:
    include = OPTIONS["table.include.list"].replace("signals", "signals|elsewhere")
    config = connector_settings(pg_database, **{**OPTIONS, "table.include.list": include})
    table = "public.items"  # which is read after that of the customers
    override = "snapshot.select.statement.overrides"

    def taking(seconds: float) -> dict[str, str]:
        return {override: table, f"{override}.{table}": f"SELECT i.* FROM {table} i, pg_sleep({seconds})"}

    with Customers(pg_database, seed, pause=0.01, big=0.01) as customers:
        more(customers, 50)
        with psycopg.connect(
            pg_database
        ) as connection:  # the last row of a table is held back until there is another one
            connection.execute("INSERT INTO elsewhere (what) VALUES ('one'), ('two'), ('three')")
        # Debezium's transaction has an id here, and would be waited for by a slot that begins later.
        for side in reversed(sides):
            side.create(config | taking(600))
            until(
                f"first rows of {side.base}",
                lambda s=side: s.check() or found(s, b'"table":"elsewhere"'),
                SNAPSHOT_SECONDS,
            )
        for side in sides:
            assert rest(f"{side.url}/connectors/{side.base}/stop", "PUT")[0] in {202, 204}
        with psycopg.connect(pg_database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query LIKE '%pg_sleep(600)%' AND pid <> pg_backend_pid()"
            )
        for side in sides:
            stop(side)
        more(customers, 50)
        for side in sides:
            assert found(side, b'"snapshot":"last"') == 0
            resume(side, config | taking(0.5))  # so that customers come while it reads
        for side in sides:
            until("a snapshot", lambda s=side: s.check() or found(s, b'"snapshot":"last"'), SNAPSHOT_SECONDS)
        for side in sides:
            aged(side, pg_database)
        more(customers, 150)
    for side in sides:
        caught_up(side, pg_database)
    # Between its slot's beginning and what the second snapshot read, it tells of orders that nobody has read yet.
    read = max(as_of(headers) or 0 for found in sides[1].records.values() for _, _, headers in found)
    capture = check_events(sides[1], pg_database, order_slot, registry_url, seed, read)
    assert (capture.beginnings, capture.silent, capture.lost) == ([], set(), set())
    told = check_events(sides[0], pg_database, order_slot, registry_url, seed)
    assert len(told.beginnings) == 1
    assert 0 < len(told.silent) < len(streamed(sides[0])) - 100
