"""What rental.categories means, and what of it is news. Written once by `tidings init`, and now yours.

Delete the columns that no rule uses: what is not declared can change in the database without any effect.
"""

from collections.abc import Iterator

from tidings_domain import Aggregate, Change, Row, reference, rule

from rental.events import CategoryCreated


class CategoryRef(Row, table="rental.categories", key="id"):
    id: int
    parent_id: int | None
    name: str


class Category(Aggregate, root="rental.categories", key="id"):
    id: int
    parent_id: int | None
    name: str

    parent = reference(CategoryRef, by="parent_id")


@rule(Category, emits=CategoryCreated)
def category_created(change: Change[Category]) -> Iterator[CategoryCreated]:
    """There is a new row in rental.categories."""
    if change.created:
        yield CategoryCreated(id=change.current.id)
