"""A table grows with its topic and never loses a column; names stay clear of Iceberg's."""

import pytest
from pyspark.sql import types as st

from tidings_lakehouse.tables.names import candidates
from tidings_lakehouse.tables.tables import Change, ddl, evolve, safe_name
from tidings_lakehouse.topics import business_table, log_of, technical_table

INT, LONG, STRING = st.IntegerType(), st.LongType(), st.StringType()


def struct(**fields: st.DataType) -> st.StructType:
    return st.StructType([st.StructField(name, type_) for name, type_ in fields.items()])


@pytest.mark.parametrize(
    ("have", "want", "after", "changes"),
    [
        (struct(a=INT), struct(a=INT), struct(a=INT), []),
        (struct(a=INT, b=INT), struct(a=INT), struct(a=INT, b=INT), []),
        (struct(a=INT), struct(b=STRING), struct(a=INT, b=STRING), [Change(("b",), STRING, is_new=True)]),
        (struct(a=INT), struct(a=LONG), struct(a=LONG), [Change(("a",), LONG, is_new=False)]),
        (struct(a=LONG), struct(a=INT), struct(a=LONG), []),
        (
            struct(a=INT),
            struct(a=STRING),
            struct(a=INT, a__string=STRING),
            [Change(("a__string",), STRING, is_new=True)],
        ),
        (struct(a=INT, a__string=STRING), struct(a=STRING), struct(a=INT, a__string=STRING), []),
        (
            struct(r=struct(a=INT)),
            struct(r=struct(b=INT)),
            struct(r=struct(a=INT, b=INT)),
            [Change(("r", "b"), INT, is_new=True)],
        ),
        (
            struct(d=st.DecimalType(10, 2)),
            struct(d=st.DecimalType(12, 2)),
            struct(d=st.DecimalType(12, 2)),
            [Change(("d",), st.DecimalType(12, 2), is_new=False)],
        ),
        (
            struct(d=st.DecimalType(10, 2)),
            struct(d=st.DecimalType(10, 3)),
            struct(d=st.DecimalType(10, 2), d__decimal_10_3=st.DecimalType(10, 3)),
            [Change(("d__decimal_10_3",), st.DecimalType(10, 3), is_new=True)],
        ),
    ],
)
def test_evolution(
    have: st.StructType, want: st.StructType, after: st.StructType, changes: list[Change]
) -> None:
    assert evolve(have, want) == (after, changes)


def test_ddl_quotes_names() -> None:
    assert ddl(struct(**{"a`b": st.ArrayType(struct(c=INT)), "m": st.MapType(STRING, LONG)})) == (
        "struct<`a``b`: array<struct<`c`: int>>, `m`: map<string, bigint>>"
    )


@pytest.mark.parametrize(
    "name", ["_pos", "_partition", "_file", "_deleted", "_spec_id", "__lsn", "__anything"]
)
def test_reserved_names_give_way(name: str) -> None:
    assert safe_name(name) == f"{name}_column"


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("shop.public.orders", "technical.orders"),
        ("shop.sales.Orders", "technical.sales_orders"),
        ("a.b.public.order-items", "technical.order_items"),
    ],
)
def test_technical_names(topic: str, table: str) -> None:
    assert technical_table(topic) == table
    assert log_of(table) == f"{table}_log"


@pytest.mark.parametrize(
    ("namespace", "topic", "names"),
    [
        (
            "technical",
            "shop.public.orders_log",
            ["technical.orders_log", "technical.public_orders_log", "technical.shop_public_orders_log"],
        ),
        ("technical", "shop.sales.orders", ["technical.sales_orders", "technical.shop_sales_orders"]),
        ("business", "shop.order-placed.v1", ["business.order_placed_v1", "business.shop_order_placed_v1"]),
    ],
)
def test_names_that_a_table_may_have(namespace: str, topic: str, names: list[str]) -> None:
    found = candidates(namespace, topic)
    assert found[:-1] == names
    assert found[-1].startswith(f"{names[-1]}_")


def test_every_topic_has_a_name_of_its_own() -> None:
    topics = ["a.b.c-d", "a.b.c_d", "a.b.C_d", "a.b_c.d", "a.b-c.d", "a_b.c.d"]
    assert len({candidates("technical", topic)[-1] for topic in topics}) == len(topics)


def test_business_names() -> None:
    assert business_table("shop.order-placed.v12") == "business.order_placed_v12"
