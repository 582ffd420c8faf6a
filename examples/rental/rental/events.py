"""Business events of the domain `rental`.

Generated from schemas/rental by `tidings-schemas generate`; edit the contracts, not this file.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import ClassVar, Literal
from uuid import UUID

from tidings_domain import BusinessEvent, BusinessRecord


class CategoryCreatedV1(BusinessEvent, frozen=True, kw_only=True):
    """There is a new category.

    Attributes:
        id: Which one: rental.categories.id.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "category-created"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"CategoryCreated","namespace":"rental.category_created.v1","doc":"'
        'There is a new category.","fields":[{"name":"id","type":"long","doc":"Which one: rental.ca'
        'tegories.id."}]}'
    )

    id: int


class ItemDamagedV1(BusinessEvent, frozen=True, kw_only=True):
    """A thing has come to a worse condition.

    Attributes:
        item_id: The thing's number.
        was: Before.
        now: From now on.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "item-damaged"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"ItemDamaged","namespace":"rental.item_damaged.v1","doc":"A thing '
        'has come to a worse condition.","fields":[{"name":"item_id","type":"long","doc":"The thing'
        '\'s number."},{"name":"was","type":{"type":"enum","name":"Condition","symbols":["new","good'
        '","worn","broken"]},"doc":"Before."},{"name":"now","type":"rental.item_damaged.v1.Conditio'
        'n","doc":"From now on."}]}'
    )

    item_id: int
    was: Literal["new", "good", "worn", "broken"]
    now: Literal["new", "good", "worn", "broken"]


class ItemListedV1(BusinessEvent, frozen=True, kw_only=True):
    """A thing can be borrowed from now on.

    Attributes:
        item_id: The thing's number.
        title: What it is called.
        category: The name of the category that it stands in.
        tags: Words to find it by.
        condition: What it looks like.
        daily_cents: What a day costs, in cents.
        deposit: What has to be left for it, in the currency's unit.
        currency: ISO 4217 code of the amounts.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "item-listed"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"ItemListed","namespace":"rental.item_listed.v1","doc":"A thing ca'
        'n be borrowed from now on.","fields":[{"name":"item_id","type":"long","doc":"The thing\'s n'
        'umber."},{"name":"title","type":"string","doc":"What it is called."},{"name":"category","t'
        'ype":"string","doc":"The name of the category that it stands in."},{"name":"tags","type":{'
        '"type":"array","items":"string"},"doc":"Words to find it by."},{"name":"condition","type":'
        '{"type":"enum","name":"Condition","symbols":["new","good","worn","broken"]},"doc":"What it'
        ' looks like."},{"name":"daily_cents","type":"long","doc":"What a day costs, in cents."},{"'
        'name":"deposit","type":{"type":"bytes","logicalType":"decimal","precision":10,"scale":2},"'
        'doc":"What has to be left for it, in the currency\'s unit."},{"name":"currency","type":"str'
        'ing","doc":"ISO 4217 code of the amounts."}]}'
    )

    item_id: int
    title: str
    category: str
    tags: tuple[str, ...]
    condition: Literal["new", "good", "worn", "broken"]
    daily_cents: int
    deposit: Decimal
    currency: str


class ItemRetiredV1(BusinessEvent, frozen=True, kw_only=True):
    """A thing is no longer lent.

    Attributes:
        item_id: The thing's number.
        title: What it was called.
        retired_at: When it was taken out.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "item-retired"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"ItemRetired","namespace":"rental.item_retired.v1","doc":"A thing '
        'is no longer lent.","fields":[{"name":"item_id","type":"long","doc":"The thing\'s number."}'
        ',{"name":"title","type":"string","doc":"What it was called."},{"name":"retired_at","type":'
        '{"type":"long","logicalType":"timestamp-micros"},"doc":"When it was taken out."}]}'
    )

    item_id: int
    title: str
    retired_at: datetime


class LoanBegunV1Item(BusinessRecord, frozen=True, kw_only=True):
    """A thing of the loan.

    Attributes:
        item_id: The thing's number.
        title: What it is called.
        price_cents: What it costs for the whole loan, in cents.
    """

    item_id: int
    title: str
    price_cents: int


class LoanBegunV1(BusinessEvent, frozen=True, kw_only=True):
    """Somebody has borrowed things.

    Attributes:
        begun_on: The first day; with loan_id it names the loan.
        loan_id: The loan's number.
        member_id: Who has them.
        channel: Where it was agreed.
        due_on: The last day.
        items: What was borrowed.
        total_cents: What all of it costs, in cents.
        currency: ISO 4217 code of the amounts.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "loan-begun"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"LoanBegun","namespace":"rental.loan_begun.v1","doc":"Somebody has'
        ' borrowed things.","fields":[{"name":"begun_on","type":{"type":"int","logicalType":"date"}'
        ',"doc":"The first day; with loan_id it names the loan."},{"name":"loan_id","type":"long","'
        'doc":"The loan\'s number."},{"name":"member_id","type":{"type":"string","logicalType":"uuid'
        '"},"doc":"Who has them."},{"name":"channel","type":{"type":"enum","name":"Channel","symbol'
        's":["counter","web","partner"]},"doc":"Where it was agreed."},{"name":"due_on","type":{"ty'
        'pe":"int","logicalType":"date"},"doc":"The last day."},{"name":"items","type":{"type":"arr'
        'ay","items":{"type":"record","name":"Item","doc":"A thing of the loan.","fields":[{"name":'
        '"item_id","type":"long","doc":"The thing\'s number."},{"name":"title","type":"string","doc"'
        ':"What it is called."},{"name":"price_cents","type":"long","doc":"What it costs for the wh'
        'ole loan, in cents."}]}},"doc":"What was borrowed."},{"name":"total_cents","type":"long","'
        'doc":"What all of it costs, in cents."},{"name":"currency","type":"string","doc":"ISO 4217'
        ' code of the amounts."}]}'
    )

    begun_on: date
    loan_id: int
    member_id: UUID
    channel: Literal["counter", "web", "partner"]
    due_on: date
    items: tuple[LoanBegunV1Item, ...]
    total_cents: int
    currency: str


class LoanReturnedV1(BusinessEvent, frozen=True, kw_only=True):
    """All things of a loan are back.

    Attributes:
        begun_on: The first day; with loan_id it names the loan.
        loan_id: The loan's number.
        member_id: Who had them.
        returned_at: When they came.
        days_late: Days after the last day of the loan; 0 when they came in time.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "loan-returned"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"LoanReturned","namespace":"rental.loan_returned.v1","doc":"All th'
        'ings of a loan are back.","fields":[{"name":"begun_on","type":{"type":"int","logicalType":'
        '"date"},"doc":"The first day; with loan_id it names the loan."},{"name":"loan_id","type":"'
        'long","doc":"The loan\'s number."},{"name":"member_id","type":{"type":"string","logicalType'
        '":"uuid"},"doc":"Who had them."},{"name":"returned_at","type":{"type":"long","logicalType"'
        ':"timestamp-micros"},"doc":"When they came."},{"name":"days_late","type":"int","doc":"Days'
        ' after the last day of the loan; 0 when they came in time."}]}'
    )

    begun_on: date
    loan_id: int
    member_id: UUID
    returned_at: datetime
    days_late: int


class MemberJoinedV1(BusinessEvent, frozen=True, kw_only=True):
    """Somebody may borrow from now on.

    Attributes:
        member_id: Who.
        joined_on: Since when.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "member-joined"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"MemberJoined","namespace":"rental.member_joined.v1","doc":"Somebo'
        'dy may borrow from now on.","fields":[{"name":"member_id","type":{"type":"string","logical'
        'Type":"uuid"},"doc":"Who."},{"name":"joined_on","type":{"type":"int","logicalType":"date"}'
        ',"doc":"Since when."}]}'
    )

    member_id: UUID
    joined_on: date


class MemberLeftV1(BusinessEvent, frozen=True, kw_only=True):
    """Somebody is no longer a member.

    Attributes:
        member_id: Who.
        left_at: Since when.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "member-left"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"MemberLeft","namespace":"rental.member_left.v1","doc":"Somebody i'
        's no longer a member.","fields":[{"name":"member_id","type":{"type":"string","logicalType"'
        ':"uuid"},"doc":"Who."},{"name":"left_at","type":{"type":"long","logicalType":"timestamp-mi'
        'cros"},"doc":"Since when."}]}'
    )

    member_id: UUID
    left_at: datetime


class PaymentReceivedV1(BusinessEvent, frozen=True, kw_only=True):
    """A member has paid.

    Attributes:
        paid_on: The day; with payment_id it names the payment.
        payment_id: The payment's number.
        member_id: Who has paid.
        amount_cents: How much, in cents.
        currency: ISO 4217 code of the amounts.
    """

    __domain__: ClassVar[str] = "rental"
    __event__: ClassVar[str] = "payment-received"
    __major__: ClassVar[int] = 1
    __contract__: ClassVar[str] = (
        '{"type":"record","name":"PaymentReceived","namespace":"rental.payment_received.v1","doc":"'
        'A member has paid.","fields":[{"name":"paid_on","type":{"type":"int","logicalType":"date"}'
        ',"doc":"The day; with payment_id it names the payment."},{"name":"payment_id","type":"long'
        '","doc":"The payment\'s number."},{"name":"member_id","type":{"type":"string","logicalType"'
        ':"uuid"},"doc":"Who has paid."},{"name":"amount_cents","type":"long","doc":"How much, in c'
        'ents."},{"name":"currency","type":"string","doc":"ISO 4217 code of the amounts."}]}'
    )

    paid_on: date
    payment_id: int
    member_id: UUID
    amount_cents: int
    currency: str


CategoryCreated = CategoryCreatedV1
ItemDamaged = ItemDamagedV1
ItemListed = ItemListedV1
ItemRetired = ItemRetiredV1
LoanBegunItem = LoanBegunV1Item
LoanBegun = LoanBegunV1
LoanReturned = LoanReturnedV1
MemberJoined = MemberJoinedV1
MemberLeft = MemberLeftV1
PaymentReceived = PaymentReceivedV1
