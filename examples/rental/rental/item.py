"""What rental.items means, and what of it is news.

Only the columns that a rule uses are declared: the others can change in the database without any effect. `search` and
`weekly_cents` are generated, and so not in the WAL; `contacts` is an array of a domain, which capture leaves out.
"""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Literal

from tidings_domain import Aggregate, Change, Row, reference, rule

from rental.events import ItemDamaged, ItemListed, ItemRetired

Condition = Literal["new", "good", "worn", "broken"]
_WORSE: tuple[Condition, ...] = ("new", "good", "worn", "broken")


class CategoryRef(Row, table="rental.categories", key="id"):
    id: int
    name: str


class Item(Aggregate, root="rental.items", key="id"):
    id: int
    category_id: int
    title: str
    tags: list[str]
    condition: Condition
    daily_cents: int
    deposit: Decimal
    deleted_at: datetime | None

    category = reference(CategoryRef, by="category_id", required=True)


@rule(Item, emits=ItemListed)
def item_listed(change: Change[Item]) -> Iterator[ItemListed]:
    """A thing can be borrowed: there is a row, and it is not one of a thing that has gone."""
    if change.created and change.current.deleted_at is None:
        item = change.current
        yield ItemListed(
            item_id=item.id,
            title=item.title,
            category=item.category.name,
            tags=tuple(item.tags),
            condition=item.condition,
            daily_cents=item.daily_cents,
            deposit=item.deposit,
            currency="EUR",
        )


@rule(Item, emits=ItemDamaged)
def item_damaged(change: Change[Item]) -> Iterator[ItemDamaged]:
    """Its condition is worse than it was; one that was repaired is no news."""
    before, after = change.before, change.after
    if before is None or after is None:
        return
    if _WORSE.index(after.condition) > _WORSE.index(before.condition):
        yield ItemDamaged(item_id=after.id, was=before.condition, now=after.condition)


@rule(Item, emits=ItemRetired)
def item_retired(change: Change[Item]) -> Iterator[ItemRetired]:
    """The row stays, with the time at which the thing has gone."""
    item = change.after
    if (
        item is not None
        and item.deleted_at is not None
        and not change.created
        and change.changed(Item.deleted_at)
    ):
        yield ItemRetired(item_id=item.id, title=item.title, retired_at=item.deleted_at)
