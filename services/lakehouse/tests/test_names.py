"""Which topics are taken, and that each has tables of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]
EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Placed",
    "fields": [{"name": "order_id", "type": "long"}],
}


def publish(topics: Topics, topic: str, event_id: str) -> None:
    """A topic with one event on it."""
    topics.create(topic)
    schema = topics.register(f"{topic}-value", EVENT)
    headers = [("ce_id", event_id.encode()), ("ce_source", b"/shop"), ("ce_type", topic.encode())]
    topics.produce(topic, b"1", topics.encode(schema, {"order_id": 1}), headers)


def test_what_only_ends_like_our_topics_is_not_taken(lake: Lake, topics: Topics, unique_name: str) -> None:
    """A generation's shadow topics hold events that have not been published; another source's rows are not ours."""
    lake.streams = ["technical", "business"]
    table = f"e_{unique_name}"
    event = f"{unique_name}.{table}.v1"
    publish(topics, event, "published")
    publish(topics, f"tidings.{unique_name}.generation.blue.events.{event}", "not published")
    publish(topics, f"team{unique_name}.{table}.v1", "another team's")
    topics.table(f"{unique_name}.public.{table}", fields=FIELDS).change("c", {"id": 1, "note": None}, 10, 20)
    topics.table(f"my{unique_name}.public.{table}", fields=FIELDS).change(
        "c", {"id": 2, "note": None}, 10, 20
    )
    topics.table(f"{unique_name}.public.{table}.v1", fields=FIELDS).change(
        "c", {"id": 3, "note": None}, 10, 20
    )
    topics.flush()
    lake.drain()
    assert lake.rows(f"select ce_id from business.{table}_v1") == [("published",)]
    assert lake.rows(f"select id from technical.{table}") == [(1,)]
    assert lake.rows(f"select count(*) from tidings.quarantine where topic like '%{unique_name}%'") == [(0,)]
