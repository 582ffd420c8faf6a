"""Tables in an object store (S3), by a REST catalog and by PostgreSQL: written, compacted, erased, and read by every reader."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import duckdb
import psycopg
import pytest
from lakelab.apart import JobApart, in_s3, job_apart
from lakelab.readers import COLUMNS, pasted
from lakelab.rows import order

from tidings_jvm import PlainProgress
from tidings_lakehouse.catalogs.catalog import missing_rights
from tidings_lakehouse.catalogs.conf import more_jars
from tidings_lakehouse.reading import look
from tidings_lakehouse.reading.duck import list_store
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.store_rights import check_writable
from tidings_service import SettingsError
from tidings_stack.iceberg_rest import IcebergRestServer
from tidings_stack.stack import Stack

if TYPE_CHECKING:
    from lakelab.topics import TableTopic, Topics

    from tidings_stack.s3 import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(600)]

NAMES = ("https://catalog.example", "https://s3.example")
"""Addresses in the snippets of the page."""
PERSON = "zq-4711"


@pytest.fixture(autouse=True)
def no_checksums_of_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3Mock sends the whole object's checksum with a part of it, too, which pyarrow would refuse."""
    monkeypatch.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")


@pytest.fixture
def rest_catalog(s3: S3Server, unique_name: str) -> Iterator[IcebergRestServer]:
    """With a warehouse of its own."""
    properties = {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": s3.url,
        "s3.path-style-access": "true",
        "s3.access-key-id": "any",
        "s3.secret-access-key": "any",
        "client.region": "us-east-1",
    }
    with Stack(members=(), progress=PlainProgress(print)) as stack:
        yield stack.add(
            lambda place: IcebergRestServer(
                place, warehouse=f"s3://{s3.bucket}/{unique_name}", properties=properties
            )
        )


def fill(job: JobApart, table: TableTopic) -> None:
    """Rows that are updated and deleted in commits of their own."""
    for number in range(40):
        table.change("c", order(number), 10, 20 + number)
    table.topics.flush()
    job.drain()
    for number in range(0, 40, 4):
        table.change("u", order(number, PERSON if number == 8 else "changed"), 100, 110 + number)
    for number in range(1, 40, 4):
        table.change("d", {"id": number}, 200, 210 + number)
    table.topics.flush()
    job.drain()


def objects(s3: S3Server, text: str) -> int:
    """Parquet files of the store that hold a text in a row."""
    found = 0
    for file in s3.directory.joinpath("objects").rglob("*"):
        if file.is_file() and file.read_bytes()[:4] == b"PAR1":
            with duckdb.connect() as database:
                rows = database.execute(
                    "SELECT to_json(t)::text FROM read_parquet(?) t", [str(file)]
                ).fetchall()
            found += text in repr(rows)
    return found


def is_read(job: JobApart, settings: WarehouseSettings, state: str, by: Callable[[str], int]) -> None:
    """Every reader gives the rows that Spark gives."""
    columns, rows, numeric = job.rows(f"select {COLUMNS} from technical.orders order by id")
    assert len(rows) == 30
    found = look.select(settings, f"select {COLUMNS} from technical.orders order by id")
    by_duckdb = [found.columns, found.rows, found.numeric]
    assert json.loads(json.dumps(by_duckdb, default=str)) == [columns, rows, numeric], state
    assert ("technical.orders", 30, "") in look.list_tables(settings).rows
    for reader in ("pyiceberg", "DuckDB"):
        assert by(reader) == 30, (reader, state)


@pytest.mark.long
def test_a_rest_catalog_and_s3(
    topics: Topics, s3: S3Server, rest_catalog: IcebergRestServer, unique_name: str, tmp_path: Path
) -> None:
    table = topics.table(f"{unique_name}.public.orders")
    conf = {**in_s3(s3, unique_name), "lakehouse_catalog": rest_catalog.url}
    settings = WarehouseSettings(**conf)  # type: ignore[arg-type]
    list_store(settings)
    assert check_writable(settings)
    assert missing_rights(settings) == []

    addresses = dict(zip(NAMES, (rest_catalog.url, s3.url), strict=True))

    def read_by(reader: str) -> int:
        return pasted(f"{reader} with a REST catalog", tmp_path, addresses)

    assert look.list_tables(settings).rows == []
    with job_apart(
        conf, tmp_path, kafka=topics.bootstrap, registry=topics.registry, source=unique_name
    ) as job:
        fill(job, table)
        is_read(job, settings, "with delete files", read_by)
        for name in ("technical.orders", "technical.orders_log"):
            job.compact(name)
        is_read(job, settings, "compacted", read_by)
        assert read_by("Spark") == 30
        assert job.second_writer("technical.orders") == "second_writer"
        assert objects(s3, PERSON) == 2
        lost = f"{s3.url}/{s3.bucket}/{unique_name}/technical/orders/data/left-by-a-crash.parquet"
        with urllib.request.urlopen(urllib.request.Request(lost, b"lost", method="PUT"), timeout=20):
            pass
        job.erase("technical.orders", "id=8")
        assert objects(s3, PERSON) == 0
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(lost, timeout=20)
        table.change("c", order(8, "again"), 300, 310)
        topics.flush()
        job.drain()
        assert look.select(settings, "select note from technical.orders where id = 8").rows == [("again",)]
    with job_apart(
        conf, tmp_path, kafka=topics.bootstrap, registry=topics.registry, source=unique_name
    ) as again:
        again.drain()
        assert again.rows("select count(*), count(distinct offset) from technical.orders_log")[1] == [
            [69, 69]
        ]


@pytest.mark.turns
def test_a_catalog_in_postgresql_and_s3(
    topics: Topics, s3: S3Server, pg_database: str, unique_name: str, tmp_path: Path
) -> None:
    table = topics.table(f"{unique_name}.public.orders")
    with psycopg.connect(pg_database) as database:
        user, password = database.info.user, database.info.password
    parts = urlsplit(pg_database)
    conf = {
        **in_s3(s3, unique_name),
        "lakehouse_catalog": f"jdbc:postgresql://{parts.hostname}:{parts.port}{parts.path}",
        "lakehouse_catalog_user": user,
        "lakehouse_catalog_password": password,
    }
    settings = WarehouseSettings(**conf)  # type: ignore[arg-type]
    addresses = {
        "user:password@db.example/catalog": f"{user}:{password}@{parts.netloc.rpartition('@')[2]}{parts.path}",
        NAMES[1]: s3.url,
    }

    def read_by(reader: str) -> int:
        return pasted(f"{reader} with a catalog in PostgreSQL", tmp_path, addresses)

    with job_apart(
        conf, tmp_path, kafka=topics.bootstrap, registry=topics.registry, source=unique_name
    ) as job:
        fill(job, table)
        is_read(job, settings, "with delete files", read_by)
        job.compact("technical.orders")
        is_read(job, settings, "compacted", read_by)
        assert job.second_writer("technical.orders") == "second_writer"
        assert missing_rights(settings) == []


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    (tmp_path / "b.jar").touch()
    named: dict[str, Any] = {"lakehouse_jars": f"{tmp_path}/*.jar"}
    assert more_jars(WarehouseSettings(**named)) == [tmp_path / "a.jar", tmp_path / "b.jar"]
    with pytest.raises(SettingsError, match="TIDINGS_LAKEHOUSE_JARS: there is no file"):
        more_jars(WarehouseSettings(lakehouse_jars=f"{tmp_path}/a.jar:{tmp_path}/c.jar"))
