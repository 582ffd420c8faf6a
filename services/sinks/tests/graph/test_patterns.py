"""The pattern language: what Neo4j's own tests of it say, and that a pattern is what its text says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_sinks.graph.patterns import (
    NodePattern,
    PatternError,
    Property,
    RelationshipPattern,
    Selection,
    parse_pattern,
    parse_row,
)

SAME = [
    ("(:LabelA:LabelB{!id,*})", "LabelA:LabelB{!id,*}", "(:LabelA:LabelB {!id, *})"),
    ("(:LabelA{!id})", "LabelA {!id}", "(:LabelA {!id, *})"),
    ("(:LabelA{!id,foo,bar})", "LabelA{!id,+foo,bar}", "(:LabelA {!id, foo, bar})"),
    ("(:`LabelA`:`Label B`{!`id`,`a foo`,`c dar`: `c bar`})", "`LabelA`:`Label B`{!id,`a foo`,`c dar`:`c bar`}", "(:LabelA:`Label B` {!id, `a foo`, `c dar`: `c bar`})"),
    ("(:LabelA{!id,foo.bar})", "LabelA{!id,foo.bar}", "(:LabelA {!id, `foo.bar`})"),
    ("(:LabelA{!idA: product.id,!idB: stock.id,foo: product.foo,bar})", "LabelA{!idA:product.id,!idB:stock.id,foo:product.foo,bar}", "(:LabelA {!idA: `product.id`, !idB: `stock.id`, foo: `product.foo`, bar})"),
    ("(:LabelA{!id:product.id,-foo,-bar})", "LabelA{!id,-foo,-bar}".replace("!id", "!id: product.id"), "(:LabelA {!id: `product.id`, -foo, -bar, *})"),
    ("(:LabelA{!idA,aa})-[:REL_TYPE]->(:LabelB{!idB,bb})", "LabelA{!idA,aa} REL_TYPE LabelB{!idB,bb}", "(:LabelA {!idA, aa})-[:REL_TYPE {*}]->(:LabelB {!idB, bb})"),
    ("(:LabelB{!idB})<-[:REL_TYPE{foo.BAR, !x}]-(:LabelA{!idA})", "LabelA{!idA} REL_TYPE{foo.BAR,!x} LabelB{!idB}", "(:LabelA {!idA})-[:REL_TYPE {!x, `foo.BAR`}]->(:LabelB {!idB})"),
]  # fmt: skip


@pytest.mark.parametrize(("long", "short", "text"), SAME)
def test_both_forms_are_one_pattern(long: str, short: str, text: str) -> None:
    assert parse_pattern(long).text == text
    assert parse_pattern(short) == parse_pattern(long)
    assert parse_pattern(text) == parse_pattern(long)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(:LabelA{!id,-foo,bar})", "Property inclusions and exclusions are mutually exclusive."),
        ("(LabelA{!id})", "At character 2, { is expected, not LabelA"),
        ("(:LabelA{!id,-foo: xyz})", "At character 18, , or } is expected, not :"),
        ("LabelA{id,bar}", "At least one key selector must be specified in node patterns."),
        ("(:LabelA{})", "At least one key selector must be specified in node patterns."),
        ("(:A{!a})-[:R]-(:B{!b})", "Direction of relationship pattern must be explicitly set."),
        ("(:A{!a})<-[:R]->(:B{!b})", "Direction of relationship pattern must be explicitly set."),
        ("(:A{!a,*})-[:R]->(:B{!b})", "Wildcard property inclusion is not allowed on start and end node patterns."),
        ("(:A{!a,-x})-[:R]->(:B{!b})", "Property exclusions are not allowed on start and end node patterns."),
        ("(:A{!a})-->(:B{!b})", "At character 10, [ is expected, not -"),
        ("(:A{!a}) x", "At character 10, the end is expected, not x"),
        ("(:A{!a,})", "At character 8, a name is expected, not }"),
        ("(:A{!`a})", "At character 6, a name is expected, not `"),
        ("", "At character 1, a name is expected"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_told_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(PatternError) as told:
        parse_pattern(text)
    assert str(told.value) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("({!id})", "needs a label"),
        ("(:A {!a})-[:R]->(:B {!b})", "needs the row's key"),
        ("(:A {!a})-[:R {!k}]->(:B {!b}), -[:X]->(:C {!c})", "no further relationships"),
        ("(:A {!a, x})-[:R {!k}]->(:B {!b})", "nothing but their keys"),
        ("(:A {!a}), -[:R {*}]->(:B {!b})", "named properties only"),
        ("(:A {!a}), -[:R]->(:B {!b, c})", "nothing but its key"),
        ("(:A {!a}), -[:R]->(:B {!b}), -[:R]->(:C {!c})", "two types"),
        ("(:A {!a}), (:B {!b})", "- is expected"),
    ],
)
def test_what_is_no_pattern_of_rows(text: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        parse_row(text)


def test_a_row_with_foreign_keys() -> None:
    row = parse_row(
        "(:Order {!id, *, -note}), -[:BY]->(:Customer {!id: customer_id}), <-[:HAS {at}]-(:Shop {!no: shop})"
    )
    assert row.entity.text == "(:Order {!id, -note, *})"
    assert [(link.type, link.outgoing, link.other.text, link.fields.text) for link in row.links] == [
        ("BY", True, "(:Customer {!id: customer_id})", "{}"),
        ("HAS", False, "(:Shop {!no: shop})", "{at}"),
    ]


_NAMES = st.text(min_size=1, max_size=6)
_PROPERTIES = st.builds(Property, _NAMES, _NAMES)


def _selections(keys: int, *, whole: bool) -> st.SearchStrategy[Selection]:
    once = {"unique": True, "max_size": 3}
    included = st.lists(_PROPERTIES, **once).map(tuple)  # type: ignore[arg-type]
    excluded = st.lists(_NAMES, **once).map(tuple)  # type: ignore[arg-type]
    keyed = st.lists(_PROPERTIES, min_size=keys, **once).map(tuple)  # type: ignore[arg-type]
    if not whole:
        return st.builds(Selection, keyed, included)
    named = st.builds(Selection, keyed, included.filter(bool))
    everything = st.builds(Selection, keyed, included, excluded, st.just(value=True))
    return named | everything


def _nodes(*, whole: bool) -> st.SearchStrategy[NodePattern]:
    labels = st.lists(_NAMES, max_size=3, unique=True).map(tuple)
    return st.builds(NodePattern, labels, _selections(1, whole=whole))


@given(
    _nodes(whole=True)
    | st.builds(
        RelationshipPattern, _NAMES, _nodes(whole=False), _nodes(whole=False), _selections(0, whole=True)
    )
)
def test_a_pattern_is_what_its_text_says(pattern: NodePattern | RelationshipPattern) -> None:
    assert parse_pattern(pattern.text) == pattern


@given(st.text(alphabet="(){}[]:,!*-+<>`aB_. \u2014\u27e9", max_size=40))
def test_any_text_is_a_pattern_or_told_what_is_wrong(text: str) -> None:
    try:
        found = parse_pattern(text)
    except PatternError as error:
        assert str(error)  # noqa: PT017 - both answers are right
    else:
        assert parse_pattern(found.text) == found
