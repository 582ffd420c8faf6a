"""The run of a snapshot by itself: a real server, no worker, and a Kafka in memory."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tidings_capture.cdc.signals.notifications import EncodedNotifications, Notifier
from tidings_capture.cdc.start import SnapshotWork, rest_of
from tidings_capture.postgres.client import Replication
from tidings_capture.postgres.encoding.output import TaskOutput
from tidings_capture.postgres.encoding.routes import Routes
from tidings_capture.postgres.errors import PostgresError
from tidings_capture.postgres.offsets.offset import SourceOffset, decode_offset, encode_offset
from tidings_capture.postgres.offsets.progress import TaskProgress
from tidings_capture.postgres.server.database import PostgresDatabase
from tidings_capture.postgres.server.setup import ensure_publication
from tidings_capture.postgres.settings.config import ConnectorConfig, read_connector_config
from tidings_capture.postgres.snapshots.snapshot import SnapshotRun
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.task.channel import TaskJob
from tidings_connect.task.checkpoints import AcknowledgedCheckpoints
from tidings_connect.task.topics import TaskTopics
from tidings_connect.testing.memory_kafka import (
    OFFSETS,
    MemoryKafka,
    MemoryOffsets,
    MemoryProducer,
    MemoryTopicMaker,
)
from tidings_service import Retry

Tables = list[tuple[str, str]]
TABLES: Tables = [("public", "a"), ("public", "b"), ("public", "c")]
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
KEY = b"position"


class Interrupted(Exception):
    """The task is to stop."""


class Bench:
    """The parts that a snapshot's run is given. Nothing of a run is left in it but what Kafka has."""

    def __init__(self, settings: dict[str, str], name: str, kafka: MemoryKafka) -> None:
        self._opened = ExitStack()
        self.config: ConnectorConfig = read_connector_config(name, settings | CONVERTERS, {}, "run")
        self.kafka = kafka
        self.name = name
        self.progress = TaskProgress()
        self.caught_up: list[tuple[SourceOffset, int]] = []
        self.on_wait: Callable[[], None] = lambda: None
        self.stored: list[SourceOffset] = []
        job = TaskJob(name, 0, settings, {}, {}, {}, {}, {}, OFFSETS, 100, topic_creation=True)
        producer = MemoryProducer(kafka)
        topics = TaskTopics(
            MemoryTopicMaker(kafka), self.config.topic_creation, TopicBounds([], name, ""), self._wait
        )
        checkpoints = AcknowledgedCheckpoints[SourceOffset](
            producer, MemoryOffsets(kafka), OFFSETS, self._encode, interval_seconds=0.0, on_wait=self._wait
        )
        output = TaskOutput(self.config, job, producer, topics)
        self._opened.callback(output.close)
        database = PostgresDatabase(self.config, lambda: None)
        self._opened.callback(database.close)
        ensure_publication(database.session, self.config, TABLES)
        notes = self.config.signals.notification_topic
        notifier = Notifier(
            self.config.signals,
            name,
            EncodedNotifications(notes, output.plan_converters, output.send, output.prepare_topic),
        )
        self.run = SnapshotRun(
            self.config,
            database,
            Routes(self.config, database.catalog, output.plan_converters, output.prepare_topic),
            output,
            checkpoints,
            notifier,
            self.progress,
            self._wait,
            self._catch_up,
        )

    def close(self) -> None:
        self._opened.close()

    def _encode(self, offset: SourceOffset) -> dict[bytes, bytes]:
        self.stored.append(offset)
        return {KEY: encode_offset(offset)}

    def _wait(self) -> None:
        self.on_wait()

    def _catch_up(self, position: SourceOffset, lsn: int) -> SourceOffset:
        self.caught_up.append((position, lsn))
        return position

    @property
    def position(self) -> SourceOffset:
        """What Kafka has."""
        found = decode_offset(self.kafka.offsets[KEY])
        assert found is not None
        return found

    def ids(self, table: str) -> list[int]:
        """The rows that came to a topic, in order."""
        records = self.kafka.topics.get(f"{self.name}.public.{table}", [])
        return [json.loads(value)["after"]["id"] for _, value, _ in records if value is not None]

    def done(self) -> list[str]:
        return [name for name, table in self.progress.tables.items() if table.state == "done"]


@pytest.fixture
def bench(
    connector_config: dict[str, str], unique_name: str, sql: Callable[..., Any]
) -> Iterator[Callable[..., Bench]]:
    kafka = MemoryKafka()
    for _, table in TABLES:
        sql(
            f"CREATE TABLE {table} (id int PRIMARY KEY)",
            f"INSERT INTO {table} SELECT generate_series(1, 3)",
        )
    with ExitStack() as opened:

        def make(**changes: str) -> Bench:
            settings = connector_config | changes
            return opened.enter_context(closing(Bench(settings, unique_name, kafka)))

        yield make


SLOTS = "SELECT slot_name, temporary FROM pg_replication_slots WHERE database = current_database() ORDER BY 1"


def test_a_first_snapshot_begins_where_its_slot_does_and_stores_table_by_table(
    bench: Callable[..., Bench], sql: Callable[..., Any], unique_name: str
) -> None:
    task = bench()
    end = task.run.take(SnapshotWork(TABLES))
    assert {table: task.ids(table) for _, table in TABLES} == {table: [1, 2, 3] for _, table in TABLES}
    assert task.caught_up == []
    assert sql(SLOTS) == [(unique_name, False)]
    ((lsn,),) = sql(
        f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{unique_name}'"
    )
    assert end.done_lsn == int(lsn)
    assert [offset.unfinished for offset in task.stored] == [
        (),
        ("public.a",),
        ("public.a", "public.b"),
        ("public.a", "public.b", "public.c"),
        None,
    ]
    assert {offset.done_lsn for offset in task.stored} == {end.done_lsn}
    assert task.position.snapshot == end.snapshot == "INITIAL"
    assert (task.progress.snapshot_rows, len(task.done())) == (9, 3)


def test_an_interrupted_one_goes_on_behind_the_stream_with_the_tables_that_are_left(
    bench: Callable[..., Bench], sql: Callable[..., Any], unique_name: str, wait_until: Callable[..., Any]
) -> None:
    first = bench()

    def stop_after_a_table() -> None:
        if first.done():
            raise Interrupted

    first.on_wait = stop_after_a_table
    with pytest.raises(Interrupted):
        first.run.take(SnapshotWork(TABLES))
    position = first.position
    assert position.unfinished == ("public.a",)
    sql("INSERT INTO a VALUES (4)", "INSERT INTO c VALUES (4)")

    second = bench()
    end = second.run.take(rest_of(TABLES, position.unfinished, position, {}))
    ((behind, until),) = second.caught_up
    assert behind == position
    assert until == end.done_lsn > position.done_lsn
    assert first.ids("a") == [1, 2, 3], "the row that came between is the stream's"
    assert first.ids("c") == [1, 2, 3, 4]
    assert (second.stored[0].unfinished, second.stored[-1].unfinished) == (("public.a",), None)
    # The server lets go of the one that gave the snapshot when it notices that its connection is closed.
    wait_until("the slot", lambda: sql(SLOTS) == [(unique_name, False)])


@pytest.fixture
def changed_on_the_way(sql: Callable[..., Any]) -> Callable[..., Callable[[], None]]:
    """What a task calls while it waits, which changes a table behind the snapshot's moment, before it is read."""

    def made(task: Bench, *statements: str) -> Callable[[], None]:
        left = list(statements)

        def change() -> None:
            while task.done() and left:
                sql(left.pop(0))  # each by itself: VACUUM is in no transaction

        return change

    return made


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE c ALTER id TYPE bigint",),
        ("ALTER TABLE part ALTER more TYPE bigint",),
        ("TRUNCATE c", "INSERT INTO c VALUES (1), (2), (3)", "INSERT INTO part VALUES (4)"),
    ],
)
def test_rows_that_the_snapshot_cannot_see_any_more_are_read_by_the_next(
    bench: Callable[..., Bench],
    sql: Callable[..., Any],
    changed_on_the_way: Callable[..., Callable[[], None]],
    statements: tuple[str, ...],
) -> None:
    """A table that was rewritten is empty to older snapshots, and no log has its rows."""
    sql("CREATE TABLE part (more int) INHERITS (c)", "INSERT INTO part VALUES (4)")
    first = bench()
    first.on_wait = changed_on_the_way(first, *statements)
    with pytest.raises(
        PostgresError, match=r"public\.(c|part) was rewritten, or truncated and filled"
    ) as raised:
        first.run.take(SnapshotWork(TABLES))
    assert raised.value.retry is Retry.TIMED
    unfinished = first.position.unfinished
    assert unfinished is not None
    assert "public.c" not in unfinished
    before = first.ids("c")
    second = bench()
    assert second.run.take(rest_of(TABLES, unfinished, first.position, {})).unfinished is None
    assert second.ids("c")[len(before) :] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("ALTER TABLE c RENAME more TO much", [1, 2, 3]),
        ("ALTER TABLE c DROP more", [1, 2, 3]),
        ("ALTER TABLE c RENAME TO d", []),
        ("DROP TABLE c", []),
    ],
)
def test_a_name_that_has_gone_behind_the_snapshot_s_moment_is_none_to_the_next(
    bench: Callable[..., Bench],
    sql: Callable[..., Any],
    changed_on_the_way: Callable[..., Callable[[], None]],
    statement: str,
    left: list[int],
) -> None:
    sql("ALTER TABLE c ADD more int")
    first = bench()
    first.on_wait = changed_on_the_way(first, statement)
    with pytest.raises(PostgresError, match=r"public\.c or a column of it was dropped or renamed") as raised:
        first.run.take(SnapshotWork(TABLES))
    assert raised.value.retry is Retry.TIMED
    unfinished = first.position.unfinished
    assert unfinished is not None
    assert "public.c" not in unfinished
    second = bench()
    tables = TABLES if left else TABLES[:-1]  # a task that starts chooses them anew
    assert second.run.take(rest_of(tables, unfinished, first.position, {})).unfinished is None
    assert second.ids("c") == left


@pytest.mark.parametrize(
    ("statement", "rows"),
    [("TRUNCATE c", []), ("VACUUM FULL c", [1, 2, 3]), ("CLUSTER c USING c_pkey", [1, 2, 3])],
)
def test_what_loses_no_row_ends_no_snapshot(
    bench: Callable[..., Bench],
    changed_on_the_way: Callable[..., Callable[[], None]],
    statement: str,
    rows: list[int],
) -> None:
    """VACUUM FULL and CLUSTER write a table anew, and older snapshots see it; one that is empty now has nothing to lose."""
    task = bench()
    task.on_wait = changed_on_the_way(task, statement)
    assert task.run.take(SnapshotWork(TABLES)).unfinished is None
    assert task.ids("c") == rows


def test_before_the_first_row_it_is_known_as_interrupted(bench: Callable[..., Bench]) -> None:
    task = bench()

    def stop_when_stored() -> None:
        if task.kafka.offsets:
            raise Interrupted

    task.on_wait = stop_when_stored
    with pytest.raises(Interrupted):
        task.run.take(SnapshotWork(TABLES))
    assert task.position.unfinished == ()
    assert [task.ids(table) for _, table in TABLES] == [[], [], []]


def test_a_mistake_in_a_blocking_one_s_sql_gives_it_up_and_the_stream_goes_on(
    bench: Callable[..., Bench],
) -> None:
    task = bench()
    position = task.run.take(SnapshotWork(TABLES))
    before = len(task.stored)
    work = SnapshotWork(
        TABLES, catch_up=position, selects={"public.b": "SELECT nothing FROM b"}, blocking=True
    )
    resume = task.run.take(work)
    assert resume.unfinished is None
    assert resume.done_lsn == task.caught_up[0][1] >= position.done_lsn
    assert len(task.stored) == before, "the stream stores its own positions"
    again = task.run.take(SnapshotWork([("public", "c")], catch_up=resume, blocking=True))
    assert (again.snapshot, again.unfinished) == (None, None)
    assert task.ids("c")[-3:] == [1, 2, 3]


def test_a_mistake_in_the_sql_of_any_other_ends_the_task(bench: Callable[..., Bench]) -> None:
    task = bench()
    with pytest.raises(PostgresError):
        task.run.take(SnapshotWork(TABLES, selects={"public.b": "SELECT nothing FROM b"}))
    assert task.position.unfinished is not None, "it is known as interrupted"


def test_a_slot_that_a_lost_connection_left_behind_is_no_hindrance(
    bench: Callable[..., Bench], sql: Callable[..., Any], unique_name: str, wait_until: Callable[..., Any]
) -> None:
    task = bench()
    position = task.run.take(SnapshotWork(TABLES))
    with closing(Replication(task.config.endpoint)) as former:
        former.create_slot(f"{unique_name}_snapshot"[:63], temporary=True, export=False)
        end = task.run.take(SnapshotWork([("public", "a")], catch_up=position))
        wait_until("the slot", lambda: [temporary for _, temporary in sql(SLOTS)] == [False, True])
    assert end.unfinished is None
    assert task.ids("a") == [1, 2, 3, 1, 2, 3]


def test_one_without_a_stream_leaves_no_slot(
    bench: Callable[..., Bench], sql: Callable[..., Any], wait_until: Callable[..., Any]
) -> None:
    task = bench(**{"snapshot.mode": "initial_only"})
    task.run.take(SnapshotWork(TABLES))
    assert task.ids("c") == [1, 2, 3]
    wait_until("the slot", lambda: sql(SLOTS) == [])


@pytest.mark.parametrize(("order", "first"), [("ascending", "a"), ("descending", "c")])
def test_tables_are_read_by_the_rows_that_the_server_estimates(
    bench: Callable[..., Bench], sql: Callable[..., Any], order: str, first: str
) -> None:
    sql("INSERT INTO c SELECT generate_series(4, 40)", "ANALYZE")
    task = bench(**{"snapshot.tables.order.by.row.count": order})
    task.run.take(SnapshotWork([("public", "a"), ("public", "c")]))
    assert task.stored[1].unfinished == (f"public.{first}",)
    assert task.progress.tables["public.c"].estimated == 40
