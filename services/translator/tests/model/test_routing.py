"""Which aggregate a row change goes to, and what goes along."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from bikes import domain as bikes_domain

from tidings_domain import load_domain
from tidings_domain.changes import ChangeSet
from tidings_domain.errors import SequenceError
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.envelope import Envelope, Source, TransactionRef
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.progress import Progress
from tidings_translator.sequencer.assembly.spill import DiskBuckets, PlacedRow, SpilledRows
from tidings_translator.sequencer.changelog import Changelog


@pytest.fixture
def changelog() -> Changelog:
    return Changelog()


@pytest.fixture
def memory(changelog: Changelog) -> Memory:
    return changelog.memory


@pytest.fixture
def progress(changelog: Changelog) -> Progress:
    return changelog.progress


@pytest.fixture
def router(changelog: Changelog) -> Router:
    return Router(load_domain(bikes_domain.__package__ or ""), changelog.memory, changelog.progress)


def envelope(
    table: str,
    op: str,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    order: int = 1,
) -> Envelope:
    schema, name = table.split(".")
    source = Source(name="p", db="d", schema=schema, table=name, ts_ms=5, ts_us=5_001, lsn=90)
    return Envelope(
        op=op, source=source, before=before, after=after, transaction=TransactionRef("7:90", order, order)
    )


def committed(router: Router, *rows: Envelope, lsn: int = 100) -> list[ChangeSet]:
    return router.change_sets(CompleteTransaction(7, lsn, list(rows)))


def customer(name: str, op: str = "c") -> Envelope:
    return envelope("public.customers", op, after={"id": 3, "name": name})


def order(op: str = "c", **columns: Any) -> Envelope:
    row = {"id": 1, "customer_id": 3, "status": "placed", **columns}
    return envelope("public.orders", op, after=row, order=2)


def payment(op: str, order_id: int) -> Envelope:
    return envelope("public.payments", op, after={"id": 8, "order_id": order_id})


def test_rows_of_one_aggregate_come_together_with_commit_time_and_position(router: Router) -> None:
    line = envelope(
        "public.order_items", "c", after={"order_id": 1, "line_no": 1, "price": Decimal("2.00")}, order=3
    )
    [change_set] = committed(router, order(), line)
    assert (change_set.aggregate, change_set.id, change_set.commit_lsn) == ("Order", "1", 100)
    assert (change_set.txid, change_set.ts_us, change_set.snapshot) == (7, 5_001, False)
    assert [(row.table, row.ordinal) for row in change_set.rows] == [
        ("public.orders", 2),
        ("public.order_items", 3),
    ]


def test_columns_that_nobody_declared_are_left_behind(router: Router) -> None:
    [change_set] = committed(router, order(note="private", total="12"))
    assert change_set.rows[0].after == {"id": 1, "customer_id": 3, "status": "placed"}


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        (envelope("public.orders", "c", after={"customer_id": 3}), "public.orders .* has no id,"),
        (envelope("public.customers", "c", after={"name": "a"}), "public.customers .* has no id,"),
        (envelope("public.payments", "c", after={"id": 8}), "public.payments .* has no order_id,"),
        (envelope("public.payments", "d", before={"order_id": 1}), "public.payments .* has no id,"),
        (envelope("public.orders", "d"), "public.orders .* has no id,"),
    ],
)
def test_a_row_without_the_columns_that_say_whose_it_is_is_named(
    router: Router, row: Envelope, missing: str
) -> None:
    """Nothing is guessed: with the column left out by capture every row of the table would go astray."""
    with pytest.raises(SequenceError, match=missing):
        committed(router, row)


def test_a_truncated_table_is_noticed(router: Router) -> None:
    """What it does to aggregates nobody can say, so at least somebody is told."""
    committed(router, order())
    assert committed(router, envelope("public.orders", "t"), envelope("public.unknown", "t")) == []
    assert router.take_truncated() == {"public.orders": 90}
    assert router.take_truncated() == {}


def test_references_are_as_of_the_commit_also_when_their_row_comes_later(router: Router) -> None:
    [first] = committed(router, order(), customer("Ann"))
    assert first.references == {"public.customers": {"3": {"id": 3, "name": "Ann"}}}
    assert committed(router, customer("Anne", "u")) == [], (
        "a reference alone is not a change of the aggregate"
    )
    [second] = committed(router, order("u"))
    assert second.references["public.customers"]["3"]["name"] == "Anne"
    gone = envelope("public.customers", "d", before={"id": 3, "name": ""})
    [third] = committed(router, order("u"), gone)
    assert third.references == {"public.customers": {}}


def snapshot(table: str, **row: Any) -> SnapshotRow:
    schema, name = table.split(".")
    source = Source(
        name="p", db="d", schema=schema, table=name, ts_ms=5, ts_us=5_001, lsn=90, snapshot="true"
    )
    return SnapshotRow(Envelope(op="r", source=source, after=row))


def test_a_snapshot_s_row_gets_its_reference_also_when_that_is_read_later(
    router: Router, memory: Memory
) -> None:
    """Topics are read in any order; without this the reference would stay unknown until the row itself changes."""
    [first] = router.snapshot_row(snapshot("public.orders", id=1, customer_id=3, status="placed"))
    assert first.references == {"public.customers": {}}
    again = Memory()
    for key, value in memory.take_changes().items():
        again.load(key, value)
    restarted = Router(load_domain(bikes_domain.__package__ or ""), again)
    for one in (router, restarted):
        [second] = one.snapshot_row(snapshot("public.customers", id=3, name="Ann"))
        assert (second.aggregate, second.id, second.snapshot, second.commit_lsn) == ("Order", "1", True, 90)
        assert second.rows[0].after == {"id": 1, "customer_id": 3, "status": "placed"}
        assert second.references == {"public.customers": {"3": {"id": 3, "name": "Ann"}}}
        assert one.snapshot_row(snapshot("public.customers", id=3, name="Ann")) == []
    for key, value in memory.take_changes().items():
        again.load(key, value)
    assert len(again) == len(memory) == 1


def test_no_more_rows_wait_than_memory_has_room_for(
    router: Router, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings_domain.routing.memory._MOST_WAITING", 2)
    for number in (1, 2, 2, 3):
        assert not router.too_many_wait
        router.snapshot_row(snapshot("public.orders", id=number, customer_id=3, status="placed"))
    assert router.too_many_wait
    assert len(memory) == 2
    sets = router.snapshot_row(snapshot("public.customers", id=3, name="Ann"))
    assert [one.id for one in sets] == ["1", "2"]
    assert len(memory) == 1


def test_what_a_snapshot_has_not_read_is_not_waited_for_behind_it(
    router: Router, memory: Memory, progress: Progress
) -> None:
    router.snapshot_row(snapshot("public.orders", id=1, customer_id=3, status="placed"))
    memory.take_changes()
    progress.close_snapshot()
    committed(router, order("u"))
    assert len(memory) == 0
    [forgotten] = [key for key, value in memory.take_changes().items() if value is None]
    assert b"public.customers" in forgotten


def test_an_unchanged_toast_value_of_a_reference_is_remembered(router: Router) -> None:
    committed(router, customer("a very long name"))
    committed(router, customer("__debezium_unavailable_value", "u"))
    [change_set] = committed(router, order())
    assert change_set.references["public.customers"]["3"]["name"] == "a very long name"


def test_a_deleted_child_finds_its_root_by_memory(router: Router, memory: Memory) -> None:
    committed(router, payment("c", 1))
    deleted = envelope("public.payments", "d", before={"id": 8, "order_id": 0})
    [change_set] = committed(router, deleted)
    assert change_set.id == "1"
    assert memory.root("Order", "public.payments", "8") is None
    assert committed(router, deleted) == [], "nobody knows where an unknown child belonged"


def test_a_child_that_moves_is_told_to_both_roots(router: Router) -> None:
    committed(router, payment("c", 1))
    assert [c.id for c in committed(router, payment("u", 2))] == ["1", "2"]
    assert [c.id for c in committed(router, payment("u", 2))] == ["2"]


def test_a_child_whose_key_holds_the_root_s_needs_no_memory(router: Router, memory: Memory) -> None:
    line = envelope("public.order_items", "d", before={"order_id": 4, "line_no": 1, "price": None})
    assert [c.id for c in committed(router, line)] == ["4"]
    assert len(memory) == 0


def test_snapshot_rows_are_change_sets_of_their_own_at_their_lsn(router: Router) -> None:
    row = envelope("public.orders", "r", after={"id": 1, "customer_id": 3, "status": "paid"})
    [change_set] = router.snapshot_row(SnapshotRow(row))
    assert (change_set.snapshot, change_set.commit_lsn, change_set.txid) == (True, 90, None)


def test_what_is_remembered_survives_through_the_changelog(
    changelog: Changelog, memory: Memory, router: Router
) -> None:
    committed(router, customer("Ann"), payment("c", 1))
    changelog.progress.finish(7, 77)
    restored = Changelog()
    for key, value in changelog.take_changes().items():
        restored.load(key, value)
    again = restored.memory
    again.set_row("public.customers", "3", {"id": 3, "name": "Ann"})
    assert not again.changes, "it is as it was"
    assert again.row("public.customers", "3") == {"id": 3, "name": "Ann"}
    assert again.root("Order", "public.payments", "8") == "1"
    assert restored.progress.commit_lsn == 77
    assert list(changelog.take_changes()) == [b"progress"], "the rest has not changed since"

    committed(router, envelope("public.payments", "d", before={"id": 8, "order_id": 0}))
    committed(router, envelope("public.customers", "d", before={"id": 3, "name": ""}))
    for key, value in memory.take_changes().items():
        again.load(key, value)
    assert len(again) == 0


def test_rows_of_a_lost_transaction_are_still_learnt(router: Router, memory: Memory) -> None:
    router.learn([customer("Ann"), payment("c", 1)])
    assert memory.row("public.customers", "3") == {"id": 3, "name": "Ann"}
    assert memory.root("Order", "public.payments", "8") == "1"


def test_a_transaction_on_disk_gives_the_same_change_sets_in_parts(memory: Memory, tmp_path: Path) -> None:
    """And the same parts again, from the memory that was there before it: so a crash between parts costs nothing."""
    domain = load_domain(bikes_domain.__package__ or "")
    rows = [envelope("public.customers", "c", after={"id": 3, "name": "Ann"})]
    for number in range(1, 301):
        at = {"id": number, "customer_id": 3, "status": "placed"}
        line = {"order_id": number, "line_no": 1, "price": "1.00"}
        rows += [envelope("public.orders", "c", after=at), envelope("public.order_items", "c", after=line)]
        rows.append(envelope("public.payments", "c", after={"id": number, "order_id": number}))
        if number % 3 == 0:
            rows.append(envelope("public.payments", "u", after={"id": number, "order_id": number - 1}))
        if number % 5 == 0:
            rows.append(envelope("public.payments", "d", before={"id": number}))
    spilled = SpilledRows(tmp_path)
    for start in range(0, len(rows), 250):
        orders = range(start, min(start + 250, len(rows)))
        spilled.add({order: PlacedRow(rows[order], Partition("t", 0), order) for order in orders})
    once = Router(domain, memory).change_sets(CompleteTransaction(7, 100, rows))
    attempts = []
    for _ in range(2):
        other = Memory()
        transaction = CompleteTransaction(7, 100, spilled)
        attempts.append(
            [list(part) for part in Router(domain, other).parts(transaction, DiskBuckets(tmp_path, 7))]
        )
        assert other._roots == memory._roots
        assert other._rows == memory._rows
    assert attempts[0] == attempts[1]
    assert len(attempts[0]) == 7
    assert all(attempts[0]), "a hash that does not spread would need the memory of all"
    assert sorted(one.id for part in attempts[0] for one in part) == sorted(one.id for one in once)
    assert {one.id: one for part in attempts[0] for one in part} == {one.id: one for one in once}
    spilled.close()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SequenceError, match="nowhere") as caught:
        SpilledRows(tmp_path / "nowhere")
    assert "TIDINGS_SPILL_DIRECTORY" in str(caught.value.hint)
