"""Rows look as Debezium writes them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from tidings_domain import load_domain
from tidings_domain.testing import Rehearsal, insert, update

from rental.events import ItemDamaged, ItemListed, ItemRetired

TENT = insert(
    "rental.items",
    id=1,
    category_id=2,
    title="Tent for four",
    tags=["outdoor", "summer"],
    condition="new",
    daily_cents=900,
    deposit="50.00",
    deleted_at=None,
)


@pytest.fixture
def rental() -> Rehearsal:
    return Rehearsal(load_domain("rental")).given(
        insert("rental.categories", id=1, parent_id=None, name="Outdoor"),
        insert("rental.categories", id=2, parent_id=1, name="Tents"),
    )


def test_a_thing_is_listed_with_the_name_of_its_category(rental: Rehearsal) -> None:
    rental.when(TENT).expects(
        ItemListed(
            item_id=1,
            title="Tent for four",
            category="Tents",
            tags=("outdoor", "summer"),
            condition="new",
            daily_cents=900,
            deposit=Decimal("50.00"),
            currency="EUR",
        )
    )


def test_only_a_worse_condition_is_news(rental: Rehearsal) -> None:
    rental.given(TENT)
    rental.when(update("rental.items", id=1, condition="worn")).expects(
        ItemDamaged(item_id=1, was="new", now="worn")
    )
    rental.when(update("rental.items", id=1, condition="good")).expects()


def test_a_soft_deletion_is_its_end(rental: Rehearsal) -> None:
    rental.given(TENT)
    rental.when(update("rental.items", id=1, deleted_at="2026-01-01T12:00:00.000000Z")).expects(
        ItemRetired(item_id=1, title="Tent for four", retired_at=datetime(2026, 1, 1, 12, tzinfo=UTC))
    )
    rental.when(update("rental.items", id=1, title="Tent")).expects()


def test_a_condition_that_nobody_knows_is_a_failure(rental: Rehearsal) -> None:
    rental.given(TENT)
    outcome = rental.when(update("rental.items", id=1, condition="lost"))
    assert outcome.events == []
    assert [failure.reason for failure in outcome.failures] != []
