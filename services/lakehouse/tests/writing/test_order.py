"""Which change of a row wins, by their places in the stream, whatever the order in which they are read.

All cases are read by the same runs of the job, each from a topic of its own: step by step, and then once more from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import TableTopic, Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PLACEHOLDER = "__debezium_unavailable_value"
Write = Callable[["TableTopic"], None]
Rows = list[tuple[int, str | None]]


def order(number: int, note: str | None = "n") -> dict[str, Any]:
    return {
        "id": number,
        "status": "placed",
        "note": note,
        "amount": Decimal("12.34"),
        "required_on": 19000,
        "ordered_at": "2024-01-01T00:00:00.123456Z",
        "updated_at": 1_700_000_000_000_000,
    }


def change(op: str, number: int, note: str | None, commit: int | None, lsn: int, **more: Any) -> Write:
    row = {"id": number} if op == "d" else order(number, note)
    return lambda topic: topic.change(op, row, commit, lsn, **more)


def read(number: int, note: str, lsn: int, commit: int | None = None) -> Write:
    """By a first snapshot, or a blocking one."""
    return change("r", number, note, commit, lsn, snapshot="true")


def read_again(number: int, note: str, commit: int | None, lsn: int) -> Write:
    return lambda topic: topic.read_again(order(number, note), commit, lsn)


def gone(number: int, commit: int | None, lsn: int) -> Write:
    return lambda topic: topic.found_gone({"id": number}, commit, lsn)


def truncate(commit: int, lsn: int) -> Write:
    return lambda topic: topic.truncate(commit, lsn)


CASES: dict[str, list[tuple[list[Write], Rows]]] = {
    # After a crash capture repeats rows; the repetition may arrive behind newer ones, in a batch of its own.
    "redelivered_rows_change_nothing": [
        (
            [
                change("c", 1, "first", 10, 20),
                change("c", 2, "first", 10, 21),
                change("u", 1, "second", 25, 30),
                change("d", 2, None, 35, 40),
            ],
            [(1, "second")],
        ),
        ([change("c", 1, "first", 10, 20), change("c", 2, "first", 10, 21)], [(1, "second")]),
    ],
    "order_is_that_of_positions_not_of_offsets": [
        ([change("u", 1, "newer", 25, 30), change("c", 1, "older", 10, 20)], [(1, "newer")]),
    ],
    "a_row_written_before_the_snapshot_and_committed_after_it_is_newer": [
        ([read(1, "snapshot", 100), change("u", 1, "committed later", None, 90)], [(1, "committed later")]),
    ],
    "a_second_snapshot_is_newer_than_what_was_committed_before_it": [
        ([change("c", 1, "streamed", 10, 20)], [(1, "streamed")]),
        ([read(1, "again", 200)], [(1, "again")]),
    ],
    # After a gap: a row that was changed in it, one deleted and inserted again, one never seen.
    "an_incremental_snapshot_repairs_rows": [
        (
            [change("c", 1, "before", 10, 20), change("c", 2, "n", 10, 21), change("d", 2, None, 25, 30)],
            [(1, "before")],
        ),
        (
            [
                read_again(1, "changed in the gap", 100, 105),
                read_again(2, "inserted again in the gap", 100, 105),
                read_again(3, "inserted in the gap", 100, 105),
            ],
            [(1, "changed in the gap"), (2, "inserted again in the gap"), (3, "inserted in the gap")],
        ),
        (
            [change("c", 1, "before", 10, 20), change("d", 2, None, 25, 30)],
            [(1, "changed in the gap"), (2, "inserted again in the gap"), (3, "inserted in the gap")],
        ),
    ],
    # They were deleted in a gap. What is redelivered afterwards does not bring them back; a new row with their key does.
    "rows_that_an_incremental_snapshot_found_gone_leave_the_table": [
        ([change("c", n, "n", 10, 20) for n in (1, 2, 3)], [(1, "n"), (2, "n"), (3, "n")]),
        (
            [read_again(1, "still there", 100, 105), gone(2, 100, 105), gone(3, None, 105)],
            [(1, "still there")],
        ),
        (
            [change("c", 2, "n", 10, 20), change("c", 3, "a new one", 110, 120)],
            [(1, "still there"), (3, "a new one")],
        ),
    ],
    # What was committed before it is older, what was committed after it is newer: in one batch and in several.
    "a_row_read_by_an_incremental_snapshot_has_its_place_in_the_stream": [
        (
            [
                change("c", 1, "older", 10, 20),
                change("c", 2, "older", 10, 20),
                *[read_again(n, "read", 25, 30) for n in (1, 2, 3)],
                change("u", 1, "newer", 35, 40),
                change("d", 3, None, 45, 50),
                change("c", 1, "older", 10, 20),
            ],
            [(1, "newer"), (2, "read")],
        ),
        ([change("u", 2, "newer", 55, 60)], [(1, "newer"), (2, "newer")]),
    ],
    # A window that closes between two transactions names the last change before it, which a crash may repeat.
    "a_read_row_wins_over_the_change_at_its_own_place": [
        (
            [
                change("c", 1, "streamed", 10, 20),
                read_again(1, "read", 10, 20),
                change("c", 1, "streamed", 10, 20),
            ],
            [(1, "read")],
        )
    ]
    * 2,
    # The same of a row that it found gone; of two of its records at one place the later one counts.
    "a_row_that_was_found_gone_at_its_own_place_is_gone": [
        (
            [
                change("c", 1, "streamed", 10, 20),
                *[read_again(n, "read", 10, 20) for n in (2, 3)],
                *[gone(n, 10, 20) for n in (1, 3)],
                change("c", 1, "streamed", 10, 20),
                gone(4, 10, 20),
                read_again(4, "read", 10, 20),
            ],
            [(2, "read"), (4, "read")],
        ),
        ([gone(2, 10, 20)], [(4, "read")]),
    ],
    # It does not know the last commit: after a new slot without a snapshot, or before an incremental one.
    "the_first_transaction_of_a_new_stream_is_newer_than_the_old_stream": [
        ([read(1, "snapshot", 100), change("u", 1, "old stream", 500, 510)], [(1, "old stream")]),
        (
            [change("u", 1, "new stream", None, 900), read_again(2, "read", None, 910)],
            [(1, "new stream"), (2, "read")],
        ),
    ],
    # It reads beside a stream that stands still, whose next transaction may have begun before it.
    "a_blocking_snapshot_has_its_place_in_the_stream": [
        (
            [
                change("c", 1, "older", 10, 20),
                read(1, "read", 60, 30),
                read(2, "read", 60, 30),
                change("u", 2, "newer", 30, 55),
            ],
            [(1, "read"), (2, "newer")],
        ),
    ],
    "the_first_transaction_of_one_stream_is_older_than_the_snapshot_of_the_next": [
        (
            [
                read(1, "first snapshot", 100),
                change("u", 1, "committed after it", None, 90),
                change("d", 2, None, None, 95),
                read(1, "second snapshot", 200),
                read(2, "second snapshot", 200),
            ],
            [(1, "second snapshot"), (2, "second snapshot")],
        ),
    ],
    # TOAST: the newest value that was logged, from the table or from the same batch.
    "values_out_of_line_are_kept": [
        ([change("c", 1, "kept", 10, 20)], [(1, "kept")]),
        (
            [
                change("u", 1, PLACEHOLDER, 25, 30),
                change("c", 2, "made", 35, 40),
                change("u", 2, PLACEHOLDER, 45, 50),
                change("u", 2, None, 55, 60),
                change("u", 2, PLACEHOLDER, 65, 70),
                change("c", 3, "one", 75, 80),
                change("u", 3, PLACEHOLDER, 85, 90),
            ],
            [(1, "kept"), (2, None), (3, "one")],
        ),
    ],
    "truncate_removes_what_is_older": [
        ([change("c", 1, "n", 10, 20)], [(1, "n")]),
        ([change("c", 2, "n", 25, 30), truncate(35, 40), change("c", 3, "n", 45, 50)], [(3, "n")]),
        ([change("c", 2, "n", 25, 30), change("u", 3, "later", 55, 60)], [(3, "later")]),
    ],
}


@pytest.mark.turns
def test_what_a_table_holds_is_decided_by_places_in_the_stream(
    lake: Lake, topics: Topics, unique_name: str
) -> None:
    tables = {name: topics.table(f"{unique_name}.public.{name}_{unique_name}") for name in CASES}

    def found() -> dict[str, list[tuple[Any, ...]]]:
        return {
            name: lake.rows(f"select id, note from {topic.table} order by id")
            for name, topic in tables.items()
        }

    expected: dict[str, Rows] = {}
    for step in range(max(len(steps) for steps in CASES.values())):
        for name, steps in CASES.items():
            if step < len(steps):
                writes, expected[name] = steps[step]
                for write in writes:
                    write(tables[name])
        topics.flush()
        lake.drain()
        assert found() == expected
    lake.forget()
    lake.drain()
    assert found() == expected
    for name, topic in tables.items():
        rows, offsets, end = lake.rows(
            f"select count(*), count(distinct offset), max(offset) + 1 from {topic.table}_log"
        )[0]
        assert rows == offsets == end, name


@pytest.mark.usefixtures("size")
def test_rows_that_are_read_again_mend_a_current_state(lake: Lake, topics: Topics, unique_name: str) -> None:
    """An incremental snapshot of the rows that an audit names mends them; no other row is written."""
    topic = topics.table(f"{unique_name}.public.m_{unique_name}")
    for number in range(1, 6):
        change("c", number, "right", 10 * number, 10 * number + 5)(topic)
    topics.flush()
    lake.drain()
    sound = lake.rows(f"select * from {topic.table} where id = 4")
    lake.session.sql(f"insert into {topic.table} select * from {topic.table} where id = 1")
    lake.session.sql(f"update {topic.table} set note = 'wrong' where id in (2, 5)")
    lake.session.sql(f"delete from {topic.table} where id = 3")
    lake.session.sql(
        f"insert into {topic.table} select 9 as id, * except (id) from {topic.table} where id = 4"
    )
    wrong: Rows = [(1, "right"), (1, "right"), (2, "wrong"), (4, "right"), (5, "wrong"), (9, "right")]
    assert lake.rows(f"select id, note from {topic.table} order by id") == wrong
    change("c", 4, "right", 40, 45)(topic)  # redelivered: not all of the batch is newer than the table
    for number in (1, 2, 3, 5):  # 5 was changed last: it is read at its own place
        read_again(number, "right", 50, 55)(topic)
    topics.flush()
    lake.drain()
    right: Rows = [(number, "right") for number in range(1, 6)]
    # Nothing is read of a row that the database does not have: its delete has to be found.
    assert lake.rows(f"select id, note from {topic.table} order by id") == [*right, (9, "right")]
    gone(9, 40, 45)(topic)  # at the place of the row that it was copied of
    topics.flush()
    lake.drain()
    assert lake.rows(f"select id, note from {topic.table} order by id") == right
    assert lake.rows(f"select * from {topic.table} where id = 4") == sound
    marked = f"select op, key.id from {topic.table}_log where incremental order by offset"
    assert lake.rows(marked) == [("r", 1), ("r", 2), ("r", 3), ("r", 5), ("d", 9)]
