"""Lines are the same however a stream is cut, and the position is always after the last one that was given."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_sinks.file.lines import Lines


def lines_of(pieces: Sequence[bytes], start: int = 0) -> tuple[list[tuple[str, int]], int]:
    """Each line with the position after it; and how much waits."""
    lines, found = Lines(start), []
    for piece in pieces:
        lines.take(piece)
        while (line := lines.next()) is not None:
            found.append((line, lines.position))
    return found, lines.waiting


@pytest.mark.parametrize(
    ("data", "expected", "waiting"),
    [
        (b"", [], 0),
        (b"a\nb", [("a", 2)], 1),
        (b"a\r\nb\n", [("a", 3), ("b", 5)], 0),
        (b"a\rb\n", [("a", 2), ("b", 4)], 0),
        (b"a\r", [], 2),
        (b"\n\r\n\r\rx", [("", 1), ("", 3), ("", 4), ("", 5)], 1),
        ("é\n✓\n".encode(), [("é", 3), ("✓", 7)], 0),
        (b"a\xff\n", [("a�", 3)], 0),
    ],
)
def test_lines_and_positions(data: bytes, expected: list[tuple[str, int]], waiting: int) -> None:
    assert lines_of([data]) == (expected, waiting)
    assert lines_of([bytes([byte]) for byte in data]) == (expected, waiting), "byte by byte"
    later = [(line, position + 100) for line, position in expected]
    assert lines_of([data], 100) == (later, waiting)


@given(st.lists(st.sampled_from([b"\r", b"\n", b"a", "é".encode()])), st.data())
def test_it_does_not_matter_where_a_stream_is_cut(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    found, waiting = lines_of(pieces)
    complete = re.findall(rb"(.*?)(?:\r\n|\n|\r(?!$))", whole, re.DOTALL)
    ends = [match.end() for match in re.finditer(rb"\r\n|\n|\r(?!\Z)", whole)]
    assert [position for _, position in found] == ends
    assert len(complete) >= len(ends)
    assert waiting == len(whole) - (ends[-1] if ends else 0)
    for (line, _), start, end in zip(found, [0, *ends], ends, strict=False):
        assert line == whole[start:end].decode().rstrip("\r\n")


def test_a_long_line_is_not_looked_through_again_and_again() -> None:
    lines = Lines()
    for _ in range(200):
        lines.take(b"x" * 1000)
        assert lines.next() is None
    lines.take(b"\r")
    assert lines.next() is None
    lines.take(b"\nrest")
    assert lines.next() == "x" * 200_000
    assert (lines.position, lines.waiting) == (200_002, 4)
