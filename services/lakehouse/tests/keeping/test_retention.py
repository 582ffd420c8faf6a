"""Old rows go by day, do not come back, and nobody is told a past that is not known any more."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from confluent_kafka import TopicPartition
from lakelab.lake import Lake
from lakelab.random_changes import DAY, WIDE, random_changes
from lakelab.topics import MarkerTopic, TableTopic, Topics

from tidings_lakehouse.errors import HistoryError, MomentError
from tidings_lakehouse.history.history import write_history
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.retention_rules import RETAINED_PROPERTY, retention_days, retention_rules
from tidings_lakehouse.settings import HistorySettings
from tidings_lakehouse.tables.table_counts import table_size

spark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(600)]
SEEDS = [int(seed) for seed in os.environ.get("TIDINGS_RETENTION_SEEDS", "1").split(",")]
EVENT: dict[str, Any] = {
    "type": "record",
    "name": "Moved",
    "fields": [{"name": "place", "type": "string"}],
}


def days_ago(topics: Topics, days: int) -> None:
    """What is written next has this age."""
    topics.flush()
    topics.timestamp_ms = int(time.time() * 1000) - days * DAY if days else 0


def keep(lake: Lake, text: str) -> None:
    lake.settings = lake.settings.model_copy(update={"lakehouse_retention": text})


def order(number: int, note: str) -> dict[str, Any]:
    row = dict.fromkeys(("status", "amount", "required_on", "ordered_at", "updated_at"))
    return {"id": number, **row, "note": note}


def logged(lake: Lake, orders: TableTopic) -> list[tuple[Any, ...]]:
    return lake.rows(f"select partition, offset from {orders.table}_log order by 1, 2")


@pytest.mark.parametrize(
    ("table", "days"),
    [
        ("technical.orders_log", 9),
        ("technical.other_log", 30),
        ("business.a_v1", None),
        ("x.technical.other_log", None),
    ],
)
def test_the_first_pattern_counts(table: str, days: int | None) -> None:
    rules = retention_rules(r"technical\.orders_log=9; technical\..*_log = 30;")
    assert retention_days(rules, table) == days


@pytest.mark.parametrize("text", ["technical.x", "=3", "a=0", "a=-1", "a=1.5", "(=3"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"at least one day|not a regular expression"):
        retention_rules(text)


@pytest.mark.turns
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_current_states_are_those_without_retention(
    lake: Lake, topics: Topics, unique_name: str, tmp_path: Path, seed: int
) -> None:
    """Whatever has come before old rows go, and also when all of it is read again; a log keeps what is young."""
    dated = Topics(topics.bootstrap, topics.registry)
    lakes, tables = [], []
    for letter in "ab":
        source = f"{unique_name}{letter}"
        update = {
            "source": source,
            "lakehouse_checkpoint": str(tmp_path / letter),
            "lakehouse_small_records": 10_000 * (seed % 2),
        }
        lakes.append(Lake(lake.session, lake.settings.model_copy(update=update)))
        tables.append(TableTopic(dated, f"{source}.public.o_{source}", WIDE, partitions=2))
    for turn in (0, 1, 3):  # nothing of the last one is older than what has gone
        for one, table in zip(lakes, tables, strict=True):
            if turn == 3:
                one.forget()
            random_changes(random.Random(f"{seed} {turn}"), table, turn)
            if turn == 1 and one is lakes[1]:
                keep(one, rf"technical\.o_{one.settings.source}_log={1 + seed % 2}")
            one.drain()

    def held(one: Lake, name: str, where: str = "true") -> list[str]:
        columns = [
            name for name in one.session.table(name).columns if not re.search(r"(topic|schema)_id$", name)
        ]
        whole = (
            f"to_json(struct({', '.join(f'`{name}`' for name in columns)}), map('ignoreNullFields', 'false'))"
        )
        rows = one.rows(f"select {whole} from {name} where {where}")
        return sorted(row[0].replace(one.settings.source, "S") for row in rows)

    assert held(lakes[1], tables[1].table) == held(lakes[0], tables[0].table) != []
    log = f"{tables[1].table}_log"
    [(_, first)] = lake.rows(f"show tblproperties {log}('{RETAINED_PROPERTY}')")
    kept = held(lakes[1], log)
    assert kept == held(lakes[0], f"{tables[0].table}_log", f"timestamp >= '{first}'")
    assert len(kept) < len(held(lakes[0], f"{tables[0].table}_log"))


@pytest.mark.usefixtures("lake")
class TestTrimming:
    pytestmark = spark

    def test_a_log(self, lake: Lake, topics: Topics, unique_name: str, tmp_path: Path) -> None:
        """The current state stays, and a deleted row does not come back when Kafka has lost its delete and all is read again."""
        orders = topics.table(f"{unique_name}.public.t_{unique_name}", partitions=2)
        days_ago(topics, 4)
        orders.change("c", order(1, "old"), 10, 20)
        orders.change("c", order(2, "gone"), 10, 21)
        days_ago(topics, 3)
        orders.change("d", order(2, "gone"), 30, 40, partition=1)
        days_ago(topics, 0)
        orders.change("c", order(3, "new"), 50, 60)
        topics.flush()
        lake.drain()
        assert logged(lake, orders) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
        keep(lake, rf"{orders.table}=1;{orders.table}_log=1".replace(".", r"\."))
        lake.drain()
        state = f"select id, note from {orders.table} order by id"
        assert lake.rows(state) == [(1, "old"), (3, "new")]
        assert logged(lake, orders) == [(0, 2)]
        assert table_size(lake.session, f"{orders.table}_log").delete_files == 0, "whole files have gone"
        with pytest.raises(HistoryError, match=f"{orders.table}_log has no rows of records before"):
            write_history(lake.session, unique_name, tmp_path / "history")
        orders.change("u", order(3, "newer"), 70, 80)
        topics.flush()
        for future in topics.admin.delete_records([TopicPartition(orders.topic, 1, 2)]).values():
            future.result(20)
        lake.forget()
        lake.drain()
        assert lake.rows(state) == [(1, "old"), (3, "newer")]
        assert logged(lake, orders) == [(0, 2), (0, 3)]

    def test_events_and_the_quarantine(self, lake: Lake, topics: Topics, unique_name: str) -> None:
        lake.streams = ["business"]
        topic, table = f"{unique_name}.moved-{unique_name}.v1", f"business.moved_{unique_name}_v1"
        topics.create(topic)
        schema = topics.register(f"{topic}-value", EVENT)

        def event(number: str) -> None:
            headers = [("ce_id", number.encode()), ("ce_subject", b"7")]
            topics.produce(topic, b"7", topics.encode(schema, {"place": number}), headers)

        days_ago(topics, 3)
        event("e1")
        topics.produce(topic, b"7", b"junk")
        days_ago(topics, 0)
        event("e2")
        topics.flush()
        keep(lake, r"business\..*=2;tidings\.quarantine=2")
        lake.drain()
        rows = f"select place from {table} order by place"
        set_aside = f"select count(*) from tidings.quarantine where topic = '{topic}'"
        assert (lake.rows(rows), lake.rows(set_aside)) == ([("e2",)], [(0,)])
        lake.forget()
        keep(lake, "")
        lake.drain()
        assert (lake.rows(rows), lake.rows(set_aside)) == ([("e2",)], [(0,)])
        # All tests share the quarantine, and a history refuses one that is not whole.
        lake.session.sql(f"ALTER TABLE tidings.quarantine UNSET TBLPROPERTIES ('{RETAINED_PROPERTY}')")

    def test_rows_that_the_watermark_has_not_passed_stay(
        self, lake: Lake, topics: Topics, unique_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = f"t_{unique_name}"
        lake.settings = lake.settings.model_copy(update={"source": unique_name})
        markers = MarkerTopic(topics, unique_name)
        table = topics.table(f"{unique_name}.public.{name}")
        days_ago(topics, 3)
        table.change("r", order(1, "read"), None, 90, snapshot="last")
        table.change("c", order(2, "whole"), 100, 110)
        markers.end(110, 120, **{name: 1})
        table.change("c", order(3, "half"), 120, 130)
        markers.end(130, 140, **{name: 2})
        days_ago(topics, 0)
        keep(lake, rf"technical\.{name}_log=1")
        lake.drain()
        assert logged(lake, table) == [(0, 0), (0, 1), (0, 2)]
        table.transaction = (130, 2)
        table.change("c", order(4, "half"), 120, 131)
        markers.end(150, 160)
        topics.flush()
        lake.drain()
        assert logged(lake, table) == [(0, 3)]
        assert lake.rows(f"select id from technical.{name} order by id") == [(1,), (2,), (3,), (4,)]
        monkeypatch.setenv("TIDINGS_SOURCE", unique_name)
        warehouse = urlsplit(str(lake.session.conf.get("spark.sql.catalog.lake.warehouse"))).path
        monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", url2pathname(warehouse))
        with duck_lake(HistorySettings()) as duck:
            source = SourceTables(duck, unique_name)
            moment = source.moment("140")
            with pytest.raises(MomentError, match=rf"technical\.{name}_log has no rows of records before"):
                source.as_of(moment, [f"technical.{name}"])
