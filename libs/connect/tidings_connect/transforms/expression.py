"""The expression language of Filter and ContentBasedRouter: a safe part of Python's expressions.

    value.op == "u" and value.after.amount > 100
    "vip" if value.after.tier in ("gold", "platinum") else None

An expression is parsed by `ast` and compiled to closures from a short list of nodes; whatever is not on the list is
refused when the connector is configured. Nothing of Python's objects can be reached: a dot looks up a field (or one of
the text functions below) and never an attribute; there are no calls but of the functions listed here, no assignments,
comprehensions, powers, formatting or repetition. Length, depth, size of numbers and of texts are bounded, so that an
expression takes time in proportion to its length and its record.

A field that there is not, or a field of a null, is null; comparing a null with ``<`` and the like is false.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

Scope = Mapping[str, Any]
Evaluate = Callable[[Scope], Any]

NAMES: Final = ("value", "key", "topic", "headers", "header", "keySchema", "valueSchema")
MAX_LENGTH: Final = 10_000
MAX_NODES: Final = 1_000
MAX_DEPTH: Final = 50
MAX_TEXT: Final = 1_000_000
_MAX_BITS: Final = 512


class ExpressionError(Exception):
    """An expression that is not allowed, or that fails on a record; the message holds no value of the record."""


def compile_expression(text: str) -> Evaluate:
    """Compile an expression to a function of the names in `NAMES`.

    Raises:
        ExpressionError: it is not an expression of this language; says what is not allowed, and where.
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression has at most {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text, mode="eval")
        nodes = sum(1 for _ in ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError("it is not an expression in Python's syntax") from error
    if nodes > MAX_NODES:
        raise ExpressionError(f"an expression has at most {MAX_NODES} parts")
    compiled = _compile(tree.body, 0)

    def evaluate(scope: Scope) -> Any:
        try:
            return compiled(scope)
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise ExpressionError(f"the expression fails with {type(error).__name__}") from None

    return evaluate


def _compile(node: ast.expr, depth: int) -> Evaluate:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"an expression is nested at most {MAX_DEPTH} deep")
    compiler = _COMPILERS.get(type(node))
    if compiler is None:
        raise _refused(node, f"{type(node).__name__} is not allowed")
    return compiler(node, depth + 1)


def _refused(node: ast.expr, why: str) -> ExpressionError:
    return ExpressionError(f"{why} (at column {node.col_offset + 1})")


def _constant(node: Any, _depth: int) -> Evaluate:
    value = node.value
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise _refused(node, f"a constant of type {type(value).__name__} is not allowed")
    _bounded(value)
    return lambda _scope: value


def _name(node: Any, _depth: int) -> Evaluate:
    name = node.id
    if name not in NAMES:
        raise _refused(node, f"there is no {name}; there are {', '.join(NAMES)}")
    return lambda scope: scope[name]


def _attribute(node: Any, depth: int) -> Evaluate:
    if node.attr.startswith("_"):
        raise _refused(node, 'a field whose name starts with _ is written value["_name"]')
    owner, name = _compile(node.value, depth), node.attr
    return lambda scope: _member(owner(scope), name)


def _subscript(node: Any, depth: int) -> Evaluate:
    if isinstance(node.slice, ast.Slice):
        raise _refused(node, "slices are not allowed")
    owner, index = _compile(node.value, depth), _compile(node.slice, depth)
    return lambda scope: _member(owner(scope), index(scope))


def _member(owner: Any, name: Any) -> Any:
    """A field, or an item; null where there is none."""
    if isinstance(owner, dict):
        return owner.get(name)
    if isinstance(owner, (list, tuple, str)) and isinstance(name, int) and not isinstance(name, bool):
        return owner[name] if -len(owner) <= name < len(owner) else None
    if owner is None:
        return None
    raise ExpressionError("only structs, maps, arrays and texts have members")


def _boolean(node: Any, depth: int) -> Evaluate:
    parts = [_compile(value, depth) for value in node.values]
    if isinstance(node.op, ast.And):

        def both(scope: Scope) -> Any:
            result: Any = True
            for part in parts:
                result = part(scope)
                if not result:
                    break
            return result

        return both

    def either(scope: Scope) -> Any:
        result: Any = False
        for part in parts:
            result = part(scope)
            if result:
                break
        return result

    return either


def _unary(node: Any, depth: int) -> Evaluate:
    operand = _compile(node.operand, depth)
    if isinstance(node.op, ast.Not):
        return lambda scope: not operand(scope)
    if isinstance(node.op, ast.USub):
        return lambda scope: -_number(operand(scope))
    if isinstance(node.op, ast.UAdd):
        return lambda scope: _number(operand(scope))
    raise _refused(node, f"{type(node.op).__name__} is not allowed")


_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _binary(node: Any, depth: int) -> Evaluate:
    function = _ARITHMETIC.get(type(node.op))
    if function is None:
        raise _refused(node, f"{type(node.op).__name__} is not allowed")
    left, right = _compile(node.left, depth), _compile(node.right, depth)
    if isinstance(node.op, ast.Add):
        return lambda scope: _sum(left(scope), right(scope))
    return lambda scope: _bounded(_arithmetic(function, left(scope), right(scope)))


def _arithmetic(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Two numbers; a Decimal and a float meet as floats."""
    left, right = _number(left), _number(right)
    if isinstance(left, float) and isinstance(right, Decimal):
        right = float(right)
    elif isinstance(left, Decimal) and isinstance(right, float):
        left = float(left)
    return function(left, right)


def _sum(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return _bounded(left + right)
    return _bounded(_arithmetic(operator.add, left, right))


def _number(value: Any) -> Any:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return value
    raise ExpressionError("arithmetic is for numbers")


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ExpressionError(f"a text has at most {MAX_TEXT} characters")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ExpressionError(f"a number has at most {_MAX_BITS} bits")
    return value


_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, of: False if of is None else item in of,
    ast.NotIn: lambda item, of: True if of is None else item not in of,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ORDERED: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _compare(node: Any, depth: int) -> Evaluate:
    operands = [_compile(value, depth) for value in (node.left, *node.comparators)]
    steps = []
    for op, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, (ast.Is, ast.IsNot)) and not (
            isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
        ):
            raise _refused(node, "is takes None, True or False")
        steps.append((_COMPARISONS[type(op)], isinstance(op, _ORDERED)))

    def compare(scope: Scope) -> bool:
        left = operands[0](scope)
        for (function, ordered), operand in zip(steps, operands[1:], strict=True):
            right = operand(scope)
            if (ordered and (left is None or right is None)) or not function(left, right):
                return False
            left = right
        return True

    return compare


def _conditional(node: Any, depth: int) -> Evaluate:
    test, body, otherwise = (_compile(part, depth) for part in (node.test, node.body, node.orelse))
    return lambda scope: body(scope) if test(scope) else otherwise(scope)


def _sequence(node: Any, depth: int) -> Evaluate:
    items = [_compile(item, depth) for item in node.elts]
    return lambda scope: [item(scope) for item in items]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ExpressionError("the function is for texts")


def _to_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, Decimal)):
        return str(value)
    raise ExpressionError("str is for numbers, texts and booleans")


def _to_number(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, str) and len(value) > 100:
            raise ExpressionError("the text is too long for a number")
        if not isinstance(value, (str, int, float, Decimal)):
            raise ExpressionError("only numbers and texts become numbers")
        if isinstance(value, Decimal) and kind is int and value.adjusted() > _MAX_BITS:
            raise ExpressionError(
                f"a number has at most {_MAX_BITS} bits"
            )  # before the digits are written out
        return _bounded(kind(value))

    return convert


_FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "len": (1, len),
    "abs": (1, lambda value: abs(_number(value))),
    "str": (1, _to_text),
    "int": (1, _to_number(int)),
    "float": (1, _to_number(float)),
    "bool": (1, bool),
}
_METHODS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "startswith": (1, lambda text, start: text is not None and _text(text).startswith(_text(start))),
    "endswith": (1, lambda text, end: text is not None and _text(text).endswith(_text(end))),
    "lower": (0, lambda text: None if text is None else _text(text).lower()),
    "upper": (0, lambda text: None if text is None else _bounded(_text(text).upper())),
    "strip": (0, lambda text: None if text is None else _text(text).strip()),
}


def _call(node: Any, depth: int) -> Evaluate:
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        raise _refused(node, "named and starred arguments are not allowed")
    arguments = [_compile(argument, depth) for argument in node.args]
    if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        wanted, function = _FUNCTIONS[node.func.id]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        wanted, function = _METHODS[node.func.attr]
        arguments.insert(0, _compile(node.func.value, depth))
        wanted += 1
    else:
        known = ", ".join([*_FUNCTIONS, *(f".{name}" for name in _METHODS)])
        raise _refused(node, f"only these can be called: {known}")
    if len(arguments) != wanted:
        raise _refused(node, "a function is called with another number of arguments than it takes")
    return lambda scope: function(*[argument(scope) for argument in arguments])


_COMPILERS: Final[dict[type[ast.AST], Callable[[Any, int], Evaluate]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Call: _call,
}
