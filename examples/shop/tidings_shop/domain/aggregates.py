"""The business objects of the shop, built from its tables. Only the columns that the rules use are declared."""

from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID

from tidings_domain import Aggregate, Row, children, reference

CENT = Decimal("0.01")


class Buyer(Row, table="public.customers", key="id"):
    """What an order tells about its customer."""

    id: int
    email: str
    first_name: str
    last_name: str
    city: str | None


class Line(Row, table="public.order_items", key=("order_id", "line_no")):
    """One product in an order."""

    order_id: int
    line_no: int
    product_id: int
    quantity: int
    unit_price: Decimal
    discount: Decimal

    @property
    def amount(self) -> Decimal:
        """Quantity times price after the discount, rounded half up to cents."""
        return (self.quantity * self.unit_price * (1 - self.discount)).quantize(CENT, ROUND_HALF_UP)


class Payment(Row, table="public.payments", key="id"):
    """Money that came in for an order."""

    id: int
    amount: Decimal
    paid_at: datetime


class Shipment(Row, table="public.shipments", key="id"):
    """A parcel that left."""

    id: int
    carrier: str
    tracking_code: UUID
    shipped_at: datetime


class Order(Aggregate, root="public.orders", key="id"):
    """An order with everything that belongs to it."""

    id: int
    customer_id: int
    status: str
    currency: str
    ordered_at: datetime
    required_on: date | None

    lines = children(Line, by="order_id")
    payments = children(Payment, by="order_id")
    shipments = children(Shipment, by="order_id")
    customer = reference(Buyer, by="customer_id", required=True)

    @property
    def total(self) -> Decimal:
        """Sum of all lines after discounts."""
        return sum((line.amount for line in self.lines), Decimal(0)).quantize(CENT)

    @property
    def paid(self) -> Decimal:
        """Sum of all payments."""
        return sum((payment.amount for payment in self.payments), Decimal(0)).quantize(CENT)

    @property
    def is_paid(self) -> bool:
        """Paid in full: somebody has said so, or the payments reach the total."""
        if self.status in ("paid", "shipped"):
            return True
        return bool(self.payments) and self.paid >= self.total


class Customer(Aggregate, root="public.customers", key="id"):
    """Somebody who has registered."""

    id: int
    email: str
    first_name: str
    last_name: str
    city: str | None
    newsletter: bool
    created_at: datetime


class Product(Aggregate, root="public.products", key="id"):
    """Something the shop sells."""

    id: int
    sku: UUID
    name: str
    price: Decimal
