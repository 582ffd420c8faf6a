"""Change events on real topics become a log and the current state, whatever is repeated, late, changed or broken."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import order
from prometheus_client import REGISTRY

from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.table_counts import row_count, table_size


def local(*parts: int) -> dt.datetime:
    """A time without a zone, as timestamp_ntz is given."""
    return dt.datetime(*parts)  # type: ignore[misc, arg-type]  # noqa: DTZ001


if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PLACEHOLDER = "__debezium_unavailable_value"


def current(lake: Lake, orders: TableTopic, columns: str = "id, note") -> list[tuple[Any, ...]]:
    return lake.rows(f"select {columns} from {orders.table} order by id")


def logged(lake: Lake, orders: TableTopic) -> int:
    return int(lake.rows(f"select count(*) from {orders.table}_log")[0][0])


def test_rows_have_sql_types_and_the_log_has_everything(lake: Lake, orders: TableTopic) -> None:
    orders.change("r", order(1), None, 100, snapshot="first")
    orders.change("r", order(2), None, 100, snapshot="last")
    orders.change("u", order(1, "new"), 110, 120)
    orders.change("d", {"id": 2}, 125, 130)
    orders.topics.flush()
    lake.drain()
    row = (1, "placed", "new", Decimal("12.34"), dt.date(2022, 1, 8), local(2023, 11, 14, 22, 13, 20))
    assert current(lake, orders, "id, status, note, amount, required_on, updated_at") == [row]
    assert lake.rows(f"select cast(ordered_at as string) from {orders.table}") == [
        ("2024-01-01 00:00:00.123456",)
    ]
    assert lake.rows(
        f"select op, key.id, before.id, after.note, snapshot, last_commit_lsn, lsn from {orders.table}_log order by offset"
    ) == [
        ("r", 1, None, "n", True, None, 100),
        ("r", 2, None, "n", True, None, 100),
        ("u", 1, None, "new", False, 110, 120),
        ("d", 2, 2, None, False, 125, 130),
        (None, 2, None, None, None, None, None),
    ]
    assert lake.rows(
        f"select commit_lsn, newest_lsn from tidings.watermark where table_name = '{orders.table}'"
    ) == [(125, 130)]


def test_commits_say_which_batch_they_are_of(lake: Lake, orders: TableTopic) -> None:
    orders.change("c", order(1), 10, 20)
    orders.topics.flush()
    lake.drain()
    for table in (orders.table, f"{orders.table}_log"):
        marks = lake.rows(
            f"select summary['tidings.batch-id'], summary['tidings.offsets'] from {table}.snapshots"
            " where parent_id is not null"  # the first is the empty table's
        )
        assert marks == [("0", f'{{"{orders.topic}":{{"0":[0,0]}}}}')]


def test_truncate_removes_what_is_older_in_every_partition(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """Also what arrives with a later batch: partitions are not read in step."""
    from_many = topics.table(f"{unique_name}.public.t_{unique_name}", partitions=2)
    from_many.change("c", order(1), 10, 20)
    from_many.truncate(35, 40)
    topics.flush()
    lake.drain()
    from_many.change("c", order(2), 10, 21, partition=1)
    from_many.change("c", order(3), 45, 50, partition=1)
    topics.flush()
    lake.drain()
    assert current(lake, from_many) == [(3, "n")]
    from_many.change("c", order(4), 25, 30, partition=1)
    from_many.read_again(order(5), 55, 60, partition=1)
    topics.flush()
    lake.drain()
    assert current(lake, from_many) == [(3, "n"), (5, "n")]


def test_a_value_that_was_not_logged_of_a_row_that_the_table_lacks(
    lake: Lake, orders: TableTopic, topics: Topics
) -> None:
    """It is not null: the row is set aside until its values are known."""
    orders.change("u", order(1, PLACEHOLDER, status="paid"), 10, 20)
    orders.change("c", order(2), 25, 30)
    topics.produce(orders.topic, None, b"junk")
    topics.flush()
    lake.drain()
    assert current(lake, orders) == [(2, "n")]
    set_aside = (
        f"select offset, reason from tidings.quarantine where topic = '{orders.topic}' order by offset"
    )
    found = lake.rows(set_aside)
    assert [row[0] for row in found] == [0, 2]
    assert found[0][1].startswith(f"after.note: PostgreSQL did not log it, and {orders.table} has no row")
    orders.change("u", order(1, PLACEHOLDER, status="shipped"), 35, 40)
    orders.read_again(order(1, "read"), 45, 50)
    orders.change("u", order(1, PLACEHOLDER, status="cancelled"), 55, 60)
    topics.flush()
    lake.drain()
    assert current(lake, orders, "id, status, note") == [(1, "cancelled", "read"), (2, "placed", "n")]
    # A row that is there twice, as by somebody's hand, is there once when a change of it has come.
    lake.session.sql(f"insert into {orders.table} select * from {orders.table} where id = 1")
    orders.change("u", order(1, PLACEHOLDER, status="paid again"), 65, 70)
    topics.flush()
    lake.forget()
    lake.drain()
    assert current(lake, orders, "id, status, note") == [(1, "paid again", "read"), (2, "placed", "n")]
    assert lake.rows(set_aside) == found


def test_the_schema_evolves_with_the_topic(lake: Lake, orders: TableTopic) -> None:
    """Added, dropped and retyped columns, with old and new records in one batch."""
    orders.change("c", order(1), 10, 20)
    orders.topics.flush()
    lake.drain()
    orders.change("c", order(2, "old"), 25, 30)
    kept = [field for field in orders.fields if field["name"] not in {"note", "amount"}]
    orders.use(
        [
            *kept,
            {"name": "weight", "type": ["null", "double"], "default": None},
            {"name": "amount", "type": ["null", "string"], "default": None},
            {"name": "_pos", "type": ["null", "int"], "default": None},
        ]
    )
    row = {name: value for name, value in order(3).items() if name not in {"note", "amount"}}
    orders.change("c", {**row, "weight": 1.5, "amount": "a lot", "_pos": 7}, 35, 40)
    orders.topics.flush()
    lake.drain()
    assert current(lake, orders, "id, note, amount, weight, amount__string, _pos_column") == [
        (1, "n", Decimal("12.34"), None, None, None),
        (2, "old", Decimal("12.34"), None, None, None),
        (3, None, None, 1.5, "a lot", 7),
    ]
    assert lake.rows(
        f"select after.amount, after.amount__string from {orders.table}_log where key.id = 3"
    ) == [(None, "a lot")]
    told = REGISTRY.get_sample_value("tidings_lakehouse_possible_renames_total", {"table": orders.table})
    assert told == 1  # note went as weight came


def test_rows_from_before_a_column_have_its_default(lake: Lake, orders: TableTopic) -> None:
    """ADD COLUMN ... NOT NULL DEFAULT changes every row and logs none; the next record's schema tells it."""
    orders.change("c", order(1), 10, 20)
    orders.topics.flush()
    lake.drain()
    orders.change("c", order(2), 25, 30)
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    added = [
        {"name": "channel", "type": "string", "default": "o'w\\eb"},
        {"name": "price", "type": price, "default": "\u0004\u00d2"},
        {"name": "day", "type": day, "default": 19000},
        {"name": "later", "type": ["string", "null"], "default": "set later"},
    ]
    orders.use([*orders.fields, *added])
    new = {"channel": "shop", "price": Decimal("1.00"), "day": 19001, "later": None}
    orders.change("c", order(3, **new), 35, 40)
    orders.topics.flush()
    lake.drain_and_crash(f"log:{orders.table}_log")
    lake.drain()
    columns = "id, channel, price, cast(day as string), later"
    filled = ("o'w\\eb", Decimal("12.34"), "2022-01-08", None)
    row = (3, "shop", Decimal("1.00"), "2022-01-09", None)
    assert current(lake, orders, columns) == [(1, *filled), (2, *filled), row]
    assert lake.rows(f"select after.channel from {orders.table}_log order by offset") == [
        (None,),
        (None,),
        ("shop",),
    ]


@pytest.mark.parametrize("small", [0, 10_000], ids=["spark", "driver"])
def test_rows_from_before_a_column_of_another_type_have_no_default(
    lake: Lake, orders: TableTopic, small: int
) -> None:
    """They may have been converted, which nobody tells; a column of a new name that comes with it has its default."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_small_records": small})
    orders.topics.allow_any(f"{orders.topic}-value")
    orders.change("c", order(1), 10, 20)
    orders.topics.flush()
    lake.drain()
    orders.change("c", order(2, amount=None, note=None), 25, 30)
    others = {
        "amount": {"name": "amount", "type": "string", "default": "none"},
        "note": {"name": "note", "type": "long", "default": 7},
    }
    added = {"name": "channel", "type": "string", "default": "web"}
    orders.use([*(others.get(field["name"], field) for field in orders.fields), added])
    orders.change("c", order(3, amount="a lot", note=8, channel="shop"), 35, 40)
    orders.topics.flush()
    lake.drain()
    orders.change("u", order(3, amount="more", note=9, channel="shop"), 45, 50)
    orders.topics.flush()
    lake.drain()
    assert current(lake, orders, "id, amount, amount__string, note, note__bigint, channel") == [
        (1, Decimal("12.34"), None, "n", None, "web"),
        (2, None, None, None, None, "web"),
        (3, None, "more", None, 9, "shop"),
    ]


def test_what_cannot_be_decoded_is_set_aside(lake: Lake, orders: TableTopic, topics: Topics) -> None:
    """...with its place, its reason and its bytes; the batch goes on."""
    other = topics.register(
        f"other-{orders.topic}",
        {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "long"}]},
    )
    good = orders.encoded(order(1), 10, 20)
    bad: list[tuple[bytes | None, bytes, str]] = [
        (None, b"junk", "value: neither in the wire format"),
        (None, b' {"op": "c"}', "value: JSON without a schema"),
        (None, b"\0\xff\xff\xff\xff\x02", "value: schema 4294967295 is not in the registry"),
        (None, good[1][:20], f"value: the bytes do not fit schema {orders.value_id}"),
        (
            None,
            topics.encode(other, {"x": 1}),
            f"value: schema {other} is not that of a change event of PostgreSQL, MariaDB or MySQL",
        ),
        (b"junk key", good[1], "key: neither in the wire format"),
    ]
    topics.produce(orders.topic, *good)
    for key, value, _ in bad:
        topics.produce(orders.topic, key, value)
    orders.change("c", order(2), 25, 30)
    topics.flush()
    lake.drain()
    assert current(lake, orders, "id") == [(1,), (2,)]
    set_aside = f"select partition, offset, reason, key, value from tidings.quarantine where topic = '{orders.topic}' order by offset"
    found = lake.rows(set_aside)
    assert [(row[0], row[1], row[3], row[4]) for row in found] == [
        (0, number, key, value) for number, (key, value, _) in enumerate(bad, start=1)
    ]
    for row, (_, _, reason) in zip(found, bad, strict=True):
        assert row[2].startswith(reason)
    lake.forget()
    lake.drain()
    assert lake.rows(set_aside) == found


POINTS = [
    "survey",
    "staged:{table}_log",
    "log:{table}_log",
    "staged:{table}",
    "current:{table}",
    "quarantine",
    "watermark",
    "batch:technical",
]


@pytest.mark.usefixtures("size")
def test_crashes_behind_every_write_lose_and_repeat_nothing(lake: Lake, orders: TableTopic) -> None:
    """The job dies behind one write after the other; what it wrote before is there when it starts again."""
    _changes(orders)
    for point in POINTS:
        lake.drain_and_crash(point.format(table=orders.table))
    lake.drain()
    _verify(lake, orders)


def test_a_deleted_checkpoint_loses_and_repeats_nothing(lake: Lake, orders: TableTopic) -> None:
    _changes(orders)
    lake.drain_and_crash(f"current:{orders.table}")
    lake.forget()
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 4})
    lake.drain()
    _verify(lake, orders)


def test_a_topic_made_again_is_another_topic(lake: Lake, orders: TableTopic, topics: Topics) -> None:
    """Its offsets start at 0 again, so the guard knows it by its id."""
    _changes(orders)
    lake.drain()
    topics.delete(orders.topic)
    topics.recreate(orders.topic)
    orders.change("c", order(7), 500, 510)
    topics.flush()
    lake.forget()
    lake.drain()
    assert current(lake, orders, "id") == [(1,), (3,), (7,)]
    assert logged(lake, orders) == 7


def test_partitions_are_guarded_each_for_itself(lake: Lake, topics: Topics, unique_name: str) -> None:
    from_many = topics.table(f"{unique_name}.public.m_{unique_name}", partitions=3)
    for number in range(9):
        from_many.change("c", order(number), 10, 20 + number, partition=number % 3)
    topics.flush()
    lake.drain_and_crash(f"log:{from_many.table}_log")
    from_many.change("c", order(9), 30, 40, partition=2)
    topics.flush()
    lake.forget()
    lake.drain()
    assert logged(lake, from_many) == 10
    assert lake.rows(f"select count(*), count(distinct id) from {from_many.table}") == [(10, 10)]


def test_compaction_changes_no_row(lake: Lake, orders: TableTopic) -> None:
    """Small files and delete files go, rows and the guard stay."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 2})
    _changes(orders)
    lake.drain()
    maintenance = Maintenance(
        lake.session, Commits(lake.session), commits=1, keep_snapshots=1, keep_seconds=0
    )
    log = f"{orders.table}_log"
    maintenance.after([log, orders.table])
    assert maintenance.due() == [log, orders.table] or maintenance.due() == [orders.table, log]
    with _without_catalog(lake):
        maintenance.run_due()
    assert maintenance.due() == []
    again = Maintenance(lake.session, Commits(lake.session), commits=1, keep_snapshots=1, keep_seconds=0)
    again.after([log])
    assert again.due() == []  # a job that begins knows when the table was looked after
    for table, rows in ((orders.table, 2), (log, 6)):
        assert lake.rows(f"select count(*) from {table}.snapshots") == [(1,)]
        assert lake.rows(f"select count(*) from {table}.delete_files") == [(0,)]
        assert row_count(lake.session, table) == rows
    lake.forget()
    lake.drain()
    _verify(lake, orders)


def test_a_job_starts_in_a_thread_that_had_another_session(lake: Lake, orders: TableTopic) -> None:
    """Its own session has not asked for the catalog yet."""
    _changes(orders)
    lake.drain()
    lake.session = lake.session.newSession()
    job = lake.job()
    with _without_catalog(lake):
        try:
            job.start()
        finally:
            job.stop()
    assert job.counts.snapshot()[orders.table] == 2


@contextmanager
def _without_catalog(lake: Lake) -> Iterator[None]:
    """The session that the thread has in Java knows no catalog: whichever it had last may be anybody's."""
    stranger = lake.session.newSession()
    for name in ("spark.sql.defaultCatalog", "spark.sql.catalog.lake"):
        stranger.conf.unset(name)
    jvm: Any = lake.session.sparkContext._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(stranger._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(lake.session._jsparkSession)


def test_rows_are_counted_without_reading_them(lake: Lake, orders: TableTopic) -> None:
    _changes(orders)
    lake.drain()
    orders.change("d", {"id": 1}, 45, 50)
    orders.topics.flush()
    lake.drain()
    assert row_count(lake.session, orders.table) == 1
    assert row_count(lake.session, f"{orders.table}_log") == 8


def test_rows_are_counted_where_a_truncate_took_a_file_and_left_its_marks(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """The mark of a deleted row outlives its data file while an older file stays, and counts no row."""
    from_many = topics.table(f"{unique_name}.public.t_{unique_name}", partitions=2)
    for what, number, commit, partition in (
        ("c", 9, 65, 1),
        ("c", 1, 10, 0),
        ("c", 2, 15, 0),
        ("d", 1, 45, 0),
    ):
        value = order(number) if what == "c" else {"id": number}
        from_many.change(what, value, commit, commit + 5, partition=partition)
        topics.flush()
        if number != 1 or what == "d":
            lake.drain()
    from_many.truncate(55, 60)
    topics.flush()
    lake.drain()
    assert current(lake, from_many) == [(9, "n")]
    size = table_size(lake.session, from_many.table)
    assert (size.rows, size.deleted_rows) == (1, 0)


def _changes(orders: TableTopic) -> None:
    for number in (1, 2, 3):
        orders.change("c", order(number, "first"), 10, 20 + number)
    orders.change("u", order(1, "second"), 25, 30)
    orders.change("d", {"id": 2}, 35, 40)
    orders.topics.produce(orders.topic, None, b"junk")
    orders.topics.flush()


def _verify(lake: Lake, orders: TableTopic) -> None:
    assert current(lake, orders) == [(1, "second"), (3, "first")]
    assert lake.rows(f"select count(*), count(distinct offset) from {orders.table}_log") == [(6, 6)]
    assert lake.rows(f"select count(*) from tidings.quarantine where topic = '{orders.topic}'") == [(1,)]
