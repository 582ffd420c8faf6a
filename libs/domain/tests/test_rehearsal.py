"""What authors' tests see: an expectation that fails says which event and which field."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tidings_domain import Domain
from tidings_domain.testing import Outcome, Rehearsal, insert

Load = Callable[..., Domain]


@pytest.fixture
def events(box_domain: Load) -> Any:
    domain = box_domain()
    classes = {cls.__name__.removesuffix("V2").removesuffix("V1"): cls for cls in domain.events}
    return domain, classes


def packed(domain: Domain) -> Outcome:
    return Rehearsal(domain).when(
        insert("public.boxes", id=17, state="packed", note=None, owner_id=None),
        insert("public.items", box_id=17, no=1, weight="1.250", label=None),
    )


def test_what_was_told_is_as_expected(events: Any) -> None:
    domain, classes = events
    told = packed(domain)
    same = told.expects(
        classes["BoxPacked"](box_id=17, weight=Decimal("1.250")), classes["ItemAdded"](box_id=17, item_no=1)
    )
    assert same is told


@pytest.mark.parametrize(
    ("expected", "says"),
    [
        ([("BoxPacked", {"box_id": 17, "weight": Decimal(2)}), ("ItemAdded", {"box_id": 17, "item_no": 1})],
         r"^event 1: BoxPackedV2.weight is Decimal\('1.250'\), expected Decimal\('2'\)$"),
        ([("BoxPacked", {"box_id": 17, "weight": Decimal("1.25")})], r"^event 2 was not expected: ItemAddedV1\(box_id=17"),
        ([], r"(?s)^event 1 was not expected: BoxPackedV2.*\nevent 2 was"),
        ([("ItemAdded", {"box_id": 17, "item_no": 1})] * 2, r"^event 1 is a BoxPackedV2, expected a ItemAddedV1: "),
        ([("BoxPacked", {"box_id": 17, "weight": Decimal("1.25")})] + [("ItemAdded", {"box_id": 17, "item_no": 1})] * 2,
         r"^event 3 is missing: ItemAddedV1"),
    ],
)  # fmt: skip
def test_a_difference_is_told_by_event_and_field(
    events: Any, expected: list[tuple[str, dict[str, Any]]], says: str
) -> None:
    domain, classes = events
    with pytest.raises(AssertionError, match=says):
        packed(domain).expects(*(classes[name](**fields) for name, fields in expected))


def test_a_failure_is_never_what_was_expected(events: Any) -> None:
    domain, _ = events
    told = Rehearsal(domain).when(insert("public.boxes", id="x", state="packed", note=None, owner_id=None))
    with pytest.raises(AssertionError, match=r"failed: .*does not fit Box"):
        told.expects()
