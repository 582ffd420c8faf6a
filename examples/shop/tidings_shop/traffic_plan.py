"""What happens in the shop: an endless, seeded sequence of transactions. Pure: it neither waits nor connects.

The plan keeps its own picture of the shop, as if every transaction it makes is committed, and only ever plans what is
possible in it: a paid order was placed, a shipped order was paid, a cancelled order was neither paid nor shipped, no
line changes once an order is paid, an order keeps at least one line, a deleted product or customer has never been
ordered or ordered anything. Orders are never deleted. Equal seeds, rates and catalogues make equal plans.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from random import Random
from typing import TypeVar

from tidings_shop.traffic_data import ShopData
from tidings_shop.transactions import (
    NOW,
    Abandoned,
    Delete,
    Insert,
    Kind,
    Ref,
    Step,
    Transaction,
    Update,
    Value,
)

T = TypeVar("T")

MOST_LINES = 5
_CENT = Decimal("0.01")
_REMEMBERED = 2_000
"""Orders of a state that are kept in mind; with more, the oldest stay in their state for ever."""

_WEIGHTS: dict[str, float] = {
    "place": 30, "pay": 24, "ship": 19, "deliver": 14, "cancel": 4, "correct": 10, "reprice": 8, "register": 6,
    "change_customer": 4, "change_product": 3, "delete_product": 2, "delete_customer": 2, "roll_back": 4,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownProduct:
    """A product that is in the database before the plan starts."""

    id: int
    price: Decimal


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What is in the database before the plan starts. Nothing of it is ever deleted: others may refer to it."""

    customers: tuple[int, ...] = ()
    products: tuple[KnownProduct, ...] = ()
    first_email_number: int = 1

    def ids(self) -> dict[Ref, int]:
        """The ids behind the names that a plan gives to these rows."""
        customers = {Ref("customers", n): id_ for n, id_ in enumerate(self.customers)}
        return customers | {Ref("products", n): product.id for n, product in enumerate(self.products)}


@dataclass(slots=True)
class _Line:
    product: Ref
    quantity: int
    unit_price: Decimal
    discount: Decimal

    def amount(self) -> Decimal:
        return (self.quantity * self.unit_price * (1 - self.discount)).quantize(_CENT, ROUND_HALF_UP)


@dataclass(slots=True)
class _Order:
    ref: Ref
    lines: dict[int, _Line] = field(default_factory=dict)
    shipment: Ref | None = None


class TrafficPlan:
    """An endless iterator of transactions.

    Args:
        seed: decides everything.
        rate: transactions per second that the plan is meant for; about one in `rate` adds a product. 0: one in 20.
        catalogue: what is there already; at least one customer and one product.
    """

    def __init__(self, seed: int, *, rate: float, catalogue: Catalogue) -> None:
        if not catalogue.customers or not catalogue.products:
            raise ValueError("a plan of traffic needs a customer and a product to begin with")
        self._random = Random(seed)  # noqa: S311 - made-up data, to be repeatable
        self._data = ShopData(self._random)
        self._every = max(2, round(rate or 20))
        self._counts: dict[str, int] = {
            "customers": len(catalogue.customers),
            "products": len(catalogue.products),
        }
        self._email_number = catalogue.first_email_number
        self._customers = [Ref("customers", n) for n in range(len(catalogue.customers))]
        self._prices = {Ref("products", n): product.price for n, product in enumerate(catalogue.products)}
        self._products = list(self._prices)
        self._idle_customers: list[Ref] = []
        self._idle_products: list[Ref] = []
        self._placed: deque[_Order] = deque(maxlen=_REMEMBERED)
        self._paid: deque[_Order] = deque(maxlen=_REMEMBERED)
        self._shipped: deque[_Order] = deque(maxlen=_REMEMBERED)
        self._made = 0
        self._actions: dict[str, Callable[[], Transaction | None]] = {
            "place": self._place, "pay": self._pay, "ship": self._ship, "deliver": self._deliver,
            "cancel": self._cancel, "correct": self._correct, "reprice": self._reprice, "register": self._register,
            "change_customer": self._change_customer, "change_product": self._change_product,
            "delete_product": self._delete_product, "delete_customer": self._delete_customer,
            "roll_back": self._roll_back,
        }  # fmt: skip

    def __iter__(self) -> Iterator[Transaction]:
        return self

    def __next__(self) -> Transaction:
        self._made += 1
        if self._made % self._every == 0:
            return self._add_product()
        name = self._random.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))[0]
        return self._actions[name]() or self._place()

    # Orders

    def _place(self) -> Transaction:
        """An order with its lines; one in five of a customer who registers with it."""
        steps: list[Step] = []
        facts = {"OrderPlaced": 1}
        if self._random.random() < 0.2:
            customer, insert = self._new_customer()
            self._customers.append(customer)
            steps.append(insert)
            facts["CustomerRegistered"] = 1
        else:
            customer = self._random.choice(self._customers)
            _forget(self._idle_customers, customer)
        order, order_steps = self._order(customer)
        for line in order.lines.values():
            _forget(self._idle_products, line.product)
        self._placed.append(order)
        return Transaction(Kind.ORDER_PLACED, (*steps, *order_steps), facts)

    def _order(self, customer: Ref) -> tuple[_Order, tuple[Step, ...]]:
        order = _Order(self._ref("orders"))
        count = min(self._random.randint(1, MOST_LINES), len(self._products))
        for number, product in enumerate(self._random.sample(self._products, count), start=1):
            order.lines[number] = self._line(product)
        values: dict[str, Value] = {
            "customer_id": customer,
            "note": self._data.note(),
            "required_on": self._data.required_on(),
        }
        steps: list[Step] = [Insert("orders", values, order.ref)]
        steps += [_insert_line(order, number) for number in order.lines]
        if self._random.random() < 0.1:  # out of stock: tried, and taken back in the same transaction
            line = self._line(self._random.choice(self._products))
            values = _line_values(line) | {"order_id": order.ref, "line_no": len(order.lines) + 1}
            steps.append(Abandoned((Insert("order_items", values),)))
        return order, tuple(steps)

    def _pay(self) -> Transaction | None:
        if (order := _take(self._random, self._placed)) is None:
            return None
        self._paid.append(order)
        return Transaction(Kind.ORDER_PAID, self._payment(order), {"OrderPaid": 1})

    def _payment(self, order: _Order) -> tuple[Step, ...]:
        values: dict[str, Value] = {
            "order_id": order.ref,
            "amount": sum((line.amount() for line in order.lines.values()), Decimal("0.00")),
            "method": self._random.choice(("card", "transfer", "wallet", "invoice")),
        }
        return (Insert("payments", values), _status(order, "paid"))

    def _ship(self) -> Transaction | None:
        if (order := _take(self._random, self._paid)) is None:
            return None
        order.shipment = self._ref("shipments")
        self._shipped.append(order)
        values: dict[str, Value] = {
            "order_id": order.ref,
            "carrier": self._random.choice(("DHL", "UPS", "La Poste", "Cargo Bike Couriers")),
            "tracking_code": self._data.uuid(),
        }
        steps = (Insert("shipments", values, order.shipment), _status(order, "shipped"))
        return Transaction(Kind.ORDER_SHIPPED, steps, {"OrderShipped": 1})

    def _deliver(self) -> Transaction | None:
        if (order := _take(self._random, self._shipped)) is None:
            return None
        return Transaction(
            Kind.ORDER_DELIVERED, (Update("shipments", {"id": order.shipment}, {"delivered": True}),)
        )

    def _cancel(self) -> Transaction | None:
        if (order := _take(self._random, self._placed)) is None:
            return None
        return Transaction(Kind.ORDER_CANCELLED, (_status(order, "cancelled"),), {"OrderCancelled": 1})

    def _correct(self) -> Transaction | None:
        """A line gets another quantity, goes, or comes."""
        if not self._placed:
            return None
        order = self._random.choice(self._placed)
        number = self._random.choice(list(order.lines))
        step: Step
        choice = self._random.random()
        if choice < 0.3 and len(order.lines) > 1:
            del order.lines[number]
            step = Delete("order_items", _line_key(order, number))
        elif choice < 0.5:
            number = max(order.lines) + 1
            product = self._random.choice(self._products)
            order.lines[number] = self._line(product)
            _forget(self._idle_products, product)
            step = _insert_line(order, number)
        else:
            line = order.lines[number]
            line.quantity = 1 if line.quantity > 3 else line.quantity + self._random.randint(1, 2)
            step = Update("order_items", _line_key(order, number), {"quantity": line.quantity})
        touch = Update("orders", {"id": order.ref}, {"updated_at": NOW})
        return Transaction(Kind.ORDER_CORRECTED, (step, touch))

    def _line(self, product: Ref) -> _Line:
        return _Line(
            product,
            quantity=self._random.choices((1, 2, 3, 6), (60, 25, 10, 5))[0],
            unit_price=self._prices[product],
            discount=self._data.discount(),
        )

    # Products and customers

    def _add_product(self) -> Transaction:
        ref, values = self._ref("products"), self._data.product()
        price = values["price"]
        assert isinstance(price, Decimal)
        self._prices[ref] = price
        self._products.append(ref)
        self._idle_products.append(ref)
        return Transaction(Kind.PRODUCT_ADDED, (Insert("products", values, ref),))

    def _reprice(self) -> Transaction:
        """One product's price, or a sale: several in one transaction."""
        count = self._random.choices((1, 3, 5), (80, 12, 8))[0]
        products = self._random.sample(self._products, min(count, len(self._products)))
        for product in products:
            self._prices[product] = self._data.other_price(self._prices[product])
        steps = tuple(Update("products", {"id": ref}, {"price": self._prices[ref]}) for ref in products)
        return Transaction(Kind.PRICE_CHANGED, steps, {"ProductPriceChanged": len(steps)})

    def _change_product(self) -> Transaction:
        values: dict[str, Value] = {
            "attributes": self._data.attributes("bike"),
            "active": self._random.random() < 0.8,
        }
        step = Update("products", {"id": self._random.choice(self._products)}, values)
        return Transaction(Kind.PRODUCT_CHANGED, (step,))

    def _delete_product(self) -> Transaction | None:
        if (product := _take(self._random, self._idle_products)) is None:
            return None
        self._products.remove(product)
        del self._prices[product]
        return Transaction(Kind.PRODUCT_DELETED, (Delete("products", {"id": product}),))

    def _register(self) -> Transaction:
        customer, insert = self._new_customer()
        self._customers.append(customer)
        self._idle_customers.append(customer)
        return Transaction(Kind.CUSTOMER_REGISTERED, (insert,), {"CustomerRegistered": 1})

    def _new_customer(self) -> tuple[Ref, Insert]:
        customer = self._ref("customers")
        values = self._data.customer(self._email_number)
        self._email_number += 1
        return customer, Insert("customers", values, customer)

    def _change_customer(self) -> Transaction:
        changes: list[dict[str, Value]] = [
            {"city": self._data.city()},
            {"phone": self._data.phone()},
            {"newsletter": True},
            {"phone": None},
        ]
        values = self._random.choice(changes)
        step = Update("customers", {"id": self._random.choice(self._customers)}, values)
        return Transaction(Kind.CUSTOMER_CHANGED, (step,))

    def _delete_customer(self) -> Transaction | None:
        if (customer := _take(self._random, self._idle_customers)) is None:
            return None
        self._customers.remove(customer)
        return Transaction(Kind.CUSTOMER_DELETED, (Delete("customers", {"id": customer}),))

    # What never happened

    def _roll_back(self) -> Transaction:
        """An order, a payment or a sale that is given up before its commit; the plan's picture stays as it was."""
        choice = self._random.random()
        if choice < 0.4 and self._placed:
            steps, kind = self._payment(self._random.choice(self._placed)), Kind.ORDER_PAID
        elif choice < 0.5:
            product = self._random.choice(self._products)
            price = self._data.other_price(self._prices[product])
            steps, kind = (Update("products", {"id": product}, {"price": price}),), Kind.PRICE_CHANGED
        else:
            steps, kind = self._order(self._random.choice(self._customers))[1], Kind.ORDER_PLACED
        return Transaction(kind, steps, rollback=True)

    def _ref(self, table: str) -> Ref:
        number = self._counts.get(table, 0)
        self._counts[table] = number + 1
        return Ref(table, number)


def plan_seed(
    seed: int, *, customers: int, products: int, first_email_number: int = 1
) -> Iterator[Transaction]:
    """The transactions that fill an empty shop: ten rows each."""
    data = ShopData(Random(seed))  # noqa: S311 - made-up data, to be repeatable
    people = [Insert("customers", data.customer(first_email_number + n)) for n in range(customers)]
    things = [Insert("products", data.product()) for _ in range(products)]
    for kind, inserts in ((Kind.CUSTOMER_REGISTERED, people), (Kind.PRODUCT_ADDED, things)):
        for start in range(0, len(inserts), 10):
            yield Transaction(kind, tuple(inserts[start : start + 10]))


def _take(random: Random, items: deque[T] | list[T]) -> T | None:
    """Remove one of the items and give it back; the last takes its place."""
    if not items:
        return None
    place = random.randrange(len(items))
    items[place], items[-1] = items[-1], items[place]
    return items.pop()


def _forget(items: list[Ref], item: Ref) -> None:
    if item in items:
        items.remove(item)


def _line_key(order: _Order, number: int) -> dict[str, Value]:
    return {"order_id": order.ref, "line_no": number}


def _line_values(line: _Line) -> dict[str, Value]:
    return {
        "product_id": line.product,
        "quantity": line.quantity,
        "unit_price": line.unit_price,
        "discount": line.discount,
    }


def _insert_line(order: _Order, number: int) -> Insert:
    return Insert("order_items", _line_key(order, number) | _line_values(order.lines[number]))


def _status(order: _Order, status: str) -> Update:
    return Update("orders", {"id": order.ref}, {"status": status, "updated_at": NOW})
