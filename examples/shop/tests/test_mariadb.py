"""The shop on MariaDB and MySQL: the same plan makes the same rows as on PostgreSQL, and what is refused is refused without values."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.binlog.gtid_set import GtidSet
from tidings_capture.mysql.binlog.position import LogPosition
from tidings_capture.mysql.client import BinlogStream, Endpoint
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.flavours.mysql import MYSQL
from tidings_shop import cli
from tidings_shop.database import TABLES, Outcome, ShopDatabase, create_database
from tidings_shop.demo.checks import compare_table
from tidings_shop.errors import ShopError
from tidings_shop.mariadb import MariaDbSession
from tidings_shop.traffic import TrafficSummary, prepare_plan, run_traffic, seed_shop
from tidings_shop.transactions import NOW, Insert, Kind, Ref, Transaction, Update
from tidings_stack.mariadb import MariaDbServer, MySqlLikeServer
from tidings_stack.waiting import wait_for

MOMENTS = {"created_at", "ordered_at", "updated_at", "paid_at", "shipped_at"}


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> MySqlLikeServer:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, MySqlLikeServer)
    return found


@pytest.fixture
def url(server: MySqlLikeServer, unique_name: str) -> Iterator[str]:
    yield create_database(server.url, unique_name)
    run(server.url, f"drop database {unique_name}")


def end_of_log(server: MySqlLikeServer) -> str:
    variable = "gtid_binlog_pos" if isinstance(server, MariaDbServer) else "global.gtid_executed"
    ((text,),) = run(server.url, f"select @@{variable}")
    return str(text)


@pytest.fixture
def shop(url: str) -> Iterator[ShopDatabase]:
    with ShopDatabase(url) as database:
        database.ensure_schema()
        yield database


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    session = MariaDbSession(url)
    try:
        return list(session.execute(statement).rows)
    finally:
        session.close()


@contextmanager
def held(url: str, statement: str) -> Iterator[None]:
    """Rows that somebody else holds."""
    session = MariaDbSession(url)
    try:
        with session.transaction(rollback=True):
            session.execute(statement)
            yield
    finally:
        session.close()


def traffic(database: ShopDatabase, count: int) -> TrafficSummary:
    """Seed and traffic of seed 4."""
    seed_shop(database, 4, customers=20, products=30)
    summary = TrafficSummary(4)
    run_traffic(database, prepare_plan(database, 4, rate=0), summary, count=count)
    return summary


def rows(database: ShopDatabase, table: str) -> list[dict[str, object]]:
    return [
        {name: value for name, value in row.items() if name not in MOMENTS} for row in database.rows(table)
    ]


def test_the_same_plan_makes_the_same_rows_and_facts(
    shop: ShopDatabase, server: MySqlLikeServer, pg_database: str
) -> None:
    with ShopDatabase(pg_database) as other:
        other.ensure_schema()
        # PostgreSQL counts on behind a transaction that is rolled back, and MariaDB does, too.
        there, here = traffic(other, 400), traffic(shop, 400)
        assert here.not_committed == there.not_committed
        assert here.committed == there.committed
        assert here.facts == there.facts
        assert {
            table: compare_table(table, rows(other, table), rows(shop, table)).problem for table in TABLES
        } == (dict.fromkeys(TABLES))
        for table in TABLES:
            assert shop.count(table) == other.count(table) > 0
        if not isinstance(server, MariaDbServer):  # it keeps the content of JSON, and writes it its own way
            ours, theirs = rows(shop, "products"), rows(other, "products")
            assert compare_table("products", ours, theirs).problem is None


def test_moments_are_utc_to_the_microsecond(shop: ShopDatabase, url: str) -> None:
    traffic(shop, 20)
    away = "abs(timestampdiff(second, {}, utc_timestamp(6))) > 60 or {} is null"
    columns = {"customers": "created_at", "orders": "updated_at", "payments": "paid_at"}
    for table, column in columns.items():
        found = run(url, f"select count(*) from {table} where {away.format(column, column)}")
        assert found == [(0,)], table
    ((order,),) = run(url, "select min(id) from orders")
    assert isinstance(order, int)
    seen = set()
    for _ in range(4):
        shop.apply(Transaction(Kind.ORDER_CORRECTED, (Update("orders", {"id": order}, {"updated_at": NOW}),)))
        seen |= set(run(url, f"select microsecond(updated_at) from orders where id = {order}"))
    assert len(seen) > 1


def test_what_somebody_else_made_impossible_is_counted_and_never_half_done(
    shop: ShopDatabase, url: str
) -> None:
    seed_shop(shop, 4, customers=2, products=2)
    shop.know(shop.catalogue().ids())
    run(url, "delete from products limit 1")
    order = Ref("orders", 99)
    line = {"line_no": 1, "product_id": Ref("products", 0), "quantity": 1, "unit_price": 1}
    place = Transaction(
        Kind.ORDER_PLACED,
        (
            Insert("orders", {"customer_id": Ref("customers", 0)}, order),
            Insert("order_items", {"order_id": order, **line}),
        ),
    )
    later = Transaction(Kind.ORDER_CANCELLED, (Update("orders", {"id": order}, {"status": "cancelled"}),))
    assert shop.apply(place).outcome is Outcome.CONFLICTED
    assert shop.apply(later).outcome is Outcome.SKIPPED
    assert (shop.count("orders"), shop.count("order_items")) == (0, 0)
    with held(url, "select * from customers for update"):
        touch = Transaction(
            Kind.CUSTOMER_CHANGED, (Update("customers", {"id": Ref("customers", 0)}, {"city": "Ulm"}),)
        )
        with ShopDatabase(url) as waiting:
            waiting._session.execute("set session innodb_lock_wait_timeout = 1")
            waiting.know(waiting.catalogue().ids())
            assert waiting.apply(touch).outcome is Outcome.CONFLICTED
            assert waiting.count("customers") == 2, "the connection goes on"


def test_the_schema_is_made_once_and_others_are_refused(url: str, server: MySqlLikeServer) -> None:
    with ShopDatabase(url) as database:
        assert database.ensure_schema()
        before = end_of_log(server)
        assert not database.ensure_schema()
        assert end_of_log(server) == before, "the comparison is not logged"
        run(url, "alter table customers add loyalty integer")
        assert not database.ensure_schema(), "a column that may be left out does no harm"
        run(url, "alter table customers add `rank` integer not null")
        run(url, "alter table products drop weight_kg")
        run(url, "alter table orders modify currency varchar(3) not null default 'EUR'")
        with pytest.raises(ShopError) as refused:
            database.ensure_schema()
        assert len(database.rows("customers")) == 0, "the table itself is seen again"
    message = str(refused.value)
    assert "customers.rank is not the shop's and needs a value" in message
    assert "products.weight_kg is missing" in message
    assert "orders.currency has another type" in message
    assert "loyalty" not in message


def test_messages_name_the_database_and_never_a_password_or_a_value(
    shop: ShopDatabase, url: str, server: MySqlLikeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for scheme in ("mysql", "mariadb"):
        with pytest.raises(ShopError, match=r"cannot connect to the database shop on 127\.0\.0\.1:1") as off:
            ShopDatabase(f"{scheme}://someone:s3cret@127.0.0.1:1/shop")
        assert "s3cret" not in str(off.value)
    with pytest.raises(ShopError, match="URL cannot be read"):
        ShopDatabase("mysql://someone:s3cret@[half/shop")
    with pytest.raises(ShopError, match="Access denied") as denied:
        ShopDatabase(f"mysql://someone:s3cret@127.0.0.1:{server.port}/shop")
    assert "s3cret" not in str(denied.value)
    with pytest.raises(ShopError, match="database exists"):
        create_database(server.url, url.rpartition("/")[2])
    assert cli.main(["schema", "--database", server.url]) == 1
    assert "No database selected" in capsys.readouterr().err
    wrong = Transaction(Kind.CUSTOMER_CHANGED, (Insert("orders", {"customer_id": 1, "status": "s3cret"}),))
    with pytest.raises(
        ShopError, match="refuses to execute a transaction: the server's error 1265"
    ) as refused:
        shop.apply(wrong)
    assert "s3cret" not in str(refused.value)


def test_a_lost_connection_is_told_as_one(shop: ShopDatabase, url: str) -> None:
    seed_shop(shop, 4, customers=20, products=30)
    transaction = next(prepare_plan(shop, 4, rate=0))
    ((number,),) = run(
        url, "select id from information_schema.processlist where db = database() and id <> connection_id()"
    )
    run(url, f"kill {number}")
    with pytest.raises(ShopError, match="lost the database"):
        shop.apply(transaction)


def test_who_reads_the_log_is_seen(shop: ShopDatabase, server: MySqlLikeServer) -> None:
    end = end_of_log(server)
    flavour: Flavour
    at: LogPosition
    if isinstance(server, MariaDbServer):
        flavour, at = MARIADB, GtidPosition.read(end)
    else:
        flavour, at = MYSQL, GtidSet.read(end)
    endpoint = Endpoint("127.0.0.1", server.port, "admin", server.password)
    request = flavour.request(at, 90_077, annotations=False, heartbeat_seconds=1)
    stream = BinlogStream(endpoint, request)
    try:
        wait_for("the stream", lambda: shop.log_reader("") is not None)
        reader = shop.log_reader("")
    finally:
        stream.close()
    assert reader is not None
    assert reader.consistent
    assert reader.retained_bytes > 300
    assert reader.unconfirmed_bytes is None
