"""Change sets survive the wire; identities are unambiguous."""

from decimal import Decimal

import pytest

from tidings_domain.changes import ChangeSet, RowChange, decode_change_set, encode_change_set, identity
from tidings_domain.errors import ChangeSetError

CHANGE_SET = ChangeSet(
    aggregate="Order",
    id="7",
    commit_lsn=2**63 + 5,
    txid=4_000_000_000,
    ts_us=1_700_000_000_000_001,
    snapshot=False,
    rows=(
        RowChange("public.orders", "c", None, {"id": 7, "note": None, "photo": b"\x00\xff"}, 1),
        RowChange("public.order_items", "d", {"order_id": 7, "line_no": 1}, None, 2),
    ),
    references={"public.customers": {"3": {"id": 3, "email": "a@example.org"}}},
)


def test_a_change_set_comes_back_as_it_went() -> None:
    assert decode_change_set(encode_change_set(CHANGE_SET)) == CHANGE_SET


def test_a_decimal_travels_as_its_exact_text() -> None:
    rows = (RowChange("public.products", "u", None, {"price": Decimal("10.10")}, 1),)
    sent = ChangeSet("Product", "1", 1, 1, 1, snapshot=False, rows=rows)
    assert decode_change_set(encode_change_set(sent)).rows[0].after == {"price": "10.10"}


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_truncated_bytes_are_refused_in_words(cut: int) -> None:
    with pytest.raises(ChangeSetError, match="not a change set"):
        decode_change_set(encode_change_set(CHANGE_SET)[:cut])


@pytest.mark.parametrize(
    ("row", "columns", "text"),
    [
        ({"id": 7}, ("id",), "7"),
        ({"id": "a,b"}, ("id",), "a,b"),
        ({"a": 1, "b": 2}, ("a", "b"), "1,2"),
        ({"a": "x,y", "b": "z"}, ("a", "b"), "x%2Cy,z"),
        ({"a": "x", "b": "y,z"}, ("a", "b"), "x,y%2Cz"),
        ({"a": "x%2Cy", "b": "z"}, ("a", "b"), "x%252Cy,z"),
    ],
)
def test_an_identity_names_one_key_only(row: dict[str, object], columns: tuple[str, ...], text: str) -> None:
    assert identity(row, columns) == text


def test_an_identity_needs_every_column() -> None:
    with pytest.raises(KeyError, match="b"):
        identity({"a": 1}, ("a", "b"))
