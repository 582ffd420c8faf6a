"""Business events of the domain `shop`.

Generated from schemas/shop by `tidings-schemas generate`; edit the contracts, not this file.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import ClassVar
from uuid import UUID

from tidings_domain import BusinessEvent, BusinessRecord


class CustomerRegisteredV1(BusinessEvent, frozen=True, kw_only=True):
    """A customer has registered with the shop.

    Attributes:
        customer_id: The customer's number, which is also the event's subject.
        email: The customer's address for messages.
        first_name: Given name.
        last_name: Family name.
        city: Where the customer lives, if given.
        newsletter: Whether the customer asked for the newsletter.
        registered_at: When the customer registered.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "customer-registered"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"CustomerRegistered","namespace":"shop.customer_registered.v1","do'
        'c":"A customer has registered with the shop.","fields":[{"name":"customer_id","type":"long'
        '","doc":"The customer\'s number, which is also the event\'s subject."},{"name":"email","type'
        '":"string","doc":"The customer\'s address for messages."},{"name":"first_name","type":"stri'
        'ng","doc":"Given name."},{"name":"last_name","type":"string","doc":"Family name."},{"name"'
        ':"city","type":["null","string"],"default":null,"doc":"Where the customer lives, if given.'
        '"},{"name":"newsletter","type":"boolean","doc":"Whether the customer asked for the newslet'
        'ter."},{"name":"registered_at","type":{"type":"long","logicalType":"timestamp-micros"},"do'
        'c":"When the customer registered."}]}'
    )

    customer_id: int
    email: str
    first_name: str
    last_name: str
    city: str | None = None
    newsletter: bool
    registered_at: datetime


class OrderCancelledV1(BusinessEvent, frozen=True, kw_only=True):
    """An order was cancelled and will not be delivered.

    Attributes:
        order_id: The order's number, which is also the event's subject.
        customer_id: The number of the customer who placed the order.
        was_paid: Whether the order had been paid in full, so that money has to be returned.
        cancelled_at: When it was cancelled.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "order-cancelled"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"OrderCancelled","namespace":"shop.order_cancelled.v1","doc":"An o'
        'rder was cancelled and will not be delivered.","fields":[{"name":"order_id","type":"long",'
        '"doc":"The order\'s number, which is also the event\'s subject."},{"name":"customer_id","typ'
        'e":"long","doc":"The number of the customer who placed the order."},{"name":"was_paid","ty'
        'pe":"boolean","doc":"Whether the order had been paid in full, so that money has to be retu'
        'rned."},{"name":"cancelled_at","type":{"type":"long","logicalType":"timestamp-micros"},"do'
        'c":"When it was cancelled."}]}'
    )

    order_id: int
    customer_id: int
    was_paid: bool
    cancelled_at: datetime


class OrderPaidV1(BusinessEvent, frozen=True, kw_only=True):
    """An order is paid in full. Said once for an order.

    Attributes:
        order_id: The order's number, which is also the event's subject.
        customer_id: The number of the customer who placed the order.
        total: What the order cost when it was paid, in the order's currency.
        paid: Sum of all payments until then.
        currency: ISO 4217 code of the currency of all amounts.
        payments: How many payments it took.
        paid_at: When the last of these payments was made.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "order-paid"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"OrderPaid","namespace":"shop.order_paid.v1","doc":"An order is pa'
        'id in full. Said once for an order.","fields":[{"name":"order_id","type":"long","doc":"The'
        ' order\'s number, which is also the event\'s subject."},{"name":"customer_id","type":"long",'
        '"doc":"The number of the customer who placed the order."},{"name":"total","type":{"type":"'
        'bytes","logicalType":"decimal","precision":12,"scale":2},"doc":"What the order cost when i'
        't was paid, in the order\'s currency."},{"name":"paid","type":{"type":"bytes","logicalType"'
        ':"decimal","precision":12,"scale":2},"doc":"Sum of all payments until then."},{"name":"cur'
        'rency","type":"string","doc":"ISO 4217 code of the currency of all amounts."},{"name":"pay'
        'ments","type":"int","doc":"How many payments it took."},{"name":"paid_at","type":{"type":"'
        'long","logicalType":"timestamp-micros"},"doc":"When the last of these payments was made."}'
        ']}'
    )

    order_id: int
    customer_id: int
    total: Decimal
    paid: Decimal
    currency: str
    payments: int
    paid_at: datetime


class OrderPlacedV1(BusinessEvent, frozen=True, kw_only=True):
    """A customer has placed an order.

    Attributes:
        order_id: The order's number, which is also the event's subject.
        customer_id: The number of the customer who placed the order.
        total: Sum of all lines after discounts, in the order's currency.
        currency: ISO 4217 code of the currency of all amounts.
        placed_at: When the order was placed.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "order-placed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"OrderPlaced","namespace":"shop.order_placed.v1","doc":"A customer'
        ' has placed an order.","fields":[{"name":"order_id","type":"long","doc":"The order\'s numbe'
        'r, which is also the event\'s subject."},{"name":"customer_id","type":"long","doc":"The num'
        'ber of the customer who placed the order."},{"name":"total","type":{"type":"bytes","logica'
        'lType":"decimal","precision":12,"scale":2},"doc":"Sum of all lines after discounts, in the'
        ' order\'s currency."},{"name":"currency","type":"string","doc":"ISO 4217 code of the curren'
        'cy of all amounts."},{"name":"placed_at","type":{"type":"long","logicalType":"timestamp-mi'
        'cros"},"doc":"When the order was placed."}]}'
    )

    order_id: int
    customer_id: int
    total: Decimal
    currency: str
    placed_at: datetime


class OrderPlacedV2Customer(BusinessRecord, frozen=True, kw_only=True):
    """The customer as known when the order was placed.

    Attributes:
        customer_id: The customer's number.
        email: The address for messages about the order.
        first_name: Given name.
        last_name: Family name.
        city: Where the customer lives, if known.
    """

    customer_id: int
    email: str
    first_name: str
    last_name: str
    city: str | None = None


class OrderPlacedV2Line(BusinessRecord, frozen=True, kw_only=True):
    """One product in the order.

    Attributes:
        line_no: The line's number within the order, from 1.
        product_id: The product's number.
        quantity: How many pieces.
        unit_price: Price of one piece before the discount.
        discount: Discount as a fraction of the price: 0.10 is ten per cent.
        amount: Quantity times price after the discount, rounded half up to cents.
    """

    line_no: int
    product_id: int
    quantity: int
    unit_price: Decimal
    discount: Decimal
    amount: Decimal


class OrderPlacedV2(BusinessEvent, frozen=True, kw_only=True):
    """A customer has placed an order: who, what, and until when it is wanted.

    Attributes:
        order_id: The order's number, which is also the event's subject.
        customer: Who placed the order.
        total: Sum of all lines after discounts, in the order's currency.
        currency: ISO 4217 code of the currency of all amounts.
        placed_at: When the order was placed.
        required_on: The day by which the customer wants the order, if one was given.
        lines: What was ordered, by line number.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "order-placed"
    __major__: ClassVar[int] = 2
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"OrderPlaced","namespace":"shop.order_placed.v2","doc":"A customer'
        ' has placed an order: who, what, and until when it is wanted.","fields":[{"name":"order_id'
        '","type":"long","doc":"The order\'s number, which is also the event\'s subject."},{"name":"c'
        'ustomer","type":{"type":"record","name":"Customer","doc":"The customer as known when the o'
        'rder was placed.","fields":[{"name":"customer_id","type":"long","doc":"The customer\'s numb'
        'er."},{"name":"email","type":"string","doc":"The address for messages about the order."},{'
        '"name":"first_name","type":"string","doc":"Given name."},{"name":"last_name","type":"strin'
        'g","doc":"Family name."},{"name":"city","type":["null","string"],"default":null,"doc":"Whe'
        're the customer lives, if known."}]},"doc":"Who placed the order."},{"name":"total","type"'
        ':{"type":"bytes","logicalType":"decimal","precision":12,"scale":2},"doc":"Sum of all lines'
        ' after discounts, in the order\'s currency."},{"name":"currency","type":"string","doc":"ISO'
        ' 4217 code of the currency of all amounts."},{"name":"placed_at","type":{"type":"long","lo'
        'gicalType":"timestamp-micros"},"doc":"When the order was placed."},{"name":"required_on","'
        'type":["null",{"type":"int","logicalType":"date"}],"default":null,"doc":"The day by which '
        'the customer wants the order, if one was given."},{"name":"lines","type":{"type":"array","'
        'items":{"type":"record","name":"Line","doc":"One product in the order.","fields":[{"name":'
        '"line_no","type":"int","doc":"The line\'s number within the order, from 1."},{"name":"produ'
        'ct_id","type":"long","doc":"The product\'s number."},{"name":"quantity","type":"int","doc":'
        '"How many pieces."},{"name":"unit_price","type":{"type":"bytes","logicalType":"decimal","p'
        'recision":10,"scale":2},"doc":"Price of one piece before the discount."},{"name":"discount'
        '","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2},"doc":"Discount '
        'as a fraction of the price: 0.10 is ten per cent."},{"name":"amount","type":{"type":"bytes'
        '","logicalType":"decimal","precision":12,"scale":2},"doc":"Quantity times price after the '
        'discount, rounded half up to cents."}]}},"doc":"What was ordered, by line number."}]}'
    )

    order_id: int
    customer: OrderPlacedV2Customer
    total: Decimal
    currency: str
    placed_at: datetime
    required_on: date | None = None
    lines: tuple[OrderPlacedV2Line, ...]


class OrderShippedV1(BusinessEvent, frozen=True, kw_only=True):
    """A shipment of an order has left. An order may have several.

    Attributes:
        order_id: The order's number, which is also the event's subject.
        shipment_id: The shipment's number.
        carrier: Who carries it.
        tracking_code: The carrier's code by which the shipment can be followed.
        shipped_at: When it left.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "order-shipped"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"OrderShipped","namespace":"shop.order_shipped.v1","doc":"A shipme'
        'nt of an order has left. An order may have several.","fields":[{"name":"order_id","type":"'
        'long","doc":"The order\'s number, which is also the event\'s subject."},{"name":"shipment_id'
        '","type":"long","doc":"The shipment\'s number."},{"name":"carrier","type":"string","doc":"W'
        'ho carries it."},{"name":"tracking_code","type":{"type":"string","logicalType":"uuid"},"do'
        'c":"The carrier\'s code by which the shipment can be followed."},{"name":"shipped_at","type'
        '":{"type":"long","logicalType":"timestamp-micros"},"doc":"When it left."}]}'
    )

    order_id: int
    shipment_id: int
    carrier: str
    tracking_code: UUID
    shipped_at: datetime


class ProductPriceChangedV1(BusinessEvent, frozen=True, kw_only=True):
    """A product has another price.

    Attributes:
        product_id: The product's number, which is also the event's subject.
        sku: The product's stock keeping unit.
        name: The product's name.
        old_price: The price before, in euros.
        new_price: The price from now on, in euros.
        changed_at: When the price was changed.
    """

    __domain__: ClassVar[str] = "shop"
    __event__: ClassVar[str] = "product-price-changed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"ProductPriceChanged","namespace":"shop.product_price_changed.v1",'
        '"doc":"A product has another price.","fields":[{"name":"product_id","type":"long","doc":"T'
        'he product\'s number, which is also the event\'s subject."},{"name":"sku","type":{"type":"st'
        'ring","logicalType":"uuid"},"doc":"The product\'s stock keeping unit."},{"name":"name","typ'
        'e":"string","doc":"The product\'s name."},{"name":"old_price","type":{"type":"bytes","logic'
        'alType":"decimal","precision":10,"scale":2},"doc":"The price before, in euros."},{"name":"'
        'new_price","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2},"doc":'
        '"The price from now on, in euros."},{"name":"changed_at","type":{"type":"long","logicalTyp'
        'e":"timestamp-micros"},"doc":"When the price was changed."}]}'
    )

    product_id: int
    sku: UUID
    name: str
    old_price: Decimal
    new_price: Decimal
    changed_at: datetime


CustomerRegistered = CustomerRegisteredV1
OrderCancelled = OrderCancelledV1
OrderPaid = OrderPaidV1
OrderPlacedCustomer = OrderPlacedV2Customer
OrderPlacedLine = OrderPlacedV2Line
OrderPlaced = OrderPlacedV2
OrderShipped = OrderShippedV1
ProductPriceChanged = ProductPriceChangedV1
