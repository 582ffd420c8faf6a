"""Written once by `tidings init`, and now yours. Rows look as Debezium writes them."""

from tidings_domain import load_domain
from tidings_domain.testing import Rehearsal, delete, insert, update

from rental.events import CategoryCreated


def test_category_created() -> None:
    domain = Rehearsal(load_domain("rental"))
    outcome = domain.when(
        insert("rental.categories", id=1, parent_id=1, name="text"),
    )
    outcome.expects(CategoryCreated(id=1))
    domain.when(
        update("rental.categories", id=1, parent_id=1, name="text"),
    ).expects()
    domain.when(
        delete("rental.categories", id=1),
    ).expects()
