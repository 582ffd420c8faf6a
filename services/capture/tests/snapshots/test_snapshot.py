"""COPY's text format, and the markers of snapshot rows."""

from typing import Any

import pytest

from tidings_capture.postgres.snapshots.rows import SnapshotPoint, SnapshotRows, TableRows
from tidings_capture.postgres.wire.copy_format import parse_copy_line


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (b"1\tx\n", [b"1", b"x"]),
        (b"\\N\t\n", [None, b""]),
        (b"a\\tb\tc\\\\d\\ne\n", [b"a\tb", b"c\\d\ne"]),
        (b"\\\\N\n", [b"\\N"]),
        (b"\\\\x00ff\n", [b"\\x00ff"]),
        (b"\\b\\f\\r\\v\n", [b"\b\f\r\v"]),
        (b"\n", [b""]),
    ],
)
def test_lines(line: bytes, cells: Any) -> None:
    assert parse_copy_line(line) == cells


class MarkerPlan:
    def read_lines(self, lines: Any, context: Any) -> list[Any]:
        return [(None, line.rstrip() + b" " + context.snapshot.encode(), None) for line in lines]


class FakeRoute:
    def __init__(self, topic: str) -> None:
        self.topic, self.plan, self.records = topic, MarkerPlan(), 0


def markers(*tables: Any, batch: int = 100, mixed: bool = False) -> Any:
    sent, ended = [], []
    rows = SnapshotRows(
        SnapshotPoint("s", 1, 2, 3),
        lambda _topic, records: sent.extend(v.decode() for _, v, _ in records),
        lambda table: ended.append((table.name, len([v for v in sent if v.startswith(table.name + ".")]))),
    )
    opened = [
        TableRows(str(number), FakeRoute(str(number)), leads=number == 0) for number in range(len(tables))
    ]
    steps = []
    for number, count in enumerate(tables):
        lines = [f"{number}.{i}\n".encode() for i in range(count)]
        batches = [lines[i : i + batch] for i in range(0, count, batch)]
        steps += [(place, opened[number], found) for place, found in enumerate([*batches, None])]
    for _, table, found in sorted(steps, key=lambda step: step[0]) if mixed else steps:
        if found is None:
            rows.end(table)
        else:
            rows.take(table, found)
    rows.finish()
    assert rows.rows == sum(tables)
    # A table is told to be sent once, and when its last row has been.
    assert sorted(ended) == [(str(number), count) for number, count in enumerate(tables)]
    return sent


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
def test_precedence(batch: int) -> None:
    assert markers(3, 0, 3, 1, 2, batch=batch) == [
        "0.0 first",
        "0.1 true",
        "0.2 last_in_data_collection",
        "2.0 first_in_data_collection",
        "2.1 true",
        "2.2 last_in_data_collection",
        "3.0 last_in_data_collection",
        "4.0 first_in_data_collection",
        "4.1 last",
    ]


def test_one_row_is_the_last() -> None:
    assert markers(1) == ["0.0 last"]


def test_no_row_is_the_first_when_the_first_table_is_empty() -> None:
    assert markers(0, 1, 2) == ["1.0 last_in_data_collection", "2.0 first_in_data_collection", "2.1 last"]


def test_last_row_is_known_although_the_last_tables_are_empty() -> None:
    assert markers(2, 0, 0) == ["0.0 first", "0.1 last"]


def test_nothing_to_read() -> None:
    assert markers(0, 0) == []


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_tables_that_are_read_at_once(batch: int) -> None:
    sent = markers(4, 5, 0, 1, 6, batch=batch, mixed=True)
    found = [text.split() for text in sent]
    assert (found[0][1], found[-1][1]) == ("first", "last")
    inner = found[1:-1]
    assert "first" not in [marker for _, marker in inner]
    assert "last" not in [marker for _, marker in inner]
    for number, count in enumerate((4, 5, 0, 1, 6)):
        rows = [(row, marker) for row, marker in found if row.startswith(f"{number}.")]
        assert [row for row, _ in rows] == [f"{number}.{i}" for i in range(count)]
        assert all(marker == "true" for _, marker in rows[1:-1])
        if rows:
            assert rows[-1][1] in {"last_in_data_collection", "last", "first"}


@pytest.mark.parametrize("follows", [True, False])
def test_rows_behind_a_stream_say_as_of_which_position_they_are(follows: bool) -> None:
    sent = []
    point = SnapshotPoint("s", 38_668_664, 2, 3, follows=follows)
    rows = SnapshotRows(point, lambda _topic, records: sent.extend(records))
    table = TableRows("0", FakeRoute("0"), leads=True)
    rows.take(table, [b"1\n", b"2\n", b"3\n"])
    rows.end(table)
    rows.finish()
    assert [headers for _, _, headers in sent] == [[("tidings.as.of", b"38668664")] if follows else None] * 3
