"""What a topic that is set aside has lost is told and, when a person accepts it, skipped; nothing else is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from prometheus_client import REGISTRY

from tidings_lakehouse.cli import main
from tidings_lakehouse.metrics import ACCEPTED_LOSSES
from tidings_lakehouse.writing.losses import Loss, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.stack]

FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]


@pytest.fixture
def table(lake: Lake, topics: Topics, unique_name: str) -> TableTopic:
    """Of two partitions; its table has row 1, and somebody else has it since; rows 2 to 5 are on the topic."""
    table = topics.table(f"{unique_name}.public.l_{unique_name}", FIELDS, partitions=2)
    write(table, 1)
    lake.drain()
    own(lake, table, "somebody")
    write(table, 2, 3, 4, 5)
    lake.drain()
    return table


@pytest.fixture
def accept_loss(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, list[dict[str, Any]], str]]:
    """Runs the command; gives its exit code, the rows that it prints, and what it says."""
    settings = lake.settings
    monkeypatch.setenv("TIDINGS_KAFKA", settings.kafka)
    warehouse = lake.session.conf.get("spark.sql.catalog.lake.warehouse")
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(warehouse))

    def session(*_: Any, **__: Any) -> SparkSession:
        """One of the JVM that there is."""
        session = lake.session.newSession()
        monkeypatch.setattr(session, "stop", lambda: None)
        return session

    monkeypatch.setattr("tidings_lakehouse.spark.session.create_session", session)

    def run(topic: str, *options: str) -> tuple[int, list[dict[str, Any]], str]:
        capsys.readouterr()
        code = main(["accept-loss", topic, "--json", *options])
        said = capsys.readouterr()
        return code, [json.loads(line) for line in said.out.splitlines()], said.err

    return run


def write(table: TableTopic, *rows: int) -> None:
    """Even rows go to partition 0, odd ones to 1."""
    for row in rows:
        table.change("c", {"id": row, "note": None}, row * 100 - 100 or None, row * 100, partition=row % 2)
    table.topics.flush()


def own(lake: Lake, table: TableTopic, owner: str) -> None:
    lake.session.sql(f"ALTER TABLE {table.table}_log SET TBLPROPERTIES ('tidings.topic' = '{owner}')")


def ids(lake: Lake, table: TableTopic) -> list[int]:
    return [row[0] for row in lake.rows(f"select id from {table.table} order by id")]


def set_aside(lake: Lake, table: TableTopic) -> list[str]:
    return [row[0] for row in lake.rows(f"select code from tidings.set_aside where topic = '{table.topic}'")]


def told(topic: str) -> tuple[float | None, float | None]:
    """Losses and records that the metrics tell of."""
    losses, records = (
        REGISTRY.get_sample_value(f"tidings_lakehouse_accepted_loss{what}", {"topic": topic})
        for what in ("es", "_records")
    )
    return losses, records


def loss(table: TableTopic, partition: int, first: int, following: int | None) -> dict[str, Any]:
    return {
        "topic": table.topic,
        "partition": partition,
        "lost from offset": first,
        "read again from": following,
        "records at most": None if following is None else following - first,
    }


def test_what_retention_took_is_skipped_when_it_is_accepted(
    lake: Lake, topics: Topics, table: TableTopic, accept_loss: Any
) -> None:
    own(lake, table, table.topic)
    deleted = topics.admin.delete_records([TopicPartition(table.topic, 0, 1)])
    deleted[TopicPartition(table.topic, 0)].result(20)
    lake.drain()
    assert set_aside(lake, table) == ["data_loss"]
    code, rows, said = accept_loss(table.topic)
    assert (code, rows) == (0, [loss(table, 0, 0, 1)])
    assert f"{table.table} and {table.table}_log will lack" in said
    assert "--yes" in said
    lake.drain()
    assert set_aside(lake, table) == ["data_loss"]
    code, rows, said = accept_loss(table.topic, "--yes")
    assert (code, rows) == (0, [loss(table, 0, 0, 1)])
    assert "incremental snapshot" in said
    lake.drain()
    assert set_aside(lake, table) == []
    assert told(table.topic) == (1, 1)
    assert ids(lake, table) == [1, 3, 4, 5]
    write(table, 6)
    lake.drain()
    assert ids(lake, table) == [1, 3, 4, 5, 6]
    kept = f"select partition, first_offset, next_offset, code from tidings.accepted_losses where topic = '{table.topic}'"
    assert lake.rows(kept) == [(0, 0, 1, "data_loss")]
    code, rows, said = accept_loss(table.topic, "--yes")
    assert (code, rows) == (1, [])
    assert said.startswith(f"error: the topic {table.topic} is not set aside\n")


def test_what_cannot_be_written_is_skipped_when_it_is_given_up(
    lake: Lake, table: TableTopic, accept_loss: Any
) -> None:
    code, rows, said = accept_loss(table.topic, "--yes")
    assert (code, rows) == (1, [])
    assert said.startswith(f"error: nothing of {table.topic} is lost")
    assert "table_conflict" in said
    assert accept_loss(table.topic, "--to-end", "--yes")[:2] == (
        0,
        [loss(table, 0, 0, 2), loss(table, 1, 1, 3)],
    )
    own(lake, table, table.topic)
    write(table, 6)
    lake.drain()
    assert set_aside(lake, table) == []
    assert ids(lake, table) == [1, 6]
    ACCEPTED_LOSSES.clear()
    lake.drain()  # another life of the job
    assert told(table.topic) == (2, 4)


def test_a_deleted_topic_is_forgotten_when_its_loss_is_accepted(
    lake: Lake, topics: Topics, table: TableTopic, accept_loss: Any
) -> None:
    topics.delete(table.topic)
    lake.forget()
    lake.drain()
    assert set_aside(lake, table) == ["data_loss"]
    code, rows, _ = accept_loss(table.topic, "--yes")
    assert (code, rows) == (0, [loss(table, 0, 0, None), loss(table, 1, 1, None)])
    lake.drain()
    assert set_aside(lake, table) == []
    assert told(table.topic) == (2, 0)
    assert ids(lake, table) == [1]


@pytest.mark.parametrize(
    ("spans", "wanted"),
    [
        ([(0, 0, 5), (1, 0, 5)], (2, 10)),
        ([(0, 0, 5), (0, 0, 5)], (1, 5)),
        ([(0, 0, 5), (0, 3, 9)], (2, 9)),
        ([(0, 3, 4), (0, 0, 9)], (2, 9)),
        ([(0, 0, 5), (0, 7, None)], (2, 5)),
    ],
)
def test_offsets_that_are_accepted_twice_are_lost_once(
    spans: list[tuple[int, int, int | None]], wanted: tuple[int, int], unique_name: str
) -> None:
    tell([Loss(unique_name, "one", *span, "data_loss") for span in spans])
    assert told(unique_name) == wanted
