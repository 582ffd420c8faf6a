"""Order and identity: rows that move, keys that change, deletes that tell only a key, snapshots and replays.

Rows go through the router and the evaluator as Debezium writes them under REPLICA IDENTITY DEFAULT: an update tells
nothing of the row before, a delete its key and invented values, a changed key is a delete and a create.
"""

import itertools
import random
from typing import Any

import pytest
from bikes import domain as bikes_domain
from bikes.domain import Order

from tidings_domain import load_domain
from tidings_domain.aggregate.state import AggregatePlan
from tidings_domain.changes import ChangeSet, decode_change_set, encode_change_set
from tidings_domain.evaluation.evaluate import Evaluator
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.envelope import Envelope, Source, TransactionRef
from tidings_translator.sequencer.changelog import Changelog

KEYS = {
    "public.orders": ("id",),
    "public.order_items": ("order_id", "line_no"),
    "public.payments": ("id",),
    "public.customers": ("id",),
}
Row = dict[str, Any]


class Line:
    """Router and evaluator in a row, with what both remember."""

    def __init__(self) -> None:
        self.domain = load_domain(bikes_domain.__package__ or "")
        self.kept = Changelog()
        self.router = Router(self.domain, self.kept.memory, self.kept.progress)
        self.evaluator = Evaluator(self.domain)
        self.plan = AggregatePlan(Order)
        self.states: dict[str, bytes | None] = {}
        self.changelog: dict[bytes, bytes | None] = {}
        self.lsn = 1000
        self.txid = 7

    def commit(self, *rows: tuple[str, str, Row | None, Row | None]) -> list[str]:
        """One transaction of (table, op, before, after); the events it led to, as text."""
        self.lsn += 0x100
        self.txid += 1
        envelopes = [
            self._envelope(table, op, before, after, order)
            for order, (table, op, before, after) in enumerate(rows, 1)
        ]
        self.last = self.router.change_sets(CompleteTransaction(self.txid, self.lsn, envelopes))
        self.kept.progress.finish(self.txid, self.lsn)
        return self.apply(self.last)

    def snapshot(self, table: str, row: Row, *, incremental: bool = False) -> list[str]:
        """A row that a snapshot reads; an incremental one's has no LSN."""
        if incremental:
            envelope = self._envelope(table, "r", None, row, None, lsn=None, snapshot="incremental")
        else:
            envelope = self._envelope(table, "r", None, row, None, lsn=self.lsn + 0x10, snapshot="true")
        return self.apply(self.router.snapshot_row(SnapshotRow(envelope)))

    def gone(self, table: str, row: Row) -> list[str]:
        """A row that an incremental snapshot found gone; only its key is known."""
        envelope = self._envelope(table, "d", row, None, None, lsn=None, snapshot="incremental")
        return self.apply(self.router.snapshot_row(SnapshotRow(envelope)))

    def apply(self, change_sets: list[ChangeSet]) -> list[str]:
        told = []
        for change_set in change_sets:
            found = self.evaluator.apply(
                self.states.get(change_set.id), decode_change_set(encode_change_set(change_set))
            )
            assert found.failures == []
            self.states[change_set.id] = found.new_state
            told += [f"{e.topic.partition('.')[2]} {change_set.id} {_short(e.payload)}" for e in found.events]
        return told

    def restart(self) -> None:
        """The sequencer starts again from its changelog."""
        self.changelog |= self.kept.take_changes()
        self.kept = Changelog()
        for key, value in self.changelog.items():
            self.kept.load(key, value)
        self.router = Router(self.domain, self.kept.memory, self.kept.progress)

    def order(self, number: int) -> Order | None:
        state = self.states.get(str(number))
        return None if state is None else self.plan.decode(state).aggregate

    def _envelope(
        self,
        table: str,
        op: str,
        before: Row | None,
        after: Row | None,
        order: int | None,
        *,
        lsn: int | None = 90,
        snapshot: str = "false",
    ) -> Envelope:
        schema, name = table.split(".")
        source = Source(
            name="p", db="d", schema=schema, table=name, ts_ms=5, ts_us=5_001, lsn=lsn, snapshot=snapshot
        )
        ref = None if order is None else TransactionRef(f"{self.txid}:{self.lsn}", order, order)
        return Envelope(op=op, source=source, before=before, after=after, transaction=ref)


def _short(payload: Row) -> str:
    return " ".join(f"{name}={value}" for name, value in payload.items() if name != "order_id")


def order(number: int, status: str = "placed", customer: int = 3) -> Row:
    return {"id": number, "customer_id": customer, "status": status}


def payment(number: int, of: int | None) -> Row:
    return {"id": number, "order_id": of}


def line(of: int, number: int = 1) -> Row:
    return {"order_id": of, "line_no": number, "price": "2.00"}


@pytest.fixture
def two_orders() -> Line:
    """Orders 1 and 2; payment 8 and a line belong to order 1."""
    running = Line()
    running.commit(("public.customers", "c", None, {"id": 3, "name": "Ann"}))
    running.commit(
        ("public.orders", "c", None, order(1)),
        ("public.order_items", "c", None, line(1)),
        ("public.payments", "c", None, payment(8, 1)),
    )
    running.commit(("public.orders", "c", None, order(2)))
    return running


def of(found: Order | None) -> tuple[list[int], list[int]]:
    assert found is not None
    return [one.id for one in found.payments], [one.line_no for one in found.lines]


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
def test_a_child_that_moves_leaves_the_one_and_enters_the_other(two_orders: Line, *, restarted: bool) -> None:
    if restarted:
        two_orders.restart()
    told = two_orders.commit(("public.payments", "u", None, payment(8, 2)))
    assert told == ["payment-taken-back.v1 1 payment_id=8"]
    assert of(two_orders.order(1)) == ([], [1])
    assert of(two_orders.order(2)) == ([8], [])
    assert two_orders.commit(("public.payments", "u", None, payment(8, None))) == [
        "payment-taken-back.v1 2 payment_id=8"
    ]
    assert two_orders.commit(("public.payments", "u", None, payment(8, 1))) == []
    assert of(two_orders.order(1)) == ([8], [1])


def test_a_child_that_moves_by_its_own_key(two_orders: Line) -> None:
    gone = {"order_id": 1, "line_no": 1, "price": "0"}
    two_orders.commit(("public.order_items", "d", gone, None), ("public.order_items", "c", None, line(2)))
    assert of(two_orders.order(1)) == ([8], [])
    assert of(two_orders.order(2)) == ([], [1])


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
def test_a_delete_without_the_foreign_key_finds_its_root(two_orders: Line, *, restarted: bool) -> None:
    if restarted:
        two_orders.restart()
    told = two_orders.commit(("public.payments", "d", {"id": 8, "order_id": 0}, None))
    assert told == ["payment-taken-back.v1 1 payment_id=8"]
    assert of(two_orders.order(1)) == ([], [1])


def test_a_child_that_is_deleted_and_made_again_for_another_root(two_orders: Line) -> None:
    told = two_orders.commit(
        ("public.payments", "d", {"id": 8, "order_id": None}, None),
        ("public.payments", "c", None, payment(8, 2)),
    )
    assert told == ["payment-taken-back.v1 1 payment_id=8"]
    assert of(two_orders.order(2)) == ([8], [])


@pytest.mark.parametrize("children_first", [False, True])
def test_a_root_key_that_changes_is_one_that_goes_and_one_that_comes(
    two_orders: Line, *, children_first: bool
) -> None:
    root: list[Any] = [
        ("public.orders", "d", {"id": 1, "customer_id": 0, "status": ""}, None),
        ("public.orders", "c", None, order(9)),
    ]
    children: list[Any] = [
        ("public.payments", "u", None, payment(8, 9)),
        ("public.order_items", "d", {"order_id": 1, "line_no": 1, "price": None}, None),
        ("public.order_items", "c", None, line(9)),
    ]
    told = two_orders.commit(*(children + root if children_first else root + children))
    assert told == [
        "order-placed.v2 9 lines=1 customer=Ann total=2.00",
        "order-placed.v1 9 lines=1",
    ]
    assert two_orders.order(1) is None
    assert of(two_orders.order(9)) == ([8], [1])


@pytest.mark.parametrize("incremental", [False, True], ids=["initial", "incremental"])
def test_a_snapshot_of_what_is_known_changes_nothing(two_orders: Line, *, incremental: bool) -> None:
    before = dict(two_orders.states)
    for table, row in (
        ("public.customers", {"id": 3, "name": "Ann"}),
        ("public.payments", payment(8, 1)),
        ("public.order_items", line(1)),
        ("public.orders", order(2)),
        ("public.orders", order(1)),
    ):
        assert two_orders.snapshot(table, row, incremental=incremental) == []
    assert two_orders.states == before, "not even a byte of the state"
    assert two_orders.commit(("public.orders", "u", None, order(1, "paid"))) == ["order-paid.v1 1 payments=1"]


def test_a_snapshot_that_knows_more_builds_state_and_says_nothing(two_orders: Line) -> None:
    assert two_orders.snapshot("public.payments", payment(8, 2)) == []
    assert two_orders.snapshot("public.orders", order(2, "paid")) == []
    assert of(two_orders.order(1)) == ([], [1])
    assert of(two_orders.order(2)) == ([8], [])


def test_a_replay_of_everything_says_nothing() -> None:
    running = Line()
    sets: list[ChangeSet] = []
    for rows in (
        [("public.customers", "c", None, {"id": 3, "name": "Ann"})],
        [("public.orders", "c", None, order(1)), ("public.payments", "c", None, payment(8, 1))],
        [("public.orders", "u", None, order(1, "paid"))],
        [("public.payments", "d", {"id": 8, "order_id": None}, None)],
        [("public.orders", "d", {"id": 1}, None)],
    ):
        running.commit(*rows)
        sets += running.last
    states = dict(running.states)
    assert running.apply(sets) == []
    assert running.states == states


class Tables:
    """The database: what is in the tables, and what each statement writes to the log."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows: dict[str, dict[tuple[Any, ...], Row]] = {table: {} for table in KEYS}
        self.log: list[tuple[str, str, Row | None, Row | None]] = []
        self.ids = itertools.count(1)

    def put(self, table: str, row: Row, old: Row | None = None) -> None:
        key = tuple(row[name] for name in KEYS[table])
        if old is not None and (old_key := tuple(old[name] for name in KEYS[table])) != key:
            self.drop(table, old_key)
            old = None
        self.log.append((table, "c" if old is None else "u", None, row))
        self.rows[table][key] = row

    def drop(self, table: str, key: tuple[Any, ...]) -> None:
        row = self.rows[table].pop(key)
        invented = {name: 0 if isinstance(value, int) else None for name, value in row.items()}
        self.log.append((table, "d", invented | dict(zip(KEYS[table], key, strict=True)), None))

    def children(self, number: int) -> list[tuple[str, Row]]:
        held = ("public.payments", "public.order_items")
        return [(t, row) for t in held for row in list(self.rows[t].values()) if row["order_id"] == number]

    def statement(self) -> None:
        chance, rows = self.chance, self.rows
        orders = [row["id"] for row in rows["public.orders"].values()]
        some = chance.choice(orders) if orders else None
        payments = list(rows["public.payments"].values())
        what = chance.choice(
            ["order", "status", "rekey", "drop", "payment", "move", "unpay", "line", "unline", "name"]
        )
        if what == "name":
            number = chance.randint(1, 3)
            old = rows["public.customers"].get((number,))
            self.put("public.customers", {"id": number, "name": f"n{next(self.ids)}"}, old)
        elif what == "order" or some is None:
            self.put("public.orders", order(next(self.ids), customer=chance.randint(1, 3)))
        elif what == "status":
            old = rows["public.orders"][some,]
            self.put("public.orders", old | {"status": chance.choice(["placed", "paid"])}, old)
        elif what == "rekey":
            self.rekey(some)
        elif what == "drop":
            steps = [("public.orders", (some,))]
            steps += [(t, tuple(row[n] for n in KEYS[t])) for t, row in self.children(some)]
            for table, key in steps if chance.random() < 0.5 else reversed(steps):
                self.drop(table, key)
        elif what == "payment":
            self.put("public.payments", payment(next(self.ids), chance.choice([None, some])))
        elif what == "move" and payments:
            old = chance.choice(payments)
            number = old["id"] if chance.random() < 0.7 else next(self.ids)
            self.put("public.payments", {"id": number, "order_id": chance.choice([None, some])}, old)
        elif what == "unpay" and payments:
            self.drop("public.payments", (chance.choice(payments)["id"],))
        elif what == "line" and (some, 1) not in rows["public.order_items"]:
            self.put("public.order_items", line(some, 1))
        elif what == "unline" and (some, 1) in rows["public.order_items"]:
            old = rows["public.order_items"][some, 1]
            other = chance.choice(orders)
            if (other, 1) in rows["public.order_items"]:
                self.drop("public.order_items", (some, 1))
            else:
                self.put("public.order_items", old | {"order_id": other}, old)

    def rekey(self, number: int) -> None:
        """As ON UPDATE CASCADE does it: the root, then its children."""
        new = next(self.ids)
        old = self.rows["public.orders"][number,]
        children = self.children(number)
        self.put("public.orders", old | {"id": new}, old)
        for table, row in children:
            self.put(table, row | {"order_id": new}, row)


@pytest.mark.parametrize("seed", range(6))
def test_aggregates_are_what_the_tables_say_after_every_commit(seed: int) -> None:
    tables, running = Tables(seed), Line()
    referred: dict[int, str | None] = {}
    for step in range(150):
        tables.log = []
        for _ in range(tables.chance.randint(1, 4)):
            tables.statement()
        running.commit(*tables.log)
        for table, op, _, after in tables.log:
            # A reference is as of the commit in which its holder last changed.
            if table == "public.orders" and op != "d" and after is not None:
                customer = tables.rows["public.customers"].get((after["customer_id"],))
                known = referred.get(after["id"])
                referred[after["id"]] = customer["name"] if customer else known
        if step % 40 == 39:
            running.restart()
        if step % 30 == 29:
            table = tables.chance.choice(["public.payments", "public.order_items"])
            for row in tables.rows[table].values():
                assert running.snapshot(table, row, incremental=step % 60 == 59) == []
        for number in [int(one) for one in running.states]:
            row = tables.rows["public.orders"].get((number,))
            found = running.order(number)
            assert (found is None) == (row is None), f"seed {seed}, step {step}, order {number}"
            if found is None or row is None:
                continue
            children = tables.children(number)
            assert (
                found.status,
                found.customer and found.customer.name,
                [one.id for one in found.payments],
                [one.line_no for one in found.lines],
            ) == (
                row["status"],
                referred[number],
                sorted(child["id"] for table, child in children if table == "public.payments"),
                sorted(child["line_no"] for table, child in children if table == "public.order_items"),
            ), f"seed {seed}, step {step}, order {number}"


def test_rows_that_an_incremental_snapshot_found_gone_leave_the_state_and_are_no_news(
    two_orders: Line,
) -> None:
    """As the rows that it reads: what happened in the gap, and when, nobody knows."""
    assert two_orders.gone("public.payments", {"id": 8, "order_id": None}) == []
    assert of(two_orders.order(1)) == ([], [1])
    assert two_orders.gone("public.customers", {"id": 3, "name": ""}) == []
    assert two_orders.kept.memory.row("public.customers", "3") is None
    assert two_orders.gone("public.orders", {"id": 1, "customer_id": 0, "status": ""}) == []
    assert two_orders.order(1) is None
    assert two_orders.order(2) is not None
    assert two_orders.gone("public.orders", {"id": 1, "customer_id": 0, "status": ""}) == [], "told twice"
    # The same key is a new order from here on.
    assert two_orders.commit(("public.orders", "c", None, order(1))) == [
        "order-placed.v2 1 lines=0 customer=None total=0.00",
        "order-placed.v1 1 lines=0",
    ]
