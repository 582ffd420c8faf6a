"""The judge: a history that is told right passes, and every way to tell it wrong is found."""

from dataclasses import replace

import pytest
from faultlab.history import parse_history
from faultlab.verdict import Moment, Place, Read, Verdict, judge

LINES = [
    (10, "BEGIN 7"),
    (11, "table public.a: INSERT: id[integer]:1 v[integer]:1 pad[text]:'it''s'"),
    (12, "table public.elsewhere: INSERT: id[integer]:1 v[integer]:1 pad[text]:''"),
    (13, "table public.a: UPDATE: id[integer]:1 v[integer]:2 pad[text]:''"),
    (20, "COMMIT 7"),
    (21, "BEGIN 8"),
    (22, "table public.elsewhere: DELETE: id[integer]:1"),
    (25, "COMMIT 8"),
    (30, "BEGIN 9"),
    (31, "table public.a: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 v[integer]:3 pad[text]:''"),
    (32, "table public.a: INSERT: id[integer]:3 v[integer]:4 pad[text]:'' x5[integer]:null x6[text]:'7'"),
    (40, "COMMIT 9"),
]
ROWS = {"a": {2: 3, 3: 4}, "b": {}}
A: Place = ("p.public.a", 0)
MARKERS: Place = ("p.transaction", 0)


def change(
    offset: int, txid: int, order: int, op: str, key: int, version: int | None, **added: object
) -> Read:
    after = None if version is None else {"id": key, "v": version, **added}
    place = {"id": f"{txid}:99", "total_order": order, "data_collection_order": order}
    source = {"snapshot": "false"}
    return Read(offset, {"id": key}, {"op": op, "after": after, "transaction": place, "source": source})


def found_gone(offset: int, key: int) -> Read:
    """A delete of an incremental snapshot."""
    value = {"op": "d", "after": None, "transaction": None, "source": {"snapshot": "incremental"}}
    return Read(offset, {"id": key}, value)


def row_read(offset: int, key: int, version: int) -> Read:
    """A row of an incremental snapshot."""
    source = {"snapshot": "incremental"}
    value = {"op": "r", "after": {"id": key, "v": version}, "transaction": None, "source": source}
    return Read(offset, {"id": key}, value)


def marker(offset: int, txid: int, status: str, count: int | None = None) -> Read:
    tables = [{"data_collection": "public.a", "event_count": count}]
    return Read(
        offset,
        {"id": "x"},
        {"id": f"{txid}:1", "status": status, "event_count": count, "data_collections": tables},
    )


def log() -> dict[Place, list[Read]]:
    return {
        A: [
            change(0, 7, 1, "c", 1, 1),
            change(1, 7, 2, "u", 1, 2),
            change(2, 9, 1, "d", 1, None),
            Read(3, {"id": 1}, None),
            change(4, 9, 2, "c", 2, 3),
            change(5, 9, 3, "c", 3, 4, x5=None, x6="7"),
        ],
        MARKERS: [
            marker(0, 7, "BEGIN"),
            marker(1, 7, "END", 2),
            marker(2, 9, "BEGIN"),
            marker(3, 9, "END", 3),
        ],
    }


def verdict(records: dict[Place, list[Read]], **more: object) -> Verdict:
    return judge("p", parse_history(LINES), records, ROWS, **more)  # type: ignore[arg-type]


def test_the_history_itself() -> None:
    found = verdict(log(), exactly_once=True)
    assert (found.problems, found.events, found.records, found.repeated) == ([], 5, 5, 0)


def test_what_goes_back_and_goes_on_is_at_least_once() -> None:
    records = log()
    records[A] += [replace(r, offset=r.offset + 6) for r in records[A][1:]]
    found = verdict(records)
    assert (found.problems, found.repeated) == ([], 4)
    assert any("came again" in text for text in verdict(records, exactly_once=True).problems)


def test_a_row_that_is_gone_may_be_found_gone() -> None:
    records = log()
    records[A] += [found_gone(6, 1), Read(7, {"id": 1}, None)]
    assert verdict(records, exactly_once=True).problems == []


def test_a_row_may_be_read_as_it_was_last_told() -> None:
    records = log()
    records[A] += [replace(r, offset=r.offset + 6) for r in records[A][1:]]
    records[A].insert(2, row_read(9, 1, 2))
    records[A].append(row_read(9, 3, 4))
    assert verdict(records).problems == []


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda r: r[A].pop(1), "1 of 5 are lost"),
        (lambda r: r[A].clear(), "5 of 5 are lost"),
        (lambda r: r[A].pop(), "are lost"),
        (lambda r: r[A].pop(3), "tombstone is missing"),
        (lambda r: r[A].insert(0, Read(9, {"id": 5}, None)), "a tombstone without a delete"),
        (lambda r: r[A].append(change(6, 8, 1, "c", 9, 9)), "in no history"),
        (lambda r: r[A].append(r[A][0]), "not the last"),
        (lambda r: r[A].append(r[A][0]), "rows are not the table's"),
        (lambda r: r[A].insert(0, r[A].pop(1)), "before all that precedes it"),
        (lambda r: r[A].extend([r[A][0], r[A][5]]), "late, by a task that was over"),
        (lambda r: r[A].__setitem__(1, change(1, 7, 2, "u", 1, 5)), "but it was"),
        (lambda r: r[A].__setitem__(5, change(5, 9, 3, "c", 3, 4, x6="7")), "came and went"),
        (lambda r: r[A].__setitem__(5, change(5, 9, 3, "c", 3, 4, x5=0, x6="7")), "came and went"),
        (lambda r: r.__setitem__(("p.public.a", 1), [r[A][5]]), "in two partitions"),
        (lambda r: r[A].append(found_gone(6, 3)), "a row that is there was found gone"),
        (lambda r: r[A].insert(2, row_read(9, 1, 1)), "a row is older than what was told"),
        (lambda r: r[A].insert(4, row_read(9, 1, 2)), "a row is older than what was told"),
        (lambda r: r[MARKERS].pop(2), "p.transaction: 1 of 4 are lost"),
        (lambda r: r[MARKERS].__setitem__(3, marker(3, 9, "END", 2)), "END of 9 says"),
        (lambda r: r[MARKERS].append(marker(4, 8, "BEGIN")), "in no history"),
    ],
)
def test_every_lie_is_found(harm: object, says: str) -> None:
    records = log()
    harm(records)  # type: ignore[operator]
    assert any(says in text for text in verdict(records).problems), verdict(records).problems


def test_a_slot_that_was_confirmed_too_early() -> None:
    ends = {A: 2, MARKERS: 4}
    assert verdict(log(), moments=[Moment(39, ends)]).problems == []
    (problem,) = verdict(log(), moments=[Moment(40, ends)]).problems
    assert "was not there while the slot was confirmed past it" in problem
