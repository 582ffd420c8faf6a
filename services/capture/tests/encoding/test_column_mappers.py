"""Masks, hashes and truncation, beside what the conformance suite compares with Debezium."""

import hashlib
from typing import Any

import pytest

from tidings_capture.cdc.encoding.column_mappers import mapper_problem, read_mappers
from tidings_capture.cdc.encoding.column_sizes import mapped_column
from tidings_capture.cdc.tables import Column

TEXT = Column("t", 25, -1, "text", not_null=False)


def change(option: Any, column: Any = TEXT) -> Any:
    rule = read_mappers({option: "public.a.t"}).rule_for("public", "a", column.name)
    return rule.change(mapped_column(column))


def test_the_first_rule_counts_and_only_for_its_columns() -> None:
    mappers = read_mappers(
        {"column.mask.with.3.chars": "public.a.*", "column.truncate.to.2.chars": "public.a.t"}
    )
    assert mappers.rule_for("public", "a", "t").action == "truncate"
    assert mappers.rule_for("public", "a", "u").action == "mask"
    assert mappers.rule_for("public", "b", "t") is None


def test_a_null_is_masked_and_not_hashed() -> None:
    assert change("column.mask.with.3.chars")(None) == "***"
    assert change("column.mask.hash.SHA-256.with.salt.s")(None) is None
    assert change("column.truncate.to.2.chars")(None) is None


def test_numbers_are_not_masked() -> None:
    assert change("column.mask.with.3.chars", Column("t", 23, -1, "int4", not_null=False)) is None


def test_a_hash_is_of_javas_serialized_string_or_of_the_value() -> None:
    serialized = b"\xac\xed\x00\x05t\x00\x08\xed\xa0\xbd\xed\xb8\x80\xc0\x80"
    wanted = hashlib.md5(b"s" + serialized, usedforsecurity=False).hexdigest()
    assert change("column.mask.hash.MD5.with.salt.s")("😀\0") == wanted
    wanted = hashlib.md5(b"s" + "😀".encode(), usedforsecurity=False).hexdigest()
    assert change("column.mask.hash.v2.MD5.with.salt.s")("😀") == wanted
    long = "x" * 70_000
    serialized = b"\xac\xed\x00\x05|" + (70_000).to_bytes(8, "big") + long.encode()
    wanted = hashlib.sha256(b"s" + serialized).hexdigest()
    assert change("column.mask.hash.SHA-256.with.salt.s")(long) == wanted


def test_a_hash_is_not_longer_than_its_column() -> None:
    short = Column("t", 1043, 14, "varchar", not_null=False)
    assert len(change("column.mask.hash.SHA-256.with.salt.s", short)("x")) == 10


def test_truncation_counts_as_java_does_and_spares_what_is_short_enough() -> None:
    cut = change("column.truncate.to.3.chars")
    assert (cut("abcd"), cut("ab"), cut("a😀b"), cut(b"abcd"), cut(5)) == ("abc", "ab", "a😀", b"abc", 5)
    assert cut("ab😀") == "ab\ufffd"
    assert change("column.truncate.to.30.chars", Column("t", 1043, 14, "varchar", not_null=False)) is None
    assert change("column.truncate.to.1.chars", Column("t", 1562, -1, "varbit", not_null=False)) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("column.mask.hash.CRC32.with.salt.s", "SHA-256"),
        ("column.mask.with.x.chars", "did you mean"),
        ("column.truncate.to.chars", "did you mean"),
    ],
)
def test_what_is_wrong_is_said_by_name(name: str, words: str) -> None:
    problem = mapper_problem(name, "public.a.t")
    assert problem.startswith(name)
    assert words in problem
    assert mapper_problem("column.mask.with.3.chars", "(") is not None
    assert mapper_problem("column.mask.with.3.chars", "public.a.t") is None
