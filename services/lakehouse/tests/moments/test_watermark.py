"""`tidings.watermark`: up to which commit all tables of a source are complete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from lakelab.rows import order
from lakelab.topics import MarkerTopic
from structlog.testing import capture_logs

from tidings_envelope.gtid import ROWS
from tidings_lakehouse.metrics import COMMITS_OUT_OF_ORDER
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.system_tables import Watermark, WatermarkTable
from tidings_lakehouse.topics import TRANSACTION_LOG
from tidings_lakehouse.watermark.stored_position import position_of

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

OURS: dict[str, object] = {"tidings_history": "{}"}
"""In offsets that our capture stores."""


@pytest.mark.turns
def test_it_follows_the_end_markers_of_the_source(lake: Lake, topics: Topics, unique_name: str) -> None:
    """It waits for a snapshot and for what END markers count, over restarts, and advances while a table rests."""
    markers = MarkerTopic(topics, unique_name)
    first, second = f"a_{unique_name}", f"b_{unique_name}"
    a = topics.table(f"{unique_name}.public.{first}", partitions=2)
    b = topics.table(f"{unique_name}.public.{second}")

    def watermarks() -> dict[str, int | None]:
        topics.flush()
        lake.drain()
        found = lake.rows(
            "select table_name, commit_lsn from tidings.watermark where stream = 'technical' and topic like"
            f" '{unique_name}.%'"
        )
        return dict(found)

    a.change("r", order(1), None, 50, snapshot="first")
    b.change("r", order(1), None, 50, snapshot="last")
    assert set(watermarks().values()) == {None}
    markers.end(99, 100)
    tables = [a.table, f"{a.table}_log", b.table, f"{b.table}_log", "tidings.transaction_log"]
    assert watermarks() == dict.fromkeys(tables, 100)

    a.change("u", order(1), 100, 110, partition=1)
    markers.end(110, 120, **{first: 1})
    markers.end(130, 140, **{second: 1, "not.taken": 7})
    a.change("u", order(1), 140, 150)
    left_out = {"filtered": {f"public.{first}": 2}, "failed": {f"public.{first}": 1}}
    markers.end(150, 160, left_out, **{first: 4})
    assert watermarks() == dict.fromkeys(tables, 120)
    b.change("u", order(1), 120, 130)
    topics.flush()
    lake.drain_and_crash(f"log:{b.table}_log")
    assert watermarks() == dict.fromkeys(tables, 160)
    markers.end(170, 180, **{second: 1})
    topics.flush()
    lake.drain_and_crash("transactions")
    assert watermarks() == dict.fromkeys(tables, 160)
    lake.forget()
    b.change("u", order(1), 160, 170)
    assert watermarks() == dict.fromkeys(tables, 180)


def test_mariadb_numbers_that_go_back_are_told_over_restarts(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    markers = MarkerTopic(topics, unique_name)

    def told(*gtids: str) -> list[tuple[str, int, int]]:
        """First transaction, the number that it is behind, and how many there are."""
        before = COMMITS_OUT_OF_ORDER._value.get()
        markers.mariadb(*gtids)
        topics.flush()
        with capture_logs() as logs:
            lake.drain()
        found = [one for one in logs if one["event"].startswith("sequence numbers go back")]
        assert COMMITS_OUT_OF_ORDER._value.get() - before == sum(one["transactions"] for one in found)
        return [(one["first"], one["behind"], one["transactions"]) for one in found]

    assert told("0-1-5", "0-1-6", "0-2-7") == []
    # The connector has crashed, and tells again what it had told, and before that what the job had not seen.
    assert told("0-3-4", "0-1-5", "0-1-6", "0-2-7", "0-1-8") == []
    assert told("0-2-8", "0-9-6", "0-2-9") == [("0-2-8", 8, 2)]
    assert told("0-2-9", "0-2-10") == []
    assert lake.rows(
        f"select commit_lsn from tidings.watermark where stream = 'technical' and topic = '{markers.topic}'"
    ) == [(10 * ROWS,)]


def test_jobs_of_two_sources_take_turns_in_one_warehouse(lake: Lake, unique_name: str) -> None:
    """Each goes on where its own watermark was, whichever has written last."""
    name = f"{unique_name}_watermarks"
    sources = [f"{unique_name}.{source}" for source in "ab"]
    for number, source in enumerate(sources, 1):
        table = WatermarkTable(lake.session, name, Commits(lake.session))
        assert table.row(TRANSACTION_LOG, f"{source}.transaction") is None
        table.take([Watermark(TRANSACTION_LOG, f"{source}.transaction", number, number, None, None)], 0)
        table.take([Watermark("technical.orders", f"{source}.public.orders", number, None, None, None)], 0)
        table.write()
    table = WatermarkTable(lake.session, name, Commits(lake.session))
    found = [table.row(TRANSACTION_LOG, f"{source}.transaction") for source in sources]
    assert [row and row.commit_lsn for row in found] == [1, 2]
    of_table = [table.row("technical.orders", f"{source}.public.orders") for source in sources]
    assert [row and row.commit_lsn for row in of_table] == [None, 2], "a table belongs to one topic"


def test_it_follows_the_stored_position_while_the_database_rests(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """Behind a first snapshot no END comes as long as nobody commits; the connector's worker stores its position."""
    MarkerTopic(topics, unique_name)
    table = topics.table(f"{unique_name}.public.w_{unique_name}", partitions=2)
    topics.create(f"{unique_name}-offsets")
    lake.settings = lake.settings.model_copy(update={"lakehouse_offsets_topic": f"{unique_name}-offsets"})

    def watermark(**offset: object) -> set[int | None]:
        if offset:
            key = json.dumps(["connector", {"server": unique_name}]).encode()
            topics.produce(f"{unique_name}-offsets", key, json.dumps(offset).encode())
        topics.flush()
        lake.drain()
        where = f"where topic like '{unique_name}.%'"
        return {one[0] for one in lake.rows(f"select commit_lsn from tidings.watermark {where}")}

    table.change("r", order(1), None, 50, snapshot="last")
    assert watermark(**OURS, lsn=50, lsn_proc=50, snapshot="INITIAL", snapshot_completed=False) == {None}
    assert watermark(**OURS, lsn=100, lsn_proc=100) == {100}
    table.change("u", order(1), None, 110)
    assert watermark() == {100}
    lake.forget()
    assert watermark(**OURS, lsn=130, lsn_proc=130) == {130}


@pytest.mark.parametrize(
    ("offset", "position"),
    [
        (OURS | {"lsn": 50, "lsn_proc": 50, "snapshot": "INITIAL", "snapshot_completed": False}, None),
        (OURS | {"lsn": 50, "snapshot": "INITIAL", "snapshot_completed": True}, None),
        (OURS | {"lsn": 100, "lsn_proc": 100}, 100),
        ({"lsn": 90, "lsn_proc": 90}, None),  # of real Debezium: it may be a row's
        ({"lsn": 90, "lsn_proc": 90, "lsn_commit": 80}, 80),
        # of MariaDB
        ({"gtids": "0-1-42", "pos": 4, "tidings_rows": "0-1-43:7"}, 42 << 24),
        ({"gtids": "0-1-42", "snapshot": "INITIAL"}, None),
        ({"gtids": "0-1-42,7-1-3"}, None),
        ({"gtids": ""}, None),
    ],
)
def test_which_commit_a_stored_offset_is_behind(offset: dict[str, object], position: int | None) -> None:
    assert position_of(json.dumps(offset)) == position


def test_of_several_replication_domains_the_sources_one_counts() -> None:
    offset = json.dumps({"gtids": "0-1-42,7-1-3"})
    assert [position_of(offset, domain) for domain in (0, 7, 8)] == [42 << 24, 3 << 24, None]


def test_without_transaction_metadata_a_table_speaks_for_itself(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    """Once every partition has told how far it is."""
    table = topics.table(f"{unique_name}.public.w_{unique_name}", partitions=2)
    where = f"where table_name = '{table.table}'"
    found = []
    table.change("r", order(1), None, 100, snapshot="last")
    for commit, partition in ((110, 0), (120, 1), (130, 0)):
        table.change("u", order(1), commit, commit + 5, partition=partition)
        topics.flush()
        lake.drain()
        found.append(lake.rows(f"select commit_lsn from tidings.watermark {where}")[0][0])
    assert found == [None, 110, 120]
