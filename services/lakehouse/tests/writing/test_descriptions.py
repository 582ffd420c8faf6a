"""What a table's metadata say of its columns: identifier fields, what may not be null, comments; all follow the source's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lakelab.rows import order
from lakelab.schemas import ORDERS
from pyiceberg.table import StaticTable

from tidings_lakehouse.catalogs.catalog import locations
from tidings_lakehouse.decoding.never_null import PROPERTY
from tidings_lakehouse.reading import look
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.writing.topic_decoders import RECORD

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

REQUIRED: list[dict[str, Any]] = [
    {"name": "note", "type": "string"} if one["name"] == "note" else one for one in ORDERS
]
"""`orders` with a note that may not be null."""


def described(reader: WarehouseSettings, table: str) -> tuple[set[str], set[str], dict[str, str]]:
    """What pyiceberg sees: identifier fields, columns that are required, comments by path with the table's by ""."""
    found = StaticTable.from_metadata(locations(reader)[table])
    schema = found.schema()
    fields = [schema.find_field(id_) for id_ in schema.field_ids]
    comments = {schema.find_column_name(one.field_id) or "": one.doc for one in fields if one.doc}
    if "comment" in found.properties:
        comments[""] = found.properties["comment"]
    return set(schema.identifier_field_names()), {one.name for one in schema.fields if one.required}, comments


def commented(fields: list[dict[str, Any]], **comments: str) -> list[dict[str, Any]]:
    """Fields with comments as AvroConverter writes them, those of types as those of fields."""
    found = []
    for one in fields:
        kind, text = one["type"], comments.get(one["name"])
        if text is not None and isinstance(kind, list):
            inner = kind[1] if isinstance(kind[1], dict) else {"type": kind[1]}
            kind = ["null", {**inner, "connect.doc": text}]
        elif text is not None:
            kind = {"type": kind, "connect.doc": text}
        found.append({**one, "type": kind})
    return found


@pytest.fixture
def required(topics: Topics, unique_name: str) -> TableTopic:
    """A topic of `REQUIRED`: the registry lets fields become optional, and not the other way round."""
    return topics.table(f"{unique_name}.public.r_{unique_name}", REQUIRED)


def put(lake: Lake, orders: TableTopic, *numbers: int, **more: Any) -> None:
    """Rows of a batch of their own."""
    for number in numbers:
        orders.change("c", order(number, **more), 10 * number, 10 * number + 5)
    orders.topics.flush()
    lake.drain()


@pytest.mark.usefixtures("size")
def test_required_columns_follow_the_source(
    lake: Lake, required: TableTopic, reader: WarehouseSettings
) -> None:
    """A key identifies a row; a column that the source lets be null is null from then on, and stays so."""
    orders = required
    put(lake, orders, 1, 2)
    assert described(reader, orders.table) == ({"id"}, {"id", "note"}, {})
    record = {"topic_id", "partition", "offset"}
    assert described(reader, f"{orders.table}_log") == (record, record, {})
    orders.change("d", {"id": 1, "note": ""}, 90, 95)  # with the key only
    orders.topics.produce(orders.topic, b"", b"no record")
    put(lake, orders, 10)
    aside = lake.rows(f"SELECT count(*) FROM tidings.quarantine WHERE topic = '{orders.topic}'")
    assert aside == [(1,)]
    assert lake.rows(f"SELECT id, note FROM {orders.table} ORDER BY id") == [(2, "n"), (10, "n")]
    orders.use(ORDERS)
    put(lake, orders, 11, note=None)
    assert described(reader, orders.table) == ({"id"}, {"id"}, {})
    put(lake, orders, 12)
    assert described(reader, orders.table) == ({"id"}, {"id"}, {})
    statement = f"SELECT id, note FROM {orders.table} ORDER BY id"
    expected = [(2, "n"), (10, "n"), (11, None), (12, "n")]
    assert lake.rows(statement) == expected
    assert look.select(reader, statement).rows == expected
    found = StaticTable.from_metadata(locations(reader)[orders.table]).scan().to_arrow()
    assert sorted(found["id"].to_pylist()) == [2, 10, 11, 12]


@pytest.mark.usefixtures("size")
def test_columns_that_go_and_change_are_null(
    lake: Lake, required: TableTopic, reader: WarehouseSettings
) -> None:
    orders = required
    put(lake, orders, 1)
    orders.use([one for one in ORDERS if one["name"] != "note"])
    row = order(2)
    del row["note"]
    orders.change("c", row, 20, 25)
    orders.topics.flush()
    lake.drain()
    assert lake.rows(f"SELECT id, note FROM {orders.table} ORDER BY id") == [(1, "n"), (2, None)]
    orders.topics.allow_any(f"{orders.topic}-key")
    orders.topics.allow_any(f"{orders.topic}-value")
    # The key gets another type, and so another column: neither has a value in all rows.
    orders.use([{**ORDERS[0], "type": "string"}, *ORDERS[1:]])
    orders.change("c", order(3) | {"id": "x"}, 30, 35)
    orders.topics.flush()
    lake.drain()
    assert described(reader, orders.table) == (set(), set(), {})
    assert lake.rows(f"SELECT id, id__string FROM {orders.table} ORDER BY __lsn") == [
        (1, None),
        (2, None),
        (None, "x"),
    ]


def test_a_value_that_was_not_logged_is_not_null(lake: Lake, required: TableTopic) -> None:
    """The placeholder of a required column gives way to the value of the row that is there."""
    orders = required
    put(lake, orders, 1)
    orders.change("u", order(1, "__debezium_unavailable_value", status="sent"), 20, 25)
    # Of a row that the lake does not have.
    orders.change("u", order(9, "__debezium_unavailable_value"), 30, 35)
    orders.topics.flush()
    lake.drain()
    assert lake.rows(f"SELECT id, status, note FROM {orders.table}") == [(1, "sent", "n")]


def test_what_waits_in_the_log_may_be_older_than_the_schema(
    lake: Lake, required: TableTopic, reader: WarehouseSettings
) -> None:
    """The current state is made by a process that has seen only the newer schema."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_merge": r"technical\..*=never"})
    orders, first = required, required.value_id
    put(lake, orders, 1)
    orders.use(ORDERS)
    put(lake, orders, 2, note=None)
    orders.value_id = first
    lake.settings = lake.settings.model_copy(update={"lakehouse_merge": ""})
    put(lake, orders, 3)
    assert lake.rows(f"SELECT id, note FROM {orders.table} ORDER BY id") == [(1, "n"), (2, None), (3, "n")]
    assert described(reader, orders.table) == ({"id"}, {"id"}, {})


def test_what_waited_is_described_as_its_log(
    lake: Lake, required: TableTopic, reader: WarehouseSettings
) -> None:
    """The current state is made, and later merged, by a process that has read no record of the topic."""
    orders, state = required, lake.settings
    never = state.model_copy(update={"lakehouse_merge": r"technical\..*=never"})
    told = {"id": "the order's number", "": "what was bought"}
    orders.use(commented(REQUIRED, id=told["id"]), told[""])
    lake.settings = never
    put(lake, orders, 1)
    lake.settings = state
    lake.drain()
    assert described(reader, orders.table) == ({"id"}, {"id", "note"}, told)
    lake.settings = state.model_copy(update={"lakehouse_merge": r"technical\..*=3600"})
    put(lake, orders, 2)
    lake.settings = never
    orders.use(commented(ORDERS, id=told["id"]), told[""])
    put(lake, orders, 3, note=None)
    lake.settings = state
    lake.drain()
    assert lake.rows(f"SELECT id, note FROM {orders.table} ORDER BY id") == [(1, "n"), (2, "n"), (3, None)]
    assert described(reader, orders.table) == ({"id"}, {"id"}, told)


@pytest.mark.usefixtures("size")
def test_tables_of_a_former_release_stay_as_they_are(
    lake: Lake, required: TableTopic, reader: WarehouseSettings
) -> None:
    """They may have rows that nobody has looked at; they get comments."""
    orders = required
    put(lake, orders, 1)
    for table, columns in ((orders.table, ("id", "note")), (f"{orders.table}_log", RECORD)):
        lake.session.sql(f"ALTER TABLE {table} DROP IDENTIFIER FIELDS {', '.join(set(columns) - {'note'})}")
        for column in columns:
            lake.session.sql(f"ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL")
    lake.session.sql(f"ALTER TABLE {orders.table}_log UNSET TBLPROPERTIES ('{PROPERTY}')")
    orders.use(commented(REQUIRED, id="the order's number"), "what was bought")
    put(lake, orders, 2)
    put(lake, orders, 3)
    told = {"id": "the order's number", "": "what was bought"}
    assert described(reader, orders.table) == (set(), set(), told)
    logged = {"after.id": "the order's number", "": "what was bought"}
    assert described(reader, f"{orders.table}_log") == (set(), set(), logged)
    assert lake.rows(f"SELECT id, note FROM {orders.table} ORDER BY id") == [(1, "n"), (2, "n"), (3, "n")]
    assert lake.rows(f"SELECT max(offset) FROM {orders.table}_log") == [(2,)]


def test_comments_follow_the_source(lake: Lake, orders: TableTopic, reader: WarehouseSettings) -> None:
    """Also when a comment becomes what it was: the registry gives the former schema's id again."""
    orders.use(commented(ORDERS, id="the order's number", note="said by the customer"))
    put(lake, orders, 1)
    told = {"id": "the order's number", "note": "said by the customer"}
    assert described(reader, orders.table)[2] == told
    logged = described(reader, f"{orders.table}_log")[2]
    assert logged == {f"after.{name}": text for name, text in told.items()}
    lake.session.sql(f"ALTER TABLE {orders.table} ALTER COLUMN status COMMENT 'ours'")
    orders.use(commented(ORDERS, id="the order's number", note="another", amount="in euros"))
    put(lake, orders, 2)
    other = told | {"note": "another", "amount": "in euros", "status": "ours"}
    assert described(reader, orders.table)[2] == other
    put(lake, orders, 3)
    orders.use(commented(ORDERS, id="the order's number", note="said by the customer"))
    put(lake, orders, 4)
    assert described(reader, orders.table)[2] == told | {"status": "ours"}
    orders.use(ORDERS)
    put(lake, orders, 5)
    assert described(reader, orders.table)[2] == {"status": "ours"}
    assert lake.rows(f"SELECT count(*) FROM {orders.table}") == [(5,)]
    assert look.select(reader, f"SELECT count(*) FROM {orders.table}").rows == [(5,)]
