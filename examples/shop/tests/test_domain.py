"""The shop's rules, played in memory: a transaction goes in, business events come out."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tidings_domain import load_domain
from tidings_domain.testing import START_US, Outcome, Rehearsal, Statement, delete, insert, update
from tidings_shop.events import (
    CustomerRegistered,
    OrderCancelled,
    OrderPaid,
    OrderPlacedCustomer,
    OrderPlacedLine,
    OrderPlacedV1,
    OrderPlacedV2,
    OrderShipped,
    ProductPriceChanged,
)

SKU = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)

ANN = {
    "id": 3,
    "email": "ann@example.org",
    "first_name": "Ann",
    "last_name": "Lee",
    "phone": None,
    "city": "Rome",
    "newsletter": True,
    "created_at": "2025-12-24T18:00:00.000001Z",
}
BIKE = {
    "id": 9,
    "sku": SKU,
    "name": "Gravel 7",
    "category": "bike",
    "price": "1199.00",
    "weight_kg": 9.8,
    "attributes": '{"gears": 12}',
    "active": True,
    "created_at": "2025-12-01T08:00:00Z",
}


def order_row(**values: Any) -> Statement:
    """An order's row with everything that the database would fill in."""
    row = {
        "id": 1,
        "customer_id": 3,
        "status": "placed",
        "currency": "EUR",
        "note": None,
        "ordered_at": "2026-01-01T00:00:01.500000Z",
        "required_on": 20468,
        "updated_at": START_US,
    }
    return insert("public.orders", **row | values)


def line_row(line_no: int, **values: Any) -> Statement:
    row = {
        "order_id": 1,
        "line_no": line_no,
        "product_id": 9,
        "quantity": 2,
        "unit_price": "10.05",
        "discount": "0.10",
    }
    return insert("public.order_items", **row | values)


def payment_row(number: int, amount: str, **values: Any) -> Statement:
    row = {"id": number, "order_id": 1, "amount": amount, "method": "card", "paid_at": "2026-01-02T00:00:00Z"}
    return insert("public.payments", **row | values)


def shipment_row(number: int) -> Statement:
    row = {"id": number, "order_id": 1, "carrier": "Post", "tracking_code": SKU, "delivered": False}
    return insert("public.shipments", shipped_at="2026-01-03T00:00:00Z", **row)


@pytest.fixture
def shop() -> Rehearsal:
    """A shop with a customer and a product from before."""
    rehearsal = Rehearsal(load_domain("tidings_shop.domain"))
    return rehearsal.given(insert("public.customers", **ANN), insert("public.products", **BIKE))


@pytest.fixture
def ordered(shop: Rehearsal) -> Rehearsal:
    """The same with an order of two lines, 18.09 and 10.00."""
    shop.when(order_row(), line_row(1), line_row(2, quantity=1, unit_price="10.00", discount="0"))
    return shop


def names(told: Outcome) -> list[str]:
    assert not told.failures
    return [type(event).__name__ for event in told.events]


def test_an_order_is_placed_with_its_lines_and_its_customer(shop: Rehearsal) -> None:
    told = shop.when(order_row(), line_row(2, quantity=1, unit_price="10.00", discount="0"), line_row(1))
    assert told.events == [
        OrderPlacedV2(
            order_id=1,
            customer=OrderPlacedCustomer(
                customer_id=3, email="ann@example.org", first_name="Ann", last_name="Lee", city="Rome"
            ),
            total=Decimal("28.09"),
            currency="EUR",
            placed_at=datetime(2026, 1, 1, 0, 0, 1, 500000, tzinfo=UTC),
            required_on=date(2026, 1, 15),
            lines=(
                OrderPlacedLine(
                    line_no=1,
                    product_id=9,
                    quantity=2,
                    unit_price=Decimal("10.05"),
                    discount=Decimal("0.10"),
                    amount=Decimal("18.09"),
                ),
                OrderPlacedLine(
                    line_no=2,
                    product_id=9,
                    quantity=1,
                    unit_price=Decimal("10.00"),
                    discount=Decimal(0),
                    amount=Decimal("10.00"),
                ),
            ),
        )
    ]


def test_version_1_is_published_beside_version_2(shop: Rehearsal) -> None:
    told = shop.when(order_row(), line_row(1))
    assert [one.topic for one in told.published] == ["shop.order-placed.v2", "shop.order-placed.v1"]
    assert told.published[1].event == OrderPlacedV1(
        order_id=1,
        customer_id=3,
        total=Decimal("18.09"),
        currency="EUR",
        placed_at=datetime(2026, 1, 1, 0, 0, 1, 500000, tzinfo=UTC),
    )
    assert {one.key for one in told.published} == {b"1"}
    assert len({one.event_id for one in told.published}) == 2


def test_an_order_of_a_customer_who_registers_in_the_same_transaction(shop: Rehearsal) -> None:
    told = shop.when(
        insert("public.customers", **ANN | {"id": 4, "email": "bo@example.org", "city": None}),
        order_row(customer_id=4),
        line_row(1),
    )
    assert sorted(names(told)) == ["CustomerRegisteredV1", "OrderPlacedV2"]
    placed = next(event for event in told.events if isinstance(event, OrderPlacedV2))
    assert placed.customer.email == "bo@example.org"


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [
        ([update("public.orders", id=1, note="ring twice")], []),
        ([update("public.orders", id=1, updated_at=START_US + 5)], []),
        ([update("public.order_items", order_id=1, line_no=1, quantity=5)], []),
        ([delete("public.order_items", order_id=1, line_no=2)], []),
        ([payment_row(1, "28.08")], []),
        ([payment_row(1, "28.09")], ["OrderPaidV1"]),
        ([payment_row(1, "28.09"), update("public.orders", id=1, status="paid")], ["OrderPaidV1"]),
        ([update("public.orders", id=1, status="paid")], ["OrderPaidV1"]),
        ([shipment_row(1)], ["OrderShippedV1"]),
        ([shipment_row(1), shipment_row(2)], ["OrderShippedV1", "OrderShippedV1"]),
        ([update("public.orders", id=1, status="cancelled")], ["OrderCancelledV1"]),
        ([delete("public.orders", id=1)], []),
        ([update("public.customers", id=3, city="Oslo")], []),
        ([update("public.products", id=9, price="1199.0")], []),
        ([update("public.products", id=9, active=False)], []),
        ([update("public.products", id=9, price="999.00")], ["ProductPriceChangedV1"]),
        ([insert("public.products", **BIKE | {"id": 10})], []),
        ([insert("public.customers", **ANN | {"id": 5})], ["CustomerRegisteredV1"]),
        ([delete("public.products", id=9)], []),
    ],
)
def test_what_is_news(ordered: Rehearsal, transaction: list[Statement], expected: list[str]) -> None:
    assert names(ordered.when(*transaction)) == expected


def test_an_order_is_paid_once_whatever_happens_to_it(ordered: Rehearsal) -> None:
    steps = [
        ([payment_row(1, "20.00")], []),
        ([payment_row(2, "8.09", paid_at="2026-01-05T00:00:00Z")], ["OrderPaidV1"]),
        ([update("public.orders", id=1, status="paid")], []),
        ([update("public.orders", id=1, status="placed"), line_row(3)], []),
        ([payment_row(3, "100.00")], []),
        ([shipment_row(1), update("public.orders", id=1, status="shipped")], ["OrderShippedV1"]),
    ]
    told = [names(ordered.when(*statements)) for statements, _ in steps]
    assert told == [expected for _, expected in steps]


def test_what_a_payment_tells(ordered: Rehearsal) -> None:
    ordered.when(payment_row(1, "20.00"))
    told = ordered.when(payment_row(2, "10.00", paid_at="2026-01-05T00:00:00Z"))
    assert told.events == [
        OrderPaid(
            order_id=1,
            customer_id=3,
            total=Decimal("28.09"),
            paid=Decimal("30.00"),
            currency="EUR",
            payments=2,
            paid_at=datetime(2026, 1, 5, tzinfo=UTC),
        )
    ]


def test_what_a_shipment_tells(ordered: Rehearsal) -> None:
    assert ordered.when(shipment_row(7)).events == [
        OrderShipped(
            order_id=1,
            shipment_id=7,
            carrier="Post",
            tracking_code=UUID(SKU),
            shipped_at=datetime(2026, 1, 3, tzinfo=UTC),
        )
    ]
    assert ordered.when(update("public.shipments", id=7, delivered=True)).events == []


@pytest.mark.parametrize(("payments", "was_paid"), [([], False), ([payment_row(1, "28.09")], True)])
def test_what_a_cancellation_tells(ordered: Rehearsal, payments: list[Statement], was_paid: bool) -> None:
    if payments:
        ordered.when(*payments)
    told = ordered.when(update("public.orders", id=1, status="cancelled"))
    at = datetime.fromtimestamp(ordered.ts_us / 1_000_000, UTC)
    assert told.events == [OrderCancelled(order_id=1, customer_id=3, was_paid=was_paid, cancelled_at=at)]


def test_what_a_registration_tells(shop: Rehearsal) -> None:
    told = shop.when(insert("public.customers", **ANN | {"id": 4, "city": None}))
    assert told.events == [
        CustomerRegistered(
            customer_id=4,
            email="ann@example.org",
            first_name="Ann",
            last_name="Lee",
            city=None,
            newsletter=True,
            registered_at=datetime(2025, 12, 24, 18, 0, 0, 1, tzinfo=UTC),
        )
    ]


def test_what_a_price_change_tells(shop: Rehearsal) -> None:
    told = shop.when(update("public.products", id=9, price="999.90"))
    assert told.events == [
        ProductPriceChanged(
            product_id=9,
            sku=UUID(SKU),
            name="Gravel 7",
            old_price=Decimal("1199.00"),
            new_price=Decimal("999.90"),
            changed_at=datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC),
        )
    ]


def test_an_order_without_a_known_customer_is_no_rule_s_business() -> None:
    """The foreign key promises a customer, so one that is not known holds the order: no rule may tell half of it."""
    shop = Rehearsal(load_domain("tidings_shop.domain"))
    told = shop.when(order_row(), line_row(1))
    assert told.events == []
    [failure] = told.failures
    assert (failure.rule, failure.missing) == (None, ("public.customers",))
    assert failure.reason.startswith(
        "Order.customer is required, but the row of public.customers that public.orders.customer_id names is not known"
    )


def test_columns_that_no_rule_uses_may_come_go_and_change(shop: Rehearsal) -> None:
    other = Rehearsal(shop.domain).given(
        insert(
            "public.customers", **{key: value for key, value in ANN.items() if key != "phone"} | {"nick": 1}
        ),
    )
    shop.when()  # the same commit position
    ours = shop.when(order_row(), line_row(1))
    other.lsn, other.ts_us, other.txid = shop.lsn - 0x100, shop.ts_us - 1_000_000, shop.txid - 1
    theirs = other.when(order_row(note=17, added={"x": 1}, updated_at="text"), line_row(1, colour="red"))
    assert [(one.headers, one.key, one.body) for one in theirs.published] == [
        (one.headers, one.key, one.body) for one in ours.published
    ]
