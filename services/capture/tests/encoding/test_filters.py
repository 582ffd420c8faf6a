"""Include and exclude lists."""

from typing import Any

import pytest

from tidings_capture.cdc.filters import ColumnFilter, TableFilter, compile_keys, compile_list


def tables(**lists: Any) -> TableFilter:
    return TableFilter(**{name: compile_list(text) for name, text in lists.items()})


@pytest.mark.parametrize(
    ("lists", "name", "captured"),
    [
        ({}, ("public", "a"), True),
        ({}, ("pg_catalog", "pg_class"), False),
        ({}, ("information_schema", "tables"), False),
        ({"table_include": "public.a"}, ("public", "a"), True),
        ({"table_include": "public.a"}, ("public", "ab"), False),
        ({"table_include": "PUBLIC.A"}, ("public", "a"), True),
        ({"table_include": r"public\.(a|b)"}, ("public", "b"), True),
        ({"table_include": "public.x{1\\,2}"}, ("public", "xx"), True),
        ({"table_include": r"public\.\Qa.b\E"}, ("public", "a.b"), True),
        ({"table_include": r"public\.\p{Lower}+"}, ("public", "ab"), True),
        ({"table_include": r"public\.\w+"}, ("public", "ä"), False),
        ({"table_exclude": "public.a"}, ("public", "a"), False),
        ({"table_exclude": "public.a"}, ("public", "b"), True),
        ({"schema_include": "s"}, ("public", "a"), False),
        ({"schema_exclude": "s"}, ("s", "a"), False),
        ({"schema_include": "s", "table_include": "s.a"}, ("s", "b"), False),
    ],
)
def test_which_tables(lists: Any, name: tuple[Any, ...], captured: bool) -> None:
    assert tables(**lists).captures(*name) is captured


def test_order_follows_the_list_then_the_name() -> None:
    names = [("public", "c"), ("public", "b"), ("public", "a")]
    assert [t for _, t in tables(table_include="public.b,public.*").order(names)] == ["b", "a", "c"]
    assert [t for _, t in tables().order(names)] == ["a", "b", "c"]


def test_plain_names_that_name_nothing_are_missing() -> None:
    chosen = tables(table_include=r"public.a,public\.b,public.c.*")
    assert chosen.missing([("public", "a")]) == ["public.b"]


def test_columns() -> None:
    names = ["id", "email", "note"]
    exclude = ColumnFilter(exclude=compile_list("public.a.email"))
    include = ColumnFilter(include=compile_list("public.a.(id|note)"))
    assert exclude.excluded("public", "a", names) == {"email"}
    assert exclude.excluded("public", "b", names) == frozenset()
    assert include.excluded("public", "a", names) == {"email"}


def test_message_key_columns_choose_columns_in_their_order() -> None:
    keys = compile_keys(r"public\.(a|b):z,x ; other.t:.*")
    assert keys.key("public", "a", ["x", "y", "z"]) == ("z", "x")
    assert keys.key("other", "t", ["x", "y"]) == ("x", "y")
    assert keys.key("public", "c", ["x"]) == ()
    with pytest.raises(ValueError, match="<table>:<column>"):
        compile_keys("public.a")
