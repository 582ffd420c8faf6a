"""The verdict of ``python -m tests.faults.query``."""

from typing import Any

from faultlab.verdict import Read
from querylab.verdict import judge


def record(offset: int, key: int, n: int | None) -> Read:
    value: Any = None if n is None else {"id": key, "n": n, "note": "x"}
    return Read(offset, {"id": key}, value)


def test_the_last_record_of_each_key_is_the_row_or_a_tombstone() -> None:
    rows = {1: (5, "x"), 2: (6, "x")}
    right = [record(0, 1, 4), record(1, 2, 6), record(2, 1, 5), record(3, 3, 1), record(4, 3, None)]
    assert judge(rows, right, deletes=True).wrong == {}
    assert judge(rows, right[:-1], deletes=True).wrong == {3: ((1, "x"), None)}
    assert judge(rows, right[:-1], deletes=False).wrong == {}
    assert judge(rows, right[:2], deletes=True).wrong == {1: ((4, "x"), (5, "x"))}


def test_what_says_the_same_again_is_doubled() -> None:
    read = [record(0, 1, 4), record(1, 1, 4), record(2, 1, None), record(3, 1, None), record(4, 1, 4)]
    assert judge({1: (4, "x")}, read, deletes=True).doubled == 2
