"""What the checkpoint names and the topics no longer have ends the job with a message that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidings_lakehouse.errors import DataLossError
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]


@pytest.fixture
def tables(lake: Lake, topics: Topics, unique_name: str) -> list[TableTopic]:
    """Two topics, of which everything has been read."""
    found = [topics.table(f"{unique_name}.public.{name}_{unique_name}", fields=FIELDS) for name in "ab"]
    for table in found:
        table.change("c", row(1), 10, 20)
    topics.flush()
    lake.drain()
    return found


def row(number: int) -> dict[str, Any]:
    return {"id": number, "note": None}


def change_the_pattern(lake: Lake, tables: list[TableTopic]) -> None:
    pattern = tables[0].topic.replace(".", r"\.")
    lake.settings = lake.settings.model_copy(update={"lakehouse_technical": pattern})


def delete_a_topic(lake: Lake, tables: list[TableTopic]) -> None:
    tables[1].topics.delete(tables[1].topic)


def make_a_topic_again(lake: Lake, tables: list[TableTopic]) -> None:
    delete_a_topic(lake, tables)
    tables[1].topics.recreate(tables[1].topic)


@pytest.mark.parametrize("happens", [change_the_pattern, delete_a_topic, make_a_topic_again])
def test_a_topic_that_the_checkpoint_names_and_that_is_gone_is_told(
    lake: Lake, tables: list[TableTopic], happens: Any
) -> None:
    happens(lake, tables)
    tables[0].change("c", row(2), 30, 40)
    tables[0].topics.flush()
    with pytest.raises(DataLossError) as raised:
        lake.drain()
    checkpoint = f"{lake.settings.checkpoint_uri}/technical"
    assert checkpoint in raised.value.hint
    assert tables[1].topic in str(raised.value)
    lake.forget()
    lake.drain()
    assert lake.rows(f"select id from {tables[0].table} order by id") == [(1,), (2,)]
    assert lake.rows(f"select count(*), count(distinct offset) from {tables[0].table}_log") == [(2, 2)]
    assert lake.rows(f"select id from {tables[1].table}") == [(1,)]


def test_a_topic_that_is_deleted_while_its_batch_is_written_is_told(
    lake: Lake, tables: list[TableTopic]
) -> None:
    """The brokers answer, so they are not what is away."""
    admin, topic = tables[1].topics.admin, tables[1].topic

    def delete(point: str) -> None:
        if point == "survey" and topic in admin.list_topics(timeout=10).topics:
            tables[1].topics.delete(topic)
            wait_for("the topic to be gone", lambda: topic not in admin.list_topics(timeout=10).topics)

    tables[1].change("c", row(2), 30, 40)
    tables[1].topics.flush()
    with pytest.raises(DataLossError, match="has been deleted") as raised:
        lake.drain(delete)
    assert f"{lake.settings.checkpoint_uri}/technical" in raised.value.hint
