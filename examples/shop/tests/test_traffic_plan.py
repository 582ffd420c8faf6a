"""The plan is repeatable, and no order ever gets into an impossible state."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_shop.traffic_plan import MOST_LINES, Catalogue, KnownProduct, TrafficPlan, plan_seed
from tidings_shop.transactions import Abandoned, Delete, Insert, Kind, Ref, Step, Transaction, Update

CATALOGUE = Catalogue(
    customers=(11, 12, 13),
    products=tuple(KnownProduct(n, Decimal(n) + Decimal("0.99")) for n in range(21, 31)),
    first_email_number=14,
)


def plan(seed: int, count: int, *, rate: float = 20.0, catalogue: Catalogue = CATALOGUE) -> list[Transaction]:
    return list(islice(TrafficPlan(seed, rate=rate, catalogue=catalogue), count))


@dataclass
class Shop:
    """An oracle: what a database with the shop's rules would hold, fed by the steps alone."""

    prices: dict[Ref, Decimal]
    customers: set[Ref]
    status: dict[Ref, str] = field(default_factory=dict)
    owner: dict[Ref, Ref] = field(default_factory=dict)
    lines: dict[tuple[Ref, int], Ref] = field(default_factory=dict)
    amounts: dict[tuple[Ref, int], list[Decimal]] = field(default_factory=dict)
    shipments: dict[Ref, Ref] = field(default_factory=dict)
    emails: set[str] = field(default_factory=set)
    ever_ordered: set[Ref] = field(default_factory=set)

    @classmethod
    def before(cls, catalogue: Catalogue) -> "Shop":
        prices = {Ref("products", n): p.price for n, p in enumerate(catalogue.products)}
        return cls(prices, {Ref("customers", n) for n in range(len(catalogue.customers))})

    def run(self, transactions: Iterable[Transaction]) -> None:
        for transaction in transactions:
            if not transaction.rollback:
                for step in transaction.steps:
                    self.step(step)
                for order in self.status:
                    assert any(key[0] == order for key in self.lines), "an order without lines"

    def step(self, step: Step) -> None:
        match step:
            case Abandoned():
                return
            case Insert("customers", values, Ref() as ref):
                assert values["email"] not in self.emails
                self.emails.add(str(values["email"]))
                self.customers.add(ref)
            case Insert("products", values, Ref() as ref):
                assert isinstance(values["price"], Decimal)
                assert values["price"] > 0
                self.prices[ref] = values["price"]
            case Insert("orders", values, Ref() as ref):
                assert values["customer_id"] in self.customers
                assert "status" not in values
                self.status[ref], self.owner[ref] = "placed", values["customer_id"]
            case Insert("order_items", values):
                order, product = values["order_id"], values["product_id"]
                assert self.status[order] == "placed"
                assert values["unit_price"] == self.prices[product]
                assert (order, values["line_no"]) not in self.lines
                self.lines[order, values["line_no"]] = product
                self.amounts[order, values["line_no"]] = [
                    values["quantity"],
                    values["unit_price"] * (1 - values["discount"]),
                ]
                self.ever_ordered.add(product)
            case Insert("payments", values):
                order = values["order_id"]
                assert self.status[order] == "placed"
                total = sum(
                    (q * p).quantize(Decimal("0.01"), ROUND_HALF_UP)
                    for (o, _), (q, p) in self.amounts.items()
                    if o == order
                )
                assert values["amount"] == total
            case Insert("shipments", values, Ref() as ref):
                assert self.status[values["order_id"]] == "paid"
                self.shipments[ref] = values["order_id"]
            case Update("orders", {"id": order}, {"status": status}):
                before = {"paid": "placed", "shipped": "paid", "cancelled": "placed"}[status]
                assert self.status[order] == before
                self.status[order] = status
            case Update("orders", {"id": order}, _):
                assert self.status[order] == "placed"
            case Update("order_items", {"order_id": order, "line_no": number}, {"quantity": quantity}):
                assert self.status[order] == "placed"
                assert self.amounts[order, number][0] != quantity
                self.amounts[order, number][0] = quantity
            case Update("products", {"id": product}, {"price": price}):
                assert self.prices[product] != price
                assert price > 0
                self.prices[product] = price
            case Update("products", {"id": product}):
                assert product in self.prices
            case Update("customers", {"id": customer}):
                assert customer in self.customers
            case Update("shipments", {"id": shipment}, {"delivered": True}):
                assert self.status[self.shipments.pop(shipment)] == "shipped"
            case Delete("order_items", {"order_id": order, "line_no": number}):
                assert self.status[order] == "placed"
                del self.lines[order, number], self.amounts[order, number]
            case Delete("products", {"id": product}):
                assert product not in self.ever_ordered
                assert product.number >= len(CATALOGUE.products)
                del self.prices[product]
            case Delete("customers", {"id": customer}):
                assert customer not in self.owner.values()
                assert customer.number >= len(CATALOGUE.customers)
                self.customers.remove(customer)
            case _:
                pytest.fail(f"a step the shop does not know: {step}")


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32), count=st.integers(1, 400), rate=st.sampled_from([0.0, 1.0, 5.0, 20.0, 500.0])
)
def test_no_order_gets_into_an_impossible_state(seed: int, count: int, rate: float) -> None:
    Shop.before(CATALOGUE).run(plan(seed, count, rate=rate))


def test_equal_seeds_make_equal_plans_and_others_do_not() -> None:
    assert plan(7, 500) == plan(7, 500)
    assert plan(7, 500) != plan(8, 500)
    assert list(plan_seed(7, customers=30, products=30)) == list(plan_seed(7, customers=30, products=30))


def test_everything_that_may_happen_happens() -> None:
    transactions = plan(1, 1_500)
    assert {t.kind for t in transactions if not t.rollback} == set(Kind)
    assert {t.kind for t in transactions if t.rollback} == {
        Kind.ORDER_PLACED,
        Kind.ORDER_PAID,
        Kind.PRICE_CHANGED,
    }
    steps = Counter(type(step).__name__ for t in transactions for step in t.steps)
    assert min(steps[name] for name in ("Insert", "Update", "Delete", "Abandoned")) > 10
    corrections = {type(t.steps[0]) for t in transactions if t.kind is Kind.ORDER_CORRECTED}
    assert corrections == {Insert, Update, Delete}
    lines = Counter(
        sum(isinstance(s, Insert) and s.table == "order_items" for s in t.steps)
        for t in transactions
        if t.kind is Kind.ORDER_PLACED
    )
    assert set(lines) == set(range(1, MOST_LINES + 1))


@pytest.mark.parametrize(("rate", "every"), [(20.0, 20), (5.0, 5), (1.0, 2), (0.0, 20)])
def test_a_product_is_added_every_second_of_the_rate(rate: float, every: int) -> None:
    transactions = plan(3, 200, rate=rate)
    added = [n for n, t in enumerate(transactions, start=1) if t.kind is Kind.PRODUCT_ADDED]
    assert added == list(range(every, 201, every))


def test_facts_are_what_the_committed_steps_amount_to() -> None:
    for transaction in plan(5, 1_000):
        expected: Counter[str] = Counter()
        for step in () if transaction.rollback else transaction.steps:
            match step:
                case Insert("customers"):
                    expected["CustomerRegistered"] += 1
                case Insert("orders"):
                    expected["OrderPlaced"] += 1
                case Update("orders", _, {"status": status}):
                    expected[f"Order{str(status).capitalize()}"] += 1
                case Update("products", _, {"price": _}):
                    expected["ProductPriceChanged"] += 1
        assert dict(transaction.facts) == dict(expected)


def test_a_plan_needs_something_to_begin_with() -> None:
    with pytest.raises(ValueError, match="customer and a product"):
        TrafficPlan(1, rate=1, catalogue=Catalogue())
