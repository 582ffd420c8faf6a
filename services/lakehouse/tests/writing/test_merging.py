"""Current states that are merged seldom, or not at all, and what the watermark says meanwhile."""

from __future__ import annotations

import contextlib
import random
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.lake import CrashError
from lakelab.random_changes import LATER, WIDE, random_changes
from lakelab.rows import order
from lakelab.topics import MarkerTopic

from tidings_lakehouse.errors import LakehouseError
from tidings_lakehouse.merge_rules import merge_rules, merge_seconds
from tidings_lakehouse.tables.tables import TOPIC_PROPERTY

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

spark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(900)]
SELDOM = "100000"


def merged(lake: Lake, often: str) -> None:
    """Have all current states of the test merged so often."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_merge": rf"technical\..*={often}"})


def leave(lake: Lake, point: str, times: int = 1) -> None:
    """Run until a point is passed so often, and end as a killed job would: what waits is not merged."""
    passed = []

    def crash(at: str) -> None:
        if at == point:
            passed.append(at)
            if len(passed) == times:
                raise CrashError

    with pytest.raises((LakehouseError, CrashError)):
        lake.drain(crash)


def held(lake: Lake, table: TableTopic) -> list[str]:
    """Its rows, and what the quarantine has of it."""
    columns = ", ".join(f"`{name}`" for name in lake.session.table(table.table).columns)
    whole = f"to_json(struct({columns}), map('ignoreNullFields', 'false'))"
    rows = lake.rows(f"select {whole} from {table.table}")
    aside = lake.rows(
        f"select partition, offset, reason from tidings.quarantine where topic = '{table.topic}'"
    )
    reasons = [
        (place, offset, re.sub(r"schema \d+", "", reason.replace(table.table, "")))
        for place, offset, reason in aside
    ]
    return sorted(row[0] for row in rows) + sorted(map(str, reasons))


def told(lake: Lake) -> Any:
    """The watermark of the test's source."""
    topic = f"{lake.settings.source}.transaction"
    return lake.rows(f"select commit_lsn from tidings.watermark where topic = '{topic}'")[0][0]


@pytest.mark.parametrize("text", ["a", "a=", "=3", "a=-1", "a=1.5", "(=3", "a=often"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not"):
        merge_rules(text)


def test_the_first_rule_that_names_a_table_counts() -> None:
    rules = merge_rules(r"technical\.a.*=never; technical\..*=60;technical.b=0")
    assert [merge_seconds(rules, f"technical.{name}") for name in ("ab", "b")] == [None, 60.0]
    assert merge_seconds(rules, "business.b") == 0.0


@pytest.mark.usefixtures("lake")
class TestMerging:
    pytestmark = spark

    @pytest.mark.turns
    def test_changes_wait_and_the_watermark_with_them(
        self, lake: Lake, topics: Topics, unique_name: str
    ) -> None:
        name = f"m_{unique_name}"
        markers, table = (
            MarkerTopic(topics, unique_name),
            topics.table(f"{unique_name}.public.m_{unique_name}"),
        )

        def change(op: str, number: int, commit: int) -> None:
            table.transaction = (commit + 10, 1)
            table.change(op, order(number, f"at {commit}"), commit, commit + 10)
            markers.end(commit + 10, commit + 20, **{name: 1})
            topics.flush()

        merged(lake, SELDOM)
        state = f"select id, note from {table.table} order by id"
        change("c", 1, 100)
        change("c", 2, 120)
        lake.drain()
        assert lake.rows(state) == [(1, "at 100"), (2, "at 120")]
        assert told(lake) == 140
        job = lake.job()
        try:  # the first batch of a job merges
            change("u", 1, 140)
            job.start()
            wait_for(lambda: told(lake) == 160)
            assert lake.rows(state) == [(1, "at 140"), (2, "at 120")]
            change("d", 2, 160)
            change("c", 3, 180)
            log = f"select count(*) from {table.table}_log"
            wait_for(lambda: lake.rows(log) == [(6,)])  # with a tombstone
            wait_for(lambda: not job._locks["technical"].locked())
            assert lake.rows(state) == [(1, "at 140"), (2, "at 120")]
            assert told(lake) == 160
        finally:
            job.stop()
        merged(lake, "0")  # what has waited is not forgotten when the rule goes
        lake.drain()
        assert lake.rows(state) == [(1, "at 140"), (3, "at 180")]
        assert told(lake) == 200

    @pytest.mark.long
    @pytest.mark.parametrize("seed", [1, 2])
    def test_the_same_rows_as_merged_with_every_batch(
        self, lake: Lake, topics: Topics, unique_name: str, seed: int
    ) -> None:
        """Whatever waits, is late, repeated, not logged or interrupted, whatever column comes, and however files are laid out."""
        chance = random.Random(seed)
        print("seed", seed)
        plain, waiting = (
            topics.table(f"{unique_name}.public.{name}_{unique_name}", WIDE, 2) for name in ("p", "w")
        )
        update = {
            "lakehouse_merge": rf"technical\.w_.*={SELDOM}",
            "lakehouse_max_records": 12,
            "lakehouse_small_records": 10_000 * (seed % 2),
        }
        lake.settings = lake.settings.model_copy(update=update)
        # What is not logged, and a TRUNCATE, is merged at once: so there are turns without.
        for turn, kinds in enumerate(("ccccuuudrix", "cccuuuudddrriijx", "cccuuuudddrritjx!")):
            # By several layouts, one after the other; the other table has none.
            layout = chance.choice(["bucket(3)", "bucket(2), status", "none sort id", "status", "none"])
            lake.settings = lake.settings.model_copy(
                update={"lakehouse_layout": rf"technical\.w_.*_log=month; technical\.w_.*={layout}"}
            )
            for table in (plain, waiting):
                if turn == 2:
                    table.use(LATER)
                random_changes(random.Random(f"{seed} {turn}"), table, turn, kinds)
            point = chance.choice(["log:", "current:", "staged:"]) + waiting.table
            with contextlib.suppress(pytest.fail.Exception):  # it is not passed so often
                leave(lake, point, chance.randrange(1, 3))
            if turn == 1 and seed % 2:
                lake.forget()
        lake.drain()
        assert held(lake, waiting) == held(lake, plain)

    def test_a_topic_that_is_set_aside_by_the_first_look_loses_nothing(
        self, lake: Lake, topics: Topics, unique_name: str
    ) -> None:
        """All tables are opened before a job's first batch is written."""
        table = topics.table(f"{unique_name}.public.s_{unique_name}")
        merged(lake, SELDOM)
        table.change("c", order(1, "a"), 100, 110)
        topics.flush()
        lake.drain()
        owned = f"ALTER TABLE {table.table}_log SET TBLPROPERTIES ('{TOPIC_PROPERTY}' = '{{}}')"
        lake.session.sql(owned.format("somebody"))
        table.change("c", order(2, "b"), 120, 130)
        topics.flush()
        lake.drain()
        lake.session.sql(owned.format(table.topic))
        lake.drain()
        assert lake.rows(f"select id, note from {table.table} order by id") == [(1, "a"), (2, "b")]

    def test_a_log_only_and_its_state_afterwards(self, lake: Lake, topics: Topics, unique_name: str) -> None:
        table = topics.table(f"{unique_name}.public.l_{unique_name}")
        merged(lake, "never")
        table.change("c", order(1, "a"), 100, 110)
        table.change("u", order(1, "b"), 120, 130)
        topics.flush()
        lake.drain()
        assert not lake.session.catalog.tableExists(table.table)
        merged(lake, "0")
        table.change("c", order(2, "c"), 140, 150)
        topics.flush()
        lake.drain()
        assert lake.rows(f"select id, note from {table.table} order by id") == [(1, "b"), (2, "c")]
        merged(lake, "never")  # it has a current state, which goes on
        table.change("u", order(2, "d"), 160, 170)
        topics.flush()
        lake.drain()
        assert lake.rows(f"select id, note from {table.table} order by id") == [(1, "b"), (2, "d")]


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
