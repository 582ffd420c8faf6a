"""Contracts come from a registry that others write to: whatever stands in one, the generated module holds nothing but
event classes, or the contract is refused by the name that does not fit."""

import ast
import contextlib
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_client import ClientError
from tidings_client.classes import classes_text

TOPIC = "shop.order-placed.v2"
IMPORTED = {"builtins", "dataclasses", "datetime", "decimal", "typing", "uuid", "tidings_client"}


def record(*fields: Any, name: Any = "Order", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: Any, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def of_annotation(node: ast.expr) -> bool:
    """Names, texts, None, subscripts and unions."""
    match node:
        case ast.Name():
            return True
        case ast.Constant(value=value):
            return value is None or isinstance(value, str)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return of_annotation(left) and of_annotation(right)
        case ast.Subscript(value=ast.Name(), slice=ast.Tuple(elts=items)):
            return all(map(of_annotation, items))
        case ast.Subscript(value=ast.Name(), slice=item):
            return of_annotation(item)
    return False


def assert_only_classes(text: str) -> None:
    """The module's tree holds imports of what is known, and dataclasses with fields."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ImportFrom):
            assert statement.module in IMPORTED
            continue
        assert isinstance(statement, ast.ClassDef), ast.dump(statement)
        assert not statement.bases
        names = {call.func.id for call in statement.decorator_list}  # type: ignore[attr-defined]
        assert names <= {"event", "dataclass"}
        for part in statement.body:
            match part:
                case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                    pass
                case ast.AnnAssign(target=ast.Name(), annotation=kind, value=None | ast.Constant(value=None)):
                    assert of_annotation(kind), ast.dump(kind)
                case _:
                    raise AssertionError(ast.dump(part))


def imported(text: str) -> dict[str, Any]:
    """The module's names, as an import makes them."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "events.py", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (record(field("x: int\n    import os")), r"'x: int\n    import os'"),
        (record(field("class")), "'class'"),
        (record(field("é")), r"'\xe9'"),
        (record(field("")), "''"),
        (record(field("__slots__")), "'__slots__'"),
        (record(field("a"), field("a")), "'a'"),
        (record(field(None)), "a field's name"),
        (record(name="Order:\n    pass\nimport os\nclass X"), r"'Order:\n    pass"),
        (record(field("a", {"type": "fixed", "size": 2, "name": "F] = __import__('os')"})), "F] = "),
        (record(field("a", "no.such.Record")), "'no.such.Record'"),
        (record(field("a", {"type": "enum", "name": "E", "symbols": [1]})), "symbols"),
        (record(field("next", ["null", "Order"])), "'Order'"),
        ({"type": "string"}, "is not a record"),
        (["null", "string"], "is not a record"),
        (record(field("a", 7)), "the type of 'a'"),
        ({"type": "record", "name": "Order", "fields": [7]}, "fields"),
        (record(field("a", record(field("b"), name="Line")), field("c", record(field("d"), name="x.Line"))), "'x.Line'"),
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused_by_it(schema: Any, named: str) -> None:
    with pytest.raises(ClientError, match=r"shop\.order-placed\.v2") as refused:
        classes_text({TOPIC: schema})
    assert named in str(refused.value)
    assert str(refused.value).isprintable()


def test_a_topic_with_a_line_behind_it() -> None:
    with pytest.raises(ClientError, match="is not a business topic"):
        classes_text({TOPIC + "\n": record()})


@pytest.mark.parametrize(
    "doc",
    ['ends with a quote"', '"""\nimport os\n"""', "a backslash \\", "NUL \0 and \r and \x0c", "\ud800", "two\nlines", '\\"""', '\\"', 7],
)  # fmt: skip
def test_a_doc_stays_a_doc(doc: Any) -> None:
    text = classes_text({TOPIC: record(field("a"), doc=doc)})
    assert_only_classes(text)
    text.encode()
    made = imported(text)["OrderV2"]
    assert made(a=1).a == 1
    if isinstance(doc, str) and doc.isprintable():
        assert made.__doc__ == doc


@pytest.mark.parametrize("symbol", ['a"] | __import__("os")["', "it's", "\n", "\\", "😀", "plain"])
def test_symbols_of_an_enum_are_texts(symbol: str) -> None:
    text = classes_text({TOPIC: record(field("a", {"type": "enum", "name": "E", "symbols": [symbol]}))})
    assert_only_classes(text)
    assert imported(text)["OrderV2"].__annotations__["a"].__args__ == (symbol,)


def test_a_field_may_be_called_like_a_type() -> None:
    """Within a class, `date: date | None = None` would say None | None."""
    date = ["null", {"type": "int", "logicalType": "date"}]
    text = classes_text({TOPIC: record(field("date", date, default=None), field("int", ["null", "int"], default=None),
                                       field("due", date, default=None), field("count"))})  # fmt: skip
    assert_only_classes(text)
    made = imported(text)["OrderV2"](count=1)
    assert (made.date, made.int, made.due) == (None, None, None)


def test_a_record_without_fields_and_one_that_two_events_share() -> None:
    line = record(field("n"), name="Line")
    text = classes_text({TOPIC: record(field("a", line)), "shop.order-gone.v2": record(name="Gone"),
                         "shop.order-seen.v2": record(field("a", line), name="Seen")})  # fmt: skip
    assert_only_classes(text)
    assert text.count("class LineV2") == 1
    assert imported(text)["GoneV2"]()
    with pytest.raises(ClientError, match="two different records for the class 'LineV2'"):
        classes_text({TOPIC: record(field("a", line)), "a.b.v2": record(field("a", record(name="Line")))})


def test_a_contract_that_is_too_deep() -> None:
    schema: Any = "int"
    for _ in range(5000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(ClientError, match=r"shop\.order-placed\.v2: it is nested too deeply"):
        classes_text({TOPIC: record(field("a", schema))})
    assert sys.getrecursionlimit() < 5000


TEXTS = st.one_of(
    st.sampled_from(["a", "b", "Line", "int", "date", "class", "x: int\n    import os", '"""', "__init__", "E", "datetime"]),
    st.text(max_size=12),
)  # fmt: skip


def fields_of(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.builds(lambda name, kind: {"name": name, "type": kind}, TEXTS, kinds)
    given_up = st.builds(lambda one, default: {**one, "default": default}, plain, st.none() | TEXTS)
    return st.lists(plain | given_up, max_size=4)


PLAIN = st.sampled_from(["int", "string", "null", "bytes", "Order", "Line", "no.such", 7, None])
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.builds(lambda base, logical: {"type": base, "logicalType": logical}, inner,
                  st.sampled_from(["date", "uuid", "decimal", "timestamp-micros", "nothing", ["date"]])),
        st.builds(lambda name, symbols: {"type": "enum", "name": name, "symbols": symbols}, TEXTS, st.lists(TEXTS, max_size=3)),
        st.builds(lambda name: {"type": "fixed", "name": name, "size": 4}, TEXTS),
        st.builds(lambda name, fields: {"type": "record", "name": name, "fields": fields}, TEXTS, fields_of(inner)),
    ),
    max_leaves=6,
)  # fmt: skip


SCHEMAS = st.builds(
    lambda name, fields, doc: {"type": "record", "name": name, "fields": fields, "doc": doc},
    st.just("Order") | TEXTS, fields_of(TYPES), TEXTS,
)  # fmt: skip


@given(SCHEMAS)
def test_any_contract_gives_classes_alone_or_is_refused(schema: Any) -> None:
    with contextlib.suppress(ClientError):
        text = classes_text({TOPIC: schema})
        assert_only_classes(text)
        text.encode()
        imported(text)
