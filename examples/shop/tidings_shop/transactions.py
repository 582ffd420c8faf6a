"""What one transaction of the shop does, as data: no database, no random numbers.

A plan (`tidings_shop.traffic_plan`) makes transactions, `tidings_shop.database` executes them. Rows that a plan creates
have no id before the database gives them one, so a row is named by a `Ref`, and the one who executes keeps the ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum, StrEnum
from uuid import UUID


class Kind(StrEnum):
    """What a transaction means to the shop."""

    CUSTOMER_REGISTERED = "customer_registered"
    CUSTOMER_CHANGED = "customer_changed"
    CUSTOMER_DELETED = "customer_deleted"
    PRODUCT_ADDED = "product_added"
    PRODUCT_CHANGED = "product_changed"
    PRODUCT_DELETED = "product_deleted"
    PRICE_CHANGED = "price_changed"
    ORDER_PLACED = "order_placed"
    ORDER_CORRECTED = "order_corrected"
    ORDER_CANCELLED = "order_cancelled"
    ORDER_PAID = "order_paid"
    ORDER_SHIPPED = "order_shipped"
    ORDER_DELIVERED = "order_delivered"


class Now(Enum):
    """The time of the transaction, as the database knows it."""

    NOW = "now"


NOW = Now.NOW


@dataclass(frozen=True, slots=True)
class Ref:
    """A row of `table` that this plan knows as its `number`-th; not the id it has in the database."""

    table: str
    number: int


@dataclass(frozen=True, slots=True)
class Json:
    """A value of a jsonb column."""

    value: Mapping[str, object]


Value = str | int | float | bool | None | Decimal | date | UUID | Json | Ref | Now


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row; with `creates`, its id becomes known under that name."""

    table: str
    values: Mapping[str, Value]
    creates: Ref | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """New values for the row that `key` names."""

    table: str
    key: Mapping[str, Value]
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Delete:
    """The end of the row that `key` names."""

    table: str
    key: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Steps between a savepoint and a rollback to it: written, and never committed."""

    steps: tuple[Insert | Update | Delete, ...]


Step = Insert | Update | Delete | Abandoned


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction.

    `facts` says how many business events of each name a correct translation makes of it: a claim of the plan, that
    the demo checks. Nothing that a transaction with `rollback` creates is used by a later one.
    """

    kind: Kind
    steps: tuple[Step, ...]
    facts: Mapping[str, int] = field(default_factory=dict)
    rollback: bool = False
