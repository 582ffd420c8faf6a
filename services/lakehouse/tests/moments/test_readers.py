"""Other engines read what Spark reads: before and after a compaction, with deletes, renamed and widened columns."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
import pytest
from lakelab.readers import COLUMNS, pasted
from lakelab.rows import order
from pydantic import SecretStr

from tidings_lakehouse.catalogs.catalog import locations
from tidings_lakehouse.errors import DatabaseError, QueryError
from tidings_lakehouse.reading import look, query
from tidings_lakehouse.reading.civil import moment_text
from tidings_lakehouse.settings import WarehouseSettings

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics


@pytest.fixture
def orders(lake: Lake, topics: Topics, unique_name: str) -> str:
    """`technical.orders` with rows that were updated and deleted in commits of their own, which have a layout of their own."""
    table = topics.table(f"{unique_name}.public.orders")
    for number in range(40):
        table.change("c", order(number), 10, 20 + number)
    table.change("c", order(90, None, ordered_at="infinity", updated_at=9223372036825200000), 10, 70)
    topics.flush()
    lake.drain()
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_layout": r"technical\.orders_log=month;technical\.orders=bucket(4)"}
    )
    for number in range(0, 40, 4):
        table.change("u", order(number, "changed"), 100, 110 + number)
    for number in range(1, 40, 4):
        table.change("d", {"id": number}, 200, 210 + number)
    topics.flush()
    lake.drain()
    assert table.table == "technical.orders"
    return table.table


def compact(lake: Lake, table: str) -> None:
    lake.session.sql(
        f"CALL lake.system.rewrite_data_files(table => '{table}', options => map('min-input-files', '1', 'rewrite-all', 'true'))"
    )


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(600)
def test_every_reader_gives_the_rows_that_spark_gives(
    lake: Lake, orders: str, reader: WarehouseSettings, tmp_path: Path
) -> None:
    (tmp_path / "lakehouse").symlink_to(str(reader.warehouse_directory))
    statement = f"select {COLUMNS} from {orders} order by id"
    count = lake.rows(f"select count(*) from {orders}")[0][0]
    assert count == 31
    for state in ("with delete files", "compacted"):
        if state == "compacted":
            compact(lake, orders)
        expected = query.answer(lake.session, statement)
        assert look.select(reader, statement) == expected, state
        assert [row for row in look.list_tables(reader).rows if row[0] == orders] == [(orders, count, "")]
        assert pasted("pyiceberg", tmp_path) == count, state
        assert pasted("DuckDB", tmp_path) == count, state
    assert pasted("Spark", tmp_path) == count
    lake.session.sql(f"ALTER TABLE {orders} RENAME COLUMN note TO memo")
    lake.session.sql(f"ALTER TABLE {orders} ADD COLUMN later string")
    renamed = f"select id, memo, later from {orders} where memo = 'changed' order by id"
    assert look.select(reader, renamed).rows == query.answer(lake.session, renamed).rows
    logged = f"select op, key.id, after.amount, after.updated_at, hex(headers[1].value) from {orders}_log l order by l.offset"
    by_spark = logged.replace("headers[1]", "get(headers, 0)")
    assert look.select(reader, logged).rows == query.answer(lake.session, by_spark).rows


@pytest.mark.spark
@pytest.mark.stack
def test_a_catalog_on_postgresql_is_read(
    lake: Lake, orders: str, reader: WarehouseSettings, pg_database: str
) -> None:
    """Its rows are those that Iceberg has written to SQLite: the table is the same in every database."""
    directory = reader.warehouse_directory
    assert directory is not None
    with closing(sqlite3.connect(directory / "catalog.db")) as catalog:
        found = catalog.execute("select * from iceberg_tables").fetchall()
    with psycopg.connect(pg_database, autocommit=True) as database:
        database.execute(
            "create table iceberg_tables (catalog_name text, table_namespace text, table_name text,"
            " metadata_location text, previous_metadata_location text, iceberg_type text)"
        )
        for row in found:
            database.execute("insert into iceberg_tables values (%s, %s, %s, %s, %s, %s)", row)
        user, password = database.info.user, database.info.password
    parts = urlsplit(pg_database)
    settings = reader.model_copy(
        update={
            "lakehouse_catalog": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
            "lakehouse_catalog_user": user,
            "lakehouse_catalog_password": SecretStr(password),
        }
    )
    assert locations(settings) == locations(reader)
    assert look.select(settings, f"select count(*) from {orders}").rows == [(31,)]
    away = settings.model_copy(update={"lakehouse_catalog": "jdbc:postgresql://127.0.0.1:1/x"})
    with pytest.raises(DatabaseError, match="TIDINGS_LAKEHOUSE_CATALOG"):
        locations(away)


@pytest.fixture
def empty(tmp_path: Path) -> WarehouseSettings:
    with closing(sqlite3.connect(tmp_path / "catalog.db")):
        pass
    return WarehouseSettings(lakehouse_warehouse=str(tmp_path))


@pytest.mark.parametrize(
    "statement",
    [
        "drop table technical.orders",
        "insert into t values (1)",
        "copy (select 1) to 'x'",
        "set memory_limit = '100GB'",
        "select 1; drop table t",
        "attach 'x' as y",
        "create table t (a int)",
    ],
)
def test_what_writes_is_refused(empty: WarehouseSettings, statement: str) -> None:
    with pytest.raises(QueryError, match="only statements that read"):
        look.select(empty, statement)


@pytest.mark.parametrize(
    "statement", ["select * from read_text('{file}')", "select * from '{file}'", "from sniff_csv('{file}')"]
)
def test_files_outside_the_warehouse_are_not_opened(
    empty: WarehouseSettings, tmp_path_factory: pytest.TempPathFactory, statement: str
) -> None:
    file = tmp_path_factory.mktemp("other") / "secret.csv"
    file.write_text("a\n1\n")
    with pytest.raises(QueryError, match=r"file system operations are disabled|disabled by configuration"):
        look.select(empty, statement.format(file=file))


def test_statements_that_read_and_their_mistakes(empty: WarehouseSettings) -> None:
    assert look.select(empty, "with x as (select 1 as a) select * from x;").rows == [(1,)]
    assert look.select(empty, "explain select 1").columns == ("plan",)
    assert look.list_tables(empty).rows == []
    for statement in ("select * from technical.nothing", "selec 1"):
        with pytest.raises(QueryError) as error:
            look.select(empty, statement)
        assert "\n" not in str(error.value)


def test_a_catalog_that_only_spark_reads_is_named(empty: WarehouseSettings) -> None:
    other = empty.model_copy(update={"lakehouse_spark_conf": "spark.sql.catalog.lake.type=glue"})
    with pytest.raises(QueryError, match="glue") as error:
        look.select(other, "select 1")
    assert "--engine spark" in str(error.value.hint)


def test_moments_are_written_as_spark_writes_them() -> None:
    assert [
        moment_text(one) for one in (0, -1, 1_704_067_200_500_000, 9223372036825200000, -9223372036832400000)
    ] == [
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2024-01-01 00:00:00.5",
        "+294247-01-10 04:00:25.2",
        "-290308-12-21 19:59:27.6",
    ]
