"""One topic's trouble stops that topic, and no other; nothing of it is lost, and the watermark waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lakelab.topics import MarkerTopic
from prometheus_client import REGISTRY
from py4j.protocol import Py4JJavaError

from tidings_lakehouse.errors import KafkaUnreachableError, SecondWriterError, TableConflictError
from tidings_lakehouse.reading.query import tables_of
from tidings_lakehouse.tables.troubles import trouble_of_topic

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics
    from pyspark.sql import SparkSession

FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}]
EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Placed",
    "fields": [{"name": "order_id", "type": "long"}],
}


def row(number: int) -> dict[str, Any]:
    return {"id": number, "note": None}


class Source:
    """Two tables of a source, each of whose transactions changes both."""

    def __init__(self, lake: Lake, topics: Topics, name: str) -> None:
        self.lake, self.topics, self.name = lake, topics, name
        self.markers = MarkerTopic(topics, name)
        self.a, self.b = (topics.table(f"{name}.public.{t}_{name}", FIELDS, partitions=2) for t in "ab")

    def transaction(self, number: int) -> None:
        lsn = number * 100
        for table in (self.a, self.b):
            table.change("c", row(number), lsn - 100 or None, lsn - 50, partition=number % 2)
        self.markers.end(lsn - 50, lsn, **{f"{t}_{self.name}": 1 for t in "ab"})
        self.topics.flush()

    def belongs_to(self, table: TableTopic, owner: str) -> None:
        self.lake.session.sql(
            f"ALTER TABLE {table.table}_log SET TBLPROPERTIES ('tidings.topic' = '{owner}')"
        )

    def ids(self, table: TableTopic) -> list[int]:
        return [found[0] for found in self.lake.rows(f"select id from {table.table} order by id")]

    @property
    def watermark(self) -> set[int | None]:
        found = self.lake.rows(
            f"select distinct commit_lsn from tidings.watermark where topic like '{self.name}.%'"
        )
        return {one[0] for one in found}

    @property
    def is_set_aside(self) -> float | None:
        labels = {"topic": self.a.topic, "reason": "table_conflict"}
        return REGISTRY.get_sample_value("tidings_lakehouse_topics_set_aside", labels)


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
def test_the_others_go_on_and_it_catches_up(lake: Lake, topics: Topics, unique_name: str) -> None:
    source = Source(lake, topics, unique_name)
    source.transaction(1)
    lake.drain()
    assert source.watermark == {100}
    source.belongs_to(source.a, "somebody")
    for number in (2, 3):
        source.transaction(number)
        lake.drain()
    assert (source.ids(source.a), source.ids(source.b)) == ([1], [1, 2, 3])
    assert source.watermark == {100}
    assert source.is_set_aside == 1
    kept = lake.rows(
        f"select topic, offsets, code, attempts from tidings.set_aside where topic like '{unique_name}%'"
    )
    assert kept == [(source.a.topic, '{"0": 0, "1": 1}', "table_conflict", 2)]
    listed = {name: told for name, _, told in tables_of(lake.session).rows}
    assert str(listed[source.a.table]).startswith("table_conflict since ")
    assert listed[source.b.table] == ""

    source.belongs_to(source.a, source.a.topic)
    lake.settings = lake.settings.model_copy(update={"lakehouse_max_records": 2})
    lake.drain_and_crash(f"log:{source.a.table}_log")
    assert source.watermark == {100}
    lake.drain()
    assert source.ids(source.a) == [1, 2, 3]
    assert lake.rows(f"select count(*), count(distinct key.id) from {source.a.table}_log") == [(3, 3)]
    assert source.watermark == {300}
    assert source.is_set_aside is None
    assert lake.rows(f"select * from tidings.set_aside where topic like '{unique_name}%'") == []
    source.transaction(4)
    lake.drain()
    assert (source.ids(source.a), source.watermark) == ([1, 2, 3, 4], {400})


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
def test_a_table_that_caught_up_claims_what_its_source_does(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """Also while another one is set aside."""
    source = Source(lake, topics, unique_name)
    source.transaction(1)
    lake.drain()
    source.belongs_to(source.a, "somebody")
    source.belongs_to(source.b, "somebody")
    source.transaction(2)
    lake.drain()
    source.belongs_to(source.a, source.a.topic)
    lake.drain()
    assert (source.ids(source.a), source.ids(source.b)) == ([1, 2], [1])
    assert source.watermark == {100}
    source.belongs_to(source.b, source.b.topic)
    lake.drain()
    assert (source.ids(source.b), source.watermark) == ([1, 2], {200})


@pytest.mark.spark
@pytest.mark.stack
def test_a_business_topic_is_set_aside_alone(lake: Lake, topics: Topics, unique_name: str) -> None:
    """Its table was made by somebody else; when that is gone, its events come."""
    lake.streams = ["business"]
    events = [f"{unique_name}.{name}-{unique_name}.v1" for name in "ab"]
    tables = [f"business.{name}_{unique_name}_v1" for name in "ab"]
    for topic in events:
        topics.create(topic)

    def publish(number: int) -> None:
        for topic in events:
            headers = [("ce_id", f"{topic} {number}".encode())]
            schema = topics.register(f"{topic}-value", EVENT)
            topics.produce(topic, b"1", topics.encode(schema, {"order_id": 1}), headers)
        topics.flush()
        lake.drain()

    publish(1)
    lake.session.sql(f"ALTER TABLE {tables[0]} SET TBLPROPERTIES ('tidings.topic' = 'somebody')")
    publish(2)
    assert lake.rows(f"select count(*) from {tables[0]} union all select count(*) from {tables[1]}") == [
        (1,),
        (2,),
    ]
    lake.session.sql(f"ALTER TABLE {tables[0]} SET TBLPROPERTIES ('tidings.topic' = '{events[0]}')")
    lake.drain()
    assert lake.rows(f"select count(*) from {tables[0]}") == [(2,)]


@pytest.mark.spark
def test_whose_trouble_it_is(session: SparkSession) -> None:
    """What ends everything, such as Kafka, the catalog or the storage being away, is not a topic's own."""
    assert trouble_of_topic(KafkaUnreachableError("")) is None
    assert trouble_of_topic(SecondWriterError("")) is None
    assert trouble_of_topic(RuntimeError("")) is None
    assert trouble_of_topic(TableConflictError("why")).reason == "why"  # type: ignore[union-attr]
    assert trouble_of_topic(RecursionError()).code == "schema"  # type: ignore[union-attr]
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as mistake:
        session.sql("select there_is_none_of_this_name")
    assert trouble_of_topic(mistake.value).code == "schema"  # type: ignore[union-attr]
    java: Any = session.sparkContext._jvm.java  # type: ignore[union-attr]
    io = java.io.IOException
    for whole in (
        java.lang.RuntimeException("x", java.net.ConnectException("refused")),
        java.lang.RuntimeException("x", java.sql.SQLException("locked")),
        io("No space left on device"),
        java.lang.RuntimeException("Lost task 0.0: java.lang.OutOfMemoryError: Java heap space"),
    ):
        assert trouble_of_topic(Py4JJavaError("", whole)) is None
    trouble = trouble_of_topic(Py4JJavaError("", io("Permission denied: /a/value/of/somebody")))
    assert trouble is not None
    assert (trouble.code, trouble.reason) == ("table", "Spark or Iceberg refused: java.io.IOException")
