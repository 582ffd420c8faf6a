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


def test_topics_that_would_share_a_table_have_each_their_own(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """...and keep it, whatever comes later; where nothing meets, the names are short."""
    lake.streams = ["technical", "business"]
    lake.settings = lake.settings.model_copy(
        update={"lakehouse_domains": f"{unique_name},other{unique_name}"}
    )
    short = f"s_{unique_name}"
    first = {
        f"{unique_name}.sales.{short}": f"technical.sales_{short}",
        f"{unique_name}.public.{short}_log": f"technical.{short}_log",
    }
    later = {
        f"{unique_name}.public.sales_{short}": f"technical.public_sales_{short}",
        f"{unique_name}.public.{short.upper()}": f"technical.public_{short}",
        f"{unique_name}.public.{short}": f"technical.{unique_name}_public_{short}",
        f"{unique_name}.public.plain_{short}": f"technical.plain_{short}",
    }
    lake.session.sql("CREATE NAMESPACE IF NOT EXISTS technical")
    for tables in (first, later):
        for topic in tables:
            topics.table(topic, fields=FIELDS).change("c", {"id": 1, "note": topic}, 10, 20)
        publish(topics, f"{unique_name if tables is first else f'other{unique_name}'}.{short}.v1", "e")
        topics.flush()
        lake.drain()
    for topic, table in (first | later).items():
        assert lake.rows(f"select note from {table}") == [(topic,)], table
        assert lake.rows(f"select topic_id is not null, after.note from {table}_log") == [(True, topic)]
    events = (f"business.{short}_v1", f"business.other{unique_name}_{short}_v1")
    assert [lake.rows(f"select ce_type from {table}") for table in events] == [
        [(f"{unique_name}.{short}.v1",)],
        [(f"other{unique_name}.{short}.v1",)],
    ]
    kept = lake.rows(
        f"select topic, table_name from tidings.topics where topic like '{unique_name}.%.%{short}%'"
    )
    assert dict(kept).items() >= set(first.items())


def test_a_lakehouse_that_did_not_keep_names_keeps_its_tables(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """An upgrade: the topic that is read first after it would take the short name from the topic whose table it is."""
    short = f"s_{unique_name}"
    topics.table(f"{unique_name}.sales.{short}", fields=FIELDS).change("c", {"id": 1, "note": "a"}, 10, 20)
    topics.flush()
    lake.drain()
    lake.session.sql("DROP TABLE tidings.topics")
    topics.table(f"{unique_name}.public.sales_{short}", fields=FIELDS).change(
        "c", {"id": 2, "note": "b"}, 10, 20
    )
    topics.flush()
    lake.drain()
    assert lake.rows(f"select id from technical.sales_{short}") == [(1,)]
    assert lake.rows(f"select id from technical.public_sales_{short}") == [(2,)]
