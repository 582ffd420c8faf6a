"""One Spark session for the whole run, and topics and tables of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from tidings_lakehouse.settings import LakehouseSettings, WarehouseSettings
from tidings_lakehouse.spark.session import create_session, stop_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from lakelab.lake import Lake
from lakelab.topics import TableTopic, Topics


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves the sockets of ended threads to the garbage collector, which warns in whatever test it runs."""
    for item in items:
        if "session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(
                pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = WarehouseSettings(
        lakehouse_warehouse=str(tmp_path_factory.mktemp("warehouse")),
        lakehouse_java_options="-XX:TieredStopAtLevel=1",
    )
    session = create_session(settings, "tests")
    yield session
    session.stop()
    stop_gateway(session)


@pytest.fixture
def lake(
    session: SparkSession,
    kafka_bootstrap: str,
    registry_url: str,
    unique_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Lake:
    monkeypatch.setattr(
        "tidings_lakehouse.job._POLL_SECONDS", 0.15
    )  # there are more than a hundred short runs
    settings = LakehouseSettings(
        kafka=kafka_bootstrap,
        registry=registry_url,
        source=unique_name,
        lakehouse_checkpoint=str(tmp_path / "checkpoints"),
    )
    return Lake(session, settings)


@pytest.fixture(params=["small", pytest.param("large", marks=pytest.mark.long)])
def size(request: pytest.FixtureRequest, lake: Lake) -> str:
    """Batches are written as small ones, which are kept in the job's JVM, and as large ones, by Spark's tasks.

    That both make the same tables of whatever comes is what `test_small.py` is about, always; here it is as much again.
    """
    if request.param == "large":
        lake.settings = lake.settings.model_copy(update={"lakehouse_small_records": 0})
    return str(request.param)


@pytest.fixture
def orders(lake: Lake, topics: Topics, unique_name: str) -> TableTopic:
    """The topic `<unique>.public.o_<unique>`, whose table is `technical.o_<unique>`."""
    return TableTopic(topics, f"{unique_name}.public.o_{unique_name}")


@pytest.fixture(scope="session")
def topics(kafka_bootstrap: str, registry_url: str) -> Topics:
    return Topics(kafka_bootstrap, registry_url)


@pytest.fixture(scope="module")
def reader(session: SparkSession) -> WarehouseSettings:
    """Settings of a reader of the warehouse that the tests share."""
    uri = session.conf.get("spark.sql.catalog.lake.warehouse")
    return WarehouseSettings(lakehouse_warehouse=unquote(urlsplit(str(uri)).path))
