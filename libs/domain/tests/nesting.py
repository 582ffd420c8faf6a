"""Boxes with items with parts with labels, and trays with slots: a domain of several levels for tests."""

from collections.abc import Callable
from typing import Any

from tidings_domain import Domain
from tidings_domain.testing import Rehearsal

Load = Callable[..., Domain]

ROWS = """
from tidings_domain import Aggregate, Row, children, reference


class Colour(Row, table="public.colours", key="id"):
    id: int
    name: str


class Label(Row, table="public.labels", key="id"):
    id: int
    part_id: int
    text: str = ""
    colour_id: int | None = None
    colour = reference(Colour, by="colour_id")


class Part(Row, table="public.parts", key="id"):
    id: int
    item_id: int
    name: str = ""
    labels = children(Label, by="part_id")


class Item(Row, table="public.items", key="id"):
    id: int
    box_id: int | None = None
    parts = children(Part, by="item_id")


class Slot(Row, table="public.slots", key="id"):
    id: int
    box_id: int
    tray_no: int


class Tray(Row, table="public.trays", key=("box_id", "no")):
    box_id: int
    no: int
    slots = children(Slot, by=("box_id", "tray_no"))


class Box(Aggregate, root="public.boxes", key="id"):
    id: int
    state: str = ""
    parent_id: int | None = None
    items = children(Item, by="box_id")
    trays = children(Tray, by="box_id")
"""

RULES = """
from tidings_domain import rule

from PACKAGE.aggregates import Box, Part
from PACKAGE.events import BoxGone, ItemAdded


@rule(Box, emits=(ItemAdded, BoxGone))
def labelled(change):
    for label in change.added(Part.labels):
        yield ItemAdded(box_id=change.current.id, item_no=label.id)
    for label in change.removed(Part.labels):
        yield BoxGone(box_id=label.id)
"""

FILES = {"aggregates.py": ROWS, "rules.py": RULES, "versions.py": ""}


def aggregate_of(rehearsal: Rehearsal, box: int) -> Any:
    """The box as the state has it; None where there is none."""
    state = rehearsal.states.get(("Box", str(box)))
    return rehearsal.evaluator._aggregates["Box"].decode(state).aggregate if state is not None else None


def keys_of(rehearsal: Rehearsal, box: int) -> Any:
    """The keys of a box's items, parts and labels."""
    found = aggregate_of(rehearsal, box)
    if found is None:
        return None
    return {
        item.id: {part.id: [label.id for label in part.labels] for part in item.parts} for item in found.items
    }
