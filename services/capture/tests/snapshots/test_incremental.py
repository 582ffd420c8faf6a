"""Incremental snapshots on a database and a stream in memory: which rows are sent, when, and what a restart goes on with."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidings_capture.cdc.errors import DatabaseError
from tidings_capture.cdc.event_context import EventContext
from tidings_capture.cdc.incremental.chunks import ChunkTable
from tidings_capture.cdc.incremental.snapshot import IncrementalSnapshots
from tidings_capture.cdc.route import Route
from tidings_capture.cdc.signals.channels import Signal
from tidings_capture.cdc.signals.options import SignalOptions
from tidings_capture.cdc.tables import Column, Table
from tidings_service import Retry

KEY = Column("id", 23, -1, "int4", not_null=True, key_position=1)
EXECUTE = {"data-collections": ["public.a"]}


class MemoryDatabase:
    """Tables with one column, by name."""

    def __init__(self, **tables: Any) -> None:
        self.tables = {name: sorted(rows) for name, rows in tables.items()}
        self.chunks = []
        self.error = None

    def captured(self) -> list[Any]:
        return [("public", name) for name in self.tables]

    def captures(self, schema: str, name: str) -> bool:
        return schema == "public"

    def table(self, schema: str, name: str) -> Table | None:
        return Table(schema, name, hash(name), (KEY,)) if name in self.tables else None

    def largest_key(self, table: Table, columns: Any, condition: Any) -> Any:
        rows = self.tables[table.name]
        return [str(rows[-1])] if rows else None

    def count(self, table: Table, condition: Any) -> int:
        return len(self.tables[table.name])

    def chunk(
        self, table: Table, columns: Any, condition: Any, after: Any, maximum: Any, limit: Any
    ) -> list[Any]:
        if self.error is not None:
            raise self.error
        first = int(after[0]) if after else 0
        rows = [n for n in self.tables[table.name] if first < n <= int(maximum[0])]
        self.chunks.append(rows[:limit])
        return [[b"%d" % n] for n in rows[:limit]]


class MemoryPlan:
    def __init__(self) -> None:
        self.read = self.read_incremental = lambda cells, context: [(cells[0], cells[0], None)]

    def change(self, data: Any, start: Any, context: Any) -> list[Any]:
        return [(data, b"streamed", None)]


class MemoryRoutes:
    def __init__(self) -> None:
        self.routes = {}
        self.counted = 0

    def of_table(self, table: Any) -> Any:
        return self.routes.get(table.name)

    def detached(self, table: Any) -> Route:
        return Route(table, MemoryPlan(), f"t.{table.name}")

    def count(self, topic: str, records: Any) -> None:
        self.counted += records

    def announce(self, table: Any) -> Any:
        route = self.routes[table.name] = Route(table, MemoryPlan(), f"t.{table.name}")
        return route


class MemoryWatermarks:
    def __init__(self, mark: Any = None) -> None:
        self.mark, self.opened, self.closed = mark, [], 0

    def open(self, chunk_id: Any, collection: Any) -> None:
        self.opened.append(chunk_id)

    def close(self) -> Any:
        self.closed += 1
        return self.mark

    def wait_for_visibility(self, streamed: Any) -> bool:
        return True


class MemoryStream:
    def __init__(self) -> None:
        self.context, self.recent_transactions, self.reached = EventContext(), [], 0

    def has_reached(self, mark: Any) -> bool:
        return self.reached >= mark


class Case:
    """A task's incremental snapshots; `read_only`: watermarks are places of the stream, else rows of a signal table."""

    def __init__(
        self, database: Any, *, read_only: bool = False, stored: Any = None, chunk_rows: int = 2
    ) -> None:
        self.sent, self.told = [], []
        self.database, self.routes, self.stream = database, MemoryRoutes(), MemoryStream()
        self.watermarks = MemoryWatermarks(100 if read_only else None)
        options = SignalOptions(
            table=None if read_only else ("public", "signals"), read_only=read_only, chunk_rows=chunk_rows
        )
        notifier = SimpleNamespace(
            enabled=True, tell=lambda kind, type_, data, id_=None: self.told.append((type_, data))
        )
        self.snapshots = IncrementalSnapshots(
            options,
            "c",
            database.captured,
            self.watermarks,
            ChunkTable(
                database,
                self.routes,
                "c",
                lambda topic, records: self.sent.extend((topic, int(value)) for _, value, _ in records),
                counts=True,
            ),
            SimpleNamespace(leave=lambda: None),
            notifier,
        )
        self.snapshots.attach(self.stream, stored)

    def execute(self, *names: Any) -> None:
        self.snapshots.execute(Signal("s", "execute-snapshot", {"data-collections": list(names)}))

    def close_window(self, of: int = -1) -> None:
        self.snapshots.close_window(f"{self.watermarks.opened[of]}-close")

    def statuses(self) -> list[Any]:
        return [data["status"] for type_, data in self.told if type_ == "TABLE_SCAN_COMPLETED"]

    def finish(self) -> Any:
        for _ in range(20):
            if self.snapshots.state() is None:
                return self
            self.close_window()
        raise AssertionError("it does not end")


def test_a_chunk_is_sent_at_its_high_watermark_and_the_next_one_read_behind_it() -> None:
    case = Case(MemoryDatabase(a=[1, 2, 3]))
    case.execute("public.a")
    assert case.database.chunks == [[1, 2]]
    assert case.sent == []
    case.close_window()
    assert case.sent == [("t.a", 1), ("t.a", 2)]
    assert case.database.chunks == [[1, 2], [3]]
    case.finish()
    assert case.sent == [("t.a", 1), ("t.a", 2), ("t.a", 3)]
    assert case.routes.counted == 3
    assert case.statuses() == ["SUCCEEDED"]
    assert [type_ for type_, _ in case.told][-1] == "COMPLETED"


def test_a_row_that_the_stream_changes_within_the_window_is_left_to_the_stream() -> None:
    case = Case(MemoryDatabase(a=[1, 2, 3, 4]), chunk_rows=4)
    route = case.routes.announce(case.database.table("public", "a"))
    case.execute("public.a")
    route.plan.change(b"1", 0, EventContext())  # its commit may not have been visible when the chunk was read
    route.plan.change(b"3", 0, EventContext())
    case.close_window()
    route.plan.change(b"4", 0, EventContext())
    assert [number for _, number in case.sent] == [2, 4]
    assert isinstance(route.plan, MemoryPlan), "nobody watches the table any more"


def test_a_watermark_of_another_run_opens_and_closes_nothing() -> None:
    case = Case(MemoryDatabase(a=[1]))
    case.execute("public.a")
    case.snapshots.close_window("of-another-close")
    assert case.sent == []
    case.finish()
    case.close_window(of=0)
    assert case.sent == [("t.a", 1)]


def test_read_only_a_chunk_is_sent_when_the_stream_has_reached_the_logs_end() -> None:
    case = Case(MemoryDatabase(a=[1, 2, 3]), read_only=True, chunk_rows=3)
    route = case.routes.announce(case.database.table("public", "a"))
    case.execute("public.a")
    assert case.snapshots.waiting
    case.stream.reached = 99
    case.snapshots.poll()
    assert case.sent == []
    route.plan.change(b"2", 0, EventContext())
    case.stream.reached = 100
    case.snapshots.poll()
    assert [number for _, number in case.sent] == [1, 3]
    case.snapshots.poll()
    assert case.snapshots.state() is None
    assert not case.snapshots.waiting


@pytest.mark.parametrize("sent", [0, 1, 2])
def test_a_restart_goes_on_behind_the_last_row_that_was_sent(sent: int) -> None:
    first = Case(MemoryDatabase(a=range(1, 7), b=[1]))
    first.execute("public.a", "public.b")
    for _ in range(sent):
        first.close_window()
    second = Case(MemoryDatabase(a=range(1, 9), b=[1]), stored=first.snapshots.state()).finish()
    # Rows that are larger than the largest key at the beginning come from the stream.
    rows = [("t.a", number) for number in range(1, 7)]
    assert first.sent + second.sent == [*rows, ("t.b", 1)]
    assert second.sent[0] == ("t.a", 2 * sent + 1)


def test_pause_and_resume() -> None:
    case = Case(MemoryDatabase(a=range(1, 7)))
    case.execute("public.a")
    case.snapshots.pause()
    case.close_window()
    assert len(case.database.chunks) == 1, "a chunk was read while it is paused"
    assert len(case.sent) == 2, "what was read is sent"
    case.snapshots.resume()
    case.finish()
    assert len(case.sent) == 6


def test_a_chunk_that_waits_for_its_watermark_is_not_read_again_by_resume() -> None:
    case = Case(MemoryDatabase(a=range(1, 7)))
    case.execute("public.a")
    case.snapshots.pause()
    case.snapshots.resume()
    assert case.database.chunks == [[1, 2]]


def test_a_full_disk_of_the_server_holds_it() -> None:
    case = Case(MemoryDatabase(a=range(1, 7)))
    case.snapshots.hold(True)
    case.execute("public.a")
    assert case.database.chunks == []
    case.snapshots.resume()
    assert case.database.chunks == [], "an operator's resume is another matter"
    case.snapshots.hold(False)
    assert case.database.chunks == [[1, 2]]


def test_stop_of_a_table_that_is_read_and_of_one_that_waits() -> None:
    case = Case(MemoryDatabase(a=range(1, 7), b=[1], c=[1]))
    case.execute("public.a", "public.b", "public.c")
    case.snapshots.stop(Signal("x", "stop-snapshot", {"data-collections": ["public.a", "public.c"]}))
    case.finish()
    assert case.sent == [("t.a", 1), ("t.a", 2), ("t.b", 1)]
    assert [data for type_, data in case.told if type_ == "ABORTED"] == [
        {"data_collections": "public.c,public.a"}
    ]


def test_a_table_that_changes_is_read_again_after_the_batch() -> None:
    case = Case(MemoryDatabase(a=[1, 2, 3]))
    table = case.database.table("public", "a")
    case.routes.announce(table)
    case.execute("public.a")
    case.routes.announce(table)
    case.snapshots.on_table(("public", "a"))
    assert len(case.database.chunks) == 1, "the database was asked while a row is converted"
    case.close_window()  # of the chunk that is given up
    assert case.sent == []
    case.snapshots.poll()
    assert case.database.chunks == [[1, 2], [1, 2]]
    case.finish()
    assert [number for _, number in case.sent] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "status"), [("public.nothing", "UNKNOWN_SCHEMA"), ("public.empty", "EMPTY")]
)
def test_a_table_that_cannot_be_read_does_not_keep_the_next_one_back(name: str, status: str) -> None:
    case = Case(MemoryDatabase(a=[1], empty=[]))
    case.execute(name, "public.a")
    case.finish()
    assert case.statuses() == [status, "SUCCEEDED"]
    assert case.sent == [("t.a", 1)]


def test_a_query_that_is_refused_leaves_the_table_out_but_a_lost_connection_ends_the_task() -> None:
    case = Case(MemoryDatabase(a=[1]))
    case.database.error = DatabaseError("no", retry=Retry.NEVER)
    case.execute("public.a")
    assert case.statuses() == ["SQL_EXCEPTION"]
    assert case.snapshots.state() is None
    case.database.error = DatabaseError("gone", retry=Retry.TIMED)
    with pytest.raises(DatabaseError):
        case.execute("public.a")
    assert case.snapshots.state() is not None, "the next start goes on with it"


@pytest.mark.parametrize("data", [{}, {"data-collections": []}, {"data-collections": "public.a"}])
def test_a_signal_without_tables_is_left_out(data: Any) -> None:
    case = Case(MemoryDatabase(a=[1]))
    case.snapshots.execute(Signal("s", "execute-snapshot", data))
    assert case.snapshots.state() is None
