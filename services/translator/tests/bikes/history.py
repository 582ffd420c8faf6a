"""A made-up history of the bike store's database, seeded: committed transactions in commit order, and what follows.

`Transaction` is what was committed; `expected_events` computes the business events from it in the plainest way, with
nothing of the translator's.
"""

import random
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Change:
    table: str
    op: str
    before: Row | None
    after: Row | None

    @property
    def key(self) -> Row:
        row = self.after or self.before or {}
        return {name: row[name] for name in KEYS[self.table]}


@dataclass(frozen=True)
class Transaction:
    txid: int
    end_lsn: int
    last_commit_lsn: int | None
    ts_us: int
    changes: tuple[Change, ...]


KEYS = {
    "public.orders": ("id",),
    "public.order_items": ("order_id", "line_no"),
    "public.payments": ("id",),
    "public.customers": ("id",),
    "public.audit": ("id",),
}


class History:
    """Grows by one transaction at a time."""

    def __init__(self, seed: int, *, first_lsn: int = 1_000) -> None:
        self.random = random.Random(seed)
        self.transactions: list[Transaction] = []
        self._lsn = first_lsn
        self._txid = 700
        self._ids: dict[str, int] = defaultdict(int)
        self._customers: list[int] = []
        self._orders: dict[int, Row] = {}
        self._payments: dict[int, Row] = {}

    def grow(self, count: int) -> list[Transaction]:
        return [self._next() for _ in range(count)]

    def _next(self) -> Transaction:
        r = self.random
        kind = r.choices(
            ["order", "pay", "take_back", "customer", "audit", "empty", "big", "touch"],
            weights=[30, 20, 8, 10, 6, 4, 1, 10],
        )[0]
        return self.commit(getattr(self, f"_{kind}")())

    def commit(self, changes: list[Change]) -> Transaction:
        last = self._lsn if self.transactions else None
        self._lsn += self.random.randint(40, 400) + len(changes)
        self._txid += self.random.randint(1, 3)
        made = Transaction(
            self._txid, self._lsn, last, 1_760_000_000_000_000 + len(self.transactions) * 1000, tuple(changes)
        )
        self.transactions.append(made)
        return made

    def _id(self, table: str) -> int:
        self._ids[table] += 1
        return self._ids[table]

    def _customer(self) -> list[Change]:
        if self._customers and self.random.random() < 0.5:
            row = {"id": self.random.choice(self._customers), "name": f"renamed {self.random.random()}"}
            return [Change("public.customers", "u", None, row)]
        row = {"id": self._id("customers"), "name": f"customer {self.random.random()}"}
        self._customers.append(row["id"])
        return [Change("public.customers", "c", None, row)]

    def _order(self, lines: int | None = None) -> list[Change]:
        changes = [] if self._customers else self._customer()
        if self.random.random() < 0.2:
            changes += self._customer()
        order = {
            "id": self._id("orders"),
            "customer_id": self.random.choice(self._customers),
            "status": "placed",
            "note": "as told by telephone",
        }
        self._orders[order["id"]] = order
        changes.append(Change("public.orders", "c", None, order))
        for line in range(1, (lines or self.random.randint(1, 5)) + 1):
            price = f"{self.random.randint(100, 99999) / 100:.2f}"
            row = {"order_id": order["id"], "line_no": line, "price": price, "discount": "0.00"}
            changes.append(Change("public.order_items", "c", None, row))
        return changes

    def _big(self) -> list[Change]:
        return self._order(self.random.randint(100, 300))

    def _pay(self) -> list[Change]:
        waiting = [order for order in self._orders.values() if order["status"] == "placed"]
        if not waiting:
            return self._order()
        order = self.random.choice(waiting)
        payment = {"id": self._id("payments"), "order_id": order["id"], "method": "cash"}
        self._payments[payment["id"]] = payment
        paid = {**order, "status": "paid"}
        self._orders[order["id"]] = paid
        return [
            Change("public.payments", "c", None, payment),
            Change("public.orders", "u", None, paid),
        ]

    def _take_back(self) -> list[Change]:
        if not self._payments:
            return self._order()
        payment = self._payments.pop(self.random.choice(list(self._payments)))
        # REPLICA IDENTITY DEFAULT: the key is true, the rest is invented.
        invented = {"id": payment["id"], "order_id": 0, "method": ""}
        return [Change("public.payments", "d", invented, None)]

    def _touch(self) -> list[Change]:
        """An update that changes nothing that the rules know of."""
        if not self._orders:
            return self._order()
        order = self.random.choice(list(self._orders.values()))
        touched = {**order, "note": f"note {self.random.random()}"}
        self._orders[order["id"]] = touched
        return [Change("public.orders", "u", None, touched)]

    def _audit(self) -> list[Change]:
        row = {"id": self._id("audit"), "what": "something"}
        changes = [Change("public.audit", "c", None, row)]
        return changes + (self._order() if self.random.random() < 0.5 else [])

    def _empty(self) -> list[Change]:
        return []


def expected_events(transactions: list[Transaction]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Topic to aggregate id to payloads, in commit order."""
    customers: dict[int, str] = {}
    status: dict[int, str] = {}
    lines: dict[int, list[str]] = defaultdict(list)
    payments: dict[int, int] = {}
    events: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for transaction in transactions:
        placed: list[Row] = []
        paid: list[int] = []
        taken: list[tuple[int, int]] = []
        for change in transaction.changes:
            row = change.after or {}
            match change.table, change.op:
                case "public.customers", _:
                    customers[row["id"]] = row["name"]
                case "public.orders", op:
                    if op == "c":
                        placed.append(row)
                    elif row["status"] == "paid" and status[row["id"]] != "paid":
                        paid.append(row["id"])
                    status[row["id"]] = row["status"]
                case "public.order_items", _:
                    lines[row["order_id"]].append(row["price"])
                case "public.payments", "c":
                    payments[row["id"]] = row["order_id"]
                case "public.payments", "d":
                    assert change.before is not None
                    payment = change.before["id"]
                    taken.append((payments.pop(payment), payment))
        for row in placed:
            order, prices = row["id"], lines[row["id"]]
            total = sum(map(Decimal, prices), Decimal("0.00"))
            v1 = {"order_id": order, "lines": len(prices)}
            v2 = {**v1, "customer": customers[row["customer_id"]], "total": total}
            events["bikes.order-placed.v1"][str(order)].append(v1)
            events["bikes.order-placed.v2"][str(order)].append(v2)
        for order in paid:
            count = sum(1 for owner in payments.values() if owner == order)
            events["bikes.order-paid.v1"][str(order)].append({"order_id": order, "payments": count})
        for order, payment in taken:
            events["bikes.payment-taken-back.v1"][str(order)].append(
                {"order_id": order, "payment_id": payment}
            )
    return {topic: dict(by_id) for topic, by_id in events.items()}
