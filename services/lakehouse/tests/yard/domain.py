"""Aggregates and rules."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal

from tidings_domain import Aggregate, Change, Row, children, down_conversion, reference, rule
from yard.events import BoxChangedV1, BoxChangedV2, ItemLeftV1, OwnerRenamedV1


class City(Row, table="public.cities", key="id"):
    id: int
    name: str


class Holder(Row, table="public.owners", key="id"):
    id: int
    name: str
    city = reference(City, by="city_id")


class Part(Row, table="public.parts", key="id"):
    id: int
    item_id: int
    name: str


class Item(Row, table="public.items", key="id"):
    id: int
    name: str
    parts = children(Part, by="item_id")


class Tag(Row, table="public.tags", key=("id",)):
    id: int
    label: str


class Box(Aggregate, root="public.boxes", key="id"):
    id: str
    state: str
    note: str | None
    weight: Decimal | None
    made_at: datetime | None
    items = children(Item, by="box_id")
    tags = children(Tag, by="box_id")
    owner = reference(Holder, by="owner_id")


class Owner(Aggregate, root="public.owners", key="id"):
    id: int
    name: str


@down_conversion(BoxChangedV2, to=BoxChangedV1)
def box_changed_v1(event: BoxChangedV2) -> BoxChangedV1:
    return BoxChangedV1(box=event.box, items=event.items)


@rule(Box, emits=BoxChangedV2)
def box_changed(change: Change[Box]) -> Iterator[BoxChangedV2]:
    box = change.after
    if box is None:
        return
    if box.state == "impossible":
        raise ValueError(box.state)
    yield BoxChangedV2(
        box=box.id,
        items=len(box.items),
        parts=tuple(f"{part.name} in {item.name}" for item in box.items for part in item.parts),
        tags={str(tag.id): tag.label for tag in box.tags},
        owner=box.owner.name if box.owner else None,
        city=box.owner.city.name if box.owner and box.owner.city else None,
        note=box.note,
        weight=box.weight,
        made_at=box.made_at.isoformat() if box.made_at else None,
    )


@rule(Box, emits=ItemLeftV1)
def item_left(change: Change[Box]) -> Iterator[ItemLeftV1]:
    if change.after is not None:
        for item in change.removed(Box.items):
            yield ItemLeftV1(box=change.after.id, item=item.id)


@rule(Owner, emits=OwnerRenamedV1)
def renamed(change: Change[Owner]) -> Iterator[OwnerRenamedV1]:
    if change.before is not None and change.after is not None and change.changed(Owner.name):
        yield OwnerRenamedV1(owner=change.after.id, name=change.after.name)
