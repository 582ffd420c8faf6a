"""What the lab of MariaDB and MySQL says of a connector that began in the midst of changes, by made-up topics."""

from collections.abc import Mapping

import pytest
from binloglab.verdict import Row, begun

Change = tuple[str, int | None, int | None]
ONE: Row = ("a", 1)
THREE: Row = ("a", 3)
"""Of the same writer."""
DONE: Mapping[Row, list[Change]] = {
    ONE: [("c", None, 0), ("u", 0, 1), ("u", 1, 2)],
    THREE: [("c", None, 5), ("d", 5, None)],
}
NUMBERS: Mapping[Row, list[int]] = {ONE: [1, 3, 5], THREE: [2, 4]}
READ: Change = ("r", None, 1)


@pytest.mark.parametrize(
    ("told", "began", "words"),
    [
        # Behind change 4: one row is there, the other has gone.
        ({ONE: [READ, ("u", 1, 2)]}, {ONE: 1}, None),
        # Behind change 2, of an interrupted snapshot: one was changed and the other deleted before it was read.
        (
            {ONE: [("u", 0, 1), ("u", 1, 2), ("r", None, 2)], THREE: [("d", 5, None)]},
            {ONE: 0, THREE: 5},
            None,
        ),
        ({ONE: [("u", 1, 2)]}, {ONE: 1}, "was there at the snapshot, and was not read"),
        ({}, {ONE: 2}, "was there at the snapshot, and was not read"),
        ({ONE: [("r", None, 2)], THREE: [("d", 5, None)]}, {ONE: 2, THREE: 5}, "no snapshot is so"),
    ],
)
def test_what_a_first_snapshot_must_have_read(
    told: dict[Row, list[Change]], began: dict[Row, int], words: str | None
) -> None:
    wanted = {place: list(changes) for place, changes in DONE.items()}
    found, problems = begun(wanted, {**NUMBERS}, told)
    assert found == began
    assert [words in problem for problem in problems] == ([True] if words else []), problems
    assert wanted == {place: [c for c in told.get(place, []) if c[0] != "r"] for place in DONE}
