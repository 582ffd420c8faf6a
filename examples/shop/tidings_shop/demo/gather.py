"""Gathers what the verdict compares: from the database, from the topics, and from the lake."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tidings_shop.database import ShopDatabase
from tidings_shop.demo import lake
from tidings_shop.demo.broker import TopicCount, read_topics, topic_of
from tidings_shop.demo.checks import KEYS, EventCheck, Row, Verdict, compare_table
from tidings_shop.demo.shown import EVENTS
from tidings_shop.traffic import TrafficSummary
from tidings_stack.pipeline.view import snake

DEAD_LETTERS = "tidings.shop.dead-letters"
VERSIONS = [(name, version) for name, versions in EVENTS for version in versions]


def gather(
    summary: TrafficSummary,
    *,
    database_url: str,
    bootstrap: str,
    environment: Mapping[str, str],
    directory: Path,
    remarks: tuple[str, ...] = (),
) -> Verdict:
    """Ask everybody, and put the answers side by side.

    Raises:
        DemoError: when a topic or the lake cannot be read.
        ShopError: when the database cannot be read.
    """
    technical = {f"shop.public.{table}": table for table in KEYS}
    business = {topic_of(*one): event_table(*one) for one in VERSIONS}
    with ShopDatabase(database_url) as database:
        rows: dict[str, list[Row]] = {table: list(database.rows(table)) for table in KEYS}
    topics = read_topics(bootstrap, [*technical, *business, DEAD_LETTERS])
    # The lake has no table for a topic that nothing has ever been written to.
    in_lake = lake.ask(
        [table for topic, table in technical.items() if topics[topic].records],
        [table for topic, table in business.items() if topics[topic].records],
        environment=environment,
        directory=directory,
    )
    return verdict_of(summary, rows, topics, in_lake, remarks)


def verdict_of(
    summary: TrafficSummary,
    rows: Mapping[str, list[Row]],
    topics: Mapping[str, TopicCount],
    in_lake: Mapping[str, Sequence[Row]],
    remarks: tuple[str, ...] = (),
) -> Verdict:
    """Put the answers side by side; `in_lake` has the rows of tables, and one row of counts of event tables."""
    events = []
    for name, version in VERSIONS:
        count = topics[topic_of(name, version)]
        answer = next(iter(in_lake.get(event_table(name, version), ())), {"records": 0, "ids": 0})
        # The orders that are there, whatever traffic believes; nothing in the tables counts the other events.
        expected = len(rows["orders"]) if name == "OrderPlaced" else summary.facts[name]
        events.append(
            EventCheck(
                name,
                version,
                expected,
                records=count.records,
                distinct=len(count.ids),
                in_lake=_int(answer["records"]),
                distinct_in_lake=_int(answer["ids"]),
            )
        )
    tables = [compare_table(table, rows[table], in_lake.get(table, ())) for table in KEYS]
    return Verdict(tuple(events), tuple(tables), topics[DEAD_LETTERS].records, remarks)


def event_table(name: str, version: int) -> str:
    """The lake's table of a version of an event."""
    return f"{snake(name)}_v{version}"


def _int(value: object) -> int:
    return int(str(value))
