"""A domain that reads a moment as the number that the record has."""

from collections.abc import Iterator

from tidings_domain import Aggregate, Change, rule
from yard.events import ItemLeftV1


class Crate(Aggregate, root="public.boxes", key="id"):
    id: str
    made_at: int | None


@rule(Crate, emits=ItemLeftV1)
def dated(change: Change[Crate]) -> Iterator[ItemLeftV1]:
    if change.after is not None:
        yield ItemLeftV1(box=change.after.id, item=change.after.made_at or 0)
