"""Traffic on a real PostgreSQL: what the summary says is what the tables hold."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import psycopg
import pytest

from tidings_shop import cli
from tidings_shop.database import TABLES, Outcome, ShopDatabase, create_database
from tidings_shop.errors import ShopError
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic, seed_shop
from tidings_shop.transactions import Insert, Kind, Ref, Transaction, Update

pytestmark = pytest.mark.stack

IMPOSSIBLE = """
    select 'no lines', o.id from orders o where not exists (select from order_items i where i.order_id = o.id)
    union all
    select 'payments', o.id from orders o
     where (o.status in ('paid', 'shipped')) <> ((select count(*) from payments p where p.order_id = o.id) = 1)
    union all
    select 'shipments', o.id from orders o
     where (o.status = 'shipped') <> ((select count(*) from shipments s where s.order_id = o.id) = 1)
    union all
    select 'amount', p.order_id from payments p
     where p.amount <> (select sum(round(quantity * unit_price * (1 - discount), 2))
                          from order_items i where i.order_id = p.order_id)
"""


@pytest.fixture
def shop(pg_database: str) -> Iterator[Any]:
    with ShopDatabase(pg_database) as database:
        database.ensure_schema()
        yield database


def traffic(database: ShopDatabase, count: int, *, seed: int = 4) -> TrafficSummary:
    summary = TrafficSummary(seed)
    run_traffic(database, prepare_plan(database, seed, rate=0), summary, count=count)
    return summary


def test_the_summary_is_what_the_tables_hold(shop: ShopDatabase, pg_database: str) -> None:
    before = {table: shop.count(table) for table in TABLES}
    assert before == dict.fromkeys(TABLES, 0)
    seeded = seed_shop(shop, 4, customers=20, products=30)
    summary = traffic(shop, 1_200)
    assert summary.not_committed.keys() == {"rolled_back"}
    assert summary.transactions + summary.not_committed.total() == 1_200
    for table in TABLES:
        grown = (
            seeded.rows[f"{table}.insert"] + summary.rows[f"{table}.insert"] - summary.rows[f"{table}.delete"]
        )
        assert shop.count(table) == grown, table
    with psycopg.connect(pg_database) as connection:
        assert connection.execute(IMPOSSIBLE).fetchall() == []
        orders = connection.execute("select count(*) from orders").fetchone()
        by_status = dict(connection.execute("select status, count(*) from orders group by 1").fetchall())
    assert orders == (summary.facts["OrderPlaced"],)
    assert by_status["cancelled"] == summary.facts["OrderCancelled"]
    assert by_status["shipped"] == summary.facts["OrderShipped"]
    assert by_status["paid"] + by_status["shipped"] == summary.facts["OrderPaid"]


def test_a_second_run_goes_on_with_what_is_there(shop: ShopDatabase) -> None:
    first, second = traffic(shop, 200), traffic(shop, 200)
    assert first.not_committed.keys() <= {"rolled_back"}
    assert second.not_committed.keys() <= {"rolled_back"}
    assert shop.count("orders") == first.facts["OrderPlaced"] + second.facts["OrderPlaced"]


def test_what_somebody_else_made_impossible_is_counted_and_never_half_done(
    shop: ShopDatabase, pg_database: str
) -> None:
    traffic(shop, 50)
    catalogue = shop.catalogue()
    shop.know(catalogue.ids())
    with psycopg.connect(pg_database, autocommit=True) as other:
        other.execute("delete from products where id = %s", (unordered_product(other),))
        gone = [n for n, known in enumerate(catalogue.products) if known not in shop.catalogue().products]
    orders, items = shop.count("orders"), shop.count("order_items")
    order, line = Ref("orders", 99), {"quantity": 1, "unit_price": 1}
    place = Transaction(
        Kind.ORDER_PLACED,
        (
            Insert("orders", {"customer_id": Ref("customers", 0)}, order),
            Insert(
                "order_items",
                {"order_id": order, "line_no": 1, "product_id": Ref("products", gone[0])} | line,
            ),
        ),
    )
    later = Transaction(Kind.ORDER_CANCELLED, (Update("orders", {"id": order}, {"status": "cancelled"}),))
    assert shop.apply(place).outcome is Outcome.CONFLICTED
    assert shop.apply(later).outcome is Outcome.SKIPPED
    assert (shop.count("orders"), shop.count("order_items")) == (orders, items)


def unordered_product(connection: psycopg.Connection) -> int:
    row = connection.execute(
        "select min(id) from products p where not exists (select from order_items i where i.product_id = p.id)"
    ).fetchone()
    assert row
    return row[0]


def test_a_transaction_that_rolls_back_leaves_nothing(shop: ShopDatabase) -> None:
    traffic(shop, 20)
    counts = {table: shop.count(table) for table in TABLES}
    plan = prepare_plan(shop, 9, rate=0)
    placed = next(t for t in plan if t.kind is Kind.ORDER_PLACED)
    assert shop.apply(replace(placed, rollback=True)).outcome is Outcome.ROLLED_BACK
    assert {table: shop.count(table) for table in TABLES} == counts


def test_traffic_keeps_its_rate_and_stops_when_told(shop: ShopDatabase) -> None:
    plan, stop, summary = prepare_plan(shop, 2, rate=100), threading.Event(), TrafficSummary(2)

    def stop_after_thirty(so_far: TrafficSummary) -> None:
        if so_far.transactions >= 30:
            stop.set()

    run_traffic(shop, plan, summary, rate=100, stop=stop, on_transaction=stop_after_thirty)
    assert summary.transactions == 30
    assert summary.seconds >= 0.29
    timed = TrafficSummary(2)
    run_traffic(shop, islice(plan, 1_000), timed, rate=100, seconds=0.5)
    assert 20 <= timed.transactions + timed.not_committed.total() <= 50


def test_the_schema_is_made_once_and_others_are_refused(pg_database: str) -> None:
    with ShopDatabase(pg_database) as database, psycopg.connect(pg_database, autocommit=True) as other:
        assert database.ensure_schema()
        assert not database.ensure_schema()
        other.execute("alter table customers add loyalty integer")
        assert not database.ensure_schema(), "a column that may be left out does no harm"
        other.execute("alter table customers add rank integer not null; alter table products drop weight_kg")
        other.execute("alter table orders alter currency type varchar(3)")
        with pytest.raises(ShopError) as refused:
            database.ensure_schema()
    message = str(refused.value)
    assert "customers.rank is not the shop's and needs a value" in message
    assert "products.weight_kg is missing" in message
    assert "orders.currency has another type" in message
    assert "loyalty" not in message


def test_a_database_with_some_other_customers_table_is_left_alone(pg_database: str) -> None:
    with psycopg.connect(pg_database, autocommit=True) as other:
        other.execute("create table customers (id serial primary key, name text)")
        assert cli.main(["traffic", "--database", pg_database, "--count", "5", "--no-progress"]) == 1
        tables = other.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert ("orders",) not in tables


def test_the_command_prints_its_summary_as_json(pg_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["traffic", "--database", pg_database, "--rate", "0", "--count", "60", "--seed", "5"]
    assert cli.main([*arguments, "--no-progress", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert sum(summary["committed"].values()) + sum(summary["not_committed"].values()) == 60
    assert summary["rows"]["orders.insert"] == summary["facts"]["OrderPlaced"]
    assert summary["seed"] == 5


def test_messages_name_the_database_and_never_the_password(
    pg_database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ShopError, match=r"cannot connect to the database shop on 127\.0\.0\.1:1") as refused:
        ShopDatabase("postgresql://someone:s3cret@127.0.0.1:1/shop")
    assert "s3cret" not in str(refused.value)
    with pytest.raises(ShopError, match="URL cannot be read") as unreadable:
        ShopDatabase("postgresql://someone:s3cret@[half/shop")
    assert "s3cret" not in str(unreadable.value)
    with pytest.raises(ShopError, match="already exists"):
        create_database(pg_database, "postgres")
    assert cli.main(["schema", "--database", "postgresql://someone:s3cret@127.0.0.1:1/shop"]) == 1
    printed = capsys.readouterr()
    assert "error:" in printed.err
    assert "hint:" in printed.err
    assert "s3cret" not in printed.err + printed.out


def test_a_slot_is_seen_with_the_wal_it_retains(
    shop: ShopDatabase, pg_database: str, unique_name: str
) -> None:
    assert shop.log_reader(unique_name) is None
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (unique_name,))
        traffic(shop, 50)
        state = shop.log_reader(unique_name)
        connection.execute("select pg_drop_replication_slot(%s)", (unique_name,))
    assert state is not None
    assert state.consistent
    assert not state.active
    assert state.retained_bytes >= state.unconfirmed_bytes > 10_000
