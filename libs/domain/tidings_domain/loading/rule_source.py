"""Checks a rule's source before it runs: fields that aggregates, changes and events do not have.

Without this a misspelt field would be a dead letter for every change. Looked at are names that lead to a class of the domain
(``Order.statsu``), the rule's argument (``change.after.statsu``), and events that are made (``OrderPlaced(ordre_id=...)``).
What the text does not show (values from calls, other functions) is not followed.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tidings_domain.aggregate.uses import child_uses
from tidings_domain.language.events import BusinessEvent, BusinessRecord
from tidings_domain.language.model import Aggregate, Row
from tidings_domain.language.rules import Change, Rule
from tidings_domain.language.sites import Site, mistake, nearest

_QUESTIONS = ("changed", "became", "added", "removed")
_SIDES = ("before", "after", "current")


def check_rule(rule: Rule[Any]) -> None:
    """Check the function that a rule was made from.

    Raises:
        DomainError: it is not a function of one change, or uses what is not there.
    """
    function = rule.function
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise mistake(
            rule.site,
            f"rule '{rule.id}' is async",
            hint="a rule waits for nothing; write `def` without `async`",
        )
    try:
        parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        return
    if len(parameters) != 1:
        raise mistake(
            rule.site,
            f"rule '{rule.id}' takes {len(parameters)} arguments",
            hint=f"a rule takes one: `def {rule.id}(change: Change[{rule.aggregate.__name__}])`",
        )
    tree, site = _tree(function)
    if tree is not None:
        _Reader(rule, parameters[0].name, site, getattr(function, "__globals__", {})).visit(tree)


def _tree(function: Callable[..., Any]) -> tuple[ast.AST | None, Site]:
    """The function's syntax tree with the lines of its file; None where there is no source."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None, Site("<unknown>", 0)
    try:
        tree = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(code)[0])))
    except (OSError, SyntaxError):
        return None, Site(code.co_filename, code.co_firstlineno)
    ast.increment_lineno(tree, code.co_firstlineno - 1)
    return tree, Site(code.co_filename, code.co_firstlineno)


class _Reader(ast.NodeVisitor):
    def __init__(self, rule: Rule[Any], argument: str, site: Site, known: dict[str, Any]) -> None:
        self._rule = rule
        self._argument = argument
        self._file = site.file
        self._known = known
        self._assigned: set[str] = set()

    def visit(self, node: ast.AST) -> None:
        """Names that the rule assigns itself are not the module's."""
        if not self._assigned:
            stores = {
                n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            inner = [n.arg for n in ast.walk(node) if isinstance(n, ast.arg)]
            inner.remove(self._argument)
            self._assigned = stores | {*inner, ""}
        super().visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        owner = self._class_of(node.value)
        if owner is not None:
            self._check(owner, node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        made = self._global(node.func)
        if isinstance(made, type) and issubclass(made, BusinessRecord):
            self._check_event(made, node)
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in _QUESTIONS
            and self._class_of(node.func.value) is Change
            and node.args
            and isinstance(node.args[0], ast.Attribute)
        ):
            self._check_question(node.func.attr, node.args[0])
        self.generic_visit(node)

    def _check_question(self, question: str, field: ast.Attribute) -> None:
        """What is asked about a field must be about one of the aggregate, or about child rows below it."""
        owner = self._global(field.value)
        if not (isinstance(owner, type) and issubclass(owner, Row)) or not hasattr(owner, field.attr):
            return
        aggregate: type[Aggregate] = self._rule.aggregate
        kind = getattr(owner.__relations__.get(field.attr), "kind", None)
        site = Site(self._file, field.lineno)
        if question in ("added", "removed"):
            if kind != "children":
                raise mistake(
                    site,
                    f"rule '{self._rule.id}': {owner.__name__}.{field.attr} is not a field of child rows",
                    hint=f"ask change.changed({owner.__name__}.{field.attr})",
                )
            holders = (aggregate, *(child.row for child in child_uses(aggregate)))
        else:
            holders = (aggregate,)
        if owner not in holders:
            raise mistake(
                site,
                f"rule '{self._rule.id}': {owner.__name__}.{field.attr} is not a field of {aggregate.__name__}",
                hint=f"change.{question} is about {' or '.join(one.__name__ for one in holders)}",
            )

    def _global(self, node: ast.AST) -> object:
        if isinstance(node, ast.Name) and node.id not in self._assigned:
            return self._known.get(node.id)
        return None

    def _class_of(self, node: ast.AST) -> type | None:
        """The class that `node` is, or is an instance of, where the text shows it."""
        found = self._global(node)
        if isinstance(found, type) and issubclass(found, Row):
            return found
        if isinstance(node, ast.Name) and node.id == self._argument and node.id not in self._assigned:
            return Change
        if isinstance(node, ast.Attribute):
            owner = self._class_of(node.value)
            if owner is Change and node.attr in _SIDES:
                aggregate: type[Aggregate] = self._rule.aggregate
                return aggregate
            relation = getattr(owner, "__relations__", {}).get(node.attr) if owner is not None else None
            if (
                relation is not None
                and relation.kind == "reference"
                and owner is not self._global(node.value)
            ):
                row: type[Row] = relation.row
                return row
        return None

    def _check(self, owner: type, node: ast.Attribute) -> None:
        if hasattr(owner, node.attr) or node.attr.startswith("__"):
            return
        offered = [name for name in dir(owner) if not name.startswith("_")]
        what = "a change" if owner is Change else owner.__name__
        hint = nearest(node.attr, offered)
        if not hint.startswith("did") and issubclass(owner, Row):
            hint = f"declare the column in the class, or look there: {owner.__site__}"
        raise mistake(
            Site(self._file, node.lineno), f"rule '{self._rule.id}': {what} has no '{node.attr}'", hint=hint
        )

    def _check_event(self, made: type[BusinessRecord], node: ast.Call) -> None:
        site = Site(self._file, node.lineno)
        fields = {field.name: field for field in msgspec.structs.fields(made)}
        if node.args:
            raise mistake(
                site,
                f"rule '{self._rule.id}': {made.__name__} takes its fields by name",
                hint=f"write {made.__name__}({', '.join(f'{name}=...' for name in list(fields)[:3])})",
            )
        given = [keyword.arg for keyword in node.keywords]
        for name in given:
            if name is not None and name not in fields:
                raise mistake(
                    site,
                    f"rule '{self._rule.id}': {made.__name__} has no field '{name}'",
                    hint=f"{nearest(name, set(fields) - set(given))} Its contract says what it has",
                )
        missing = [name for name, field in fields.items() if field.required and name not in given]
        if missing and None not in given:
            raise mistake(
                site,
                f"rule '{self._rule.id}': {made.__name__} lacks {', '.join(missing)}",
                hint="a field may be left out only where its contract has a default",
            )


def check_yields(rule: Rule[Any]) -> None:
    """Check that what a rule is seen to yield is in its `emits`.

    Raises:
        DomainError: it is not, or the rule gives one event back where it should yield it.
    """
    tree, site = _tree(rule.function)
    if tree is None:
        return
    known: dict[str, Any] = getattr(rule.function, "__globals__", {})
    for node, event in _events_given(tree, known):
        where = Site(site.file, node.lineno)
        if isinstance(node, ast.Return):
            raise mistake(
                where,
                f"rule '{rule.id}' returns a {event.__name__}",
                hint="yield it: a rule may tell several events",
            )
        if event.__event__ not in {one.__event__ for one in rule.emits}:
            names = ", ".join(one.__name__ for one in (*rule.emits, event))
            raise mistake(
                where,
                f"rule '{rule.id}' yields {event.__name__}, which is not in its `emits`",
                hint=f"write emits=({names})",
            )


def _events_given(
    tree: ast.AST, known: dict[str, Any]
) -> Iterator[tuple[ast.Yield | ast.Return, type[BusinessEvent]]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Yield, ast.Return)) and isinstance(node.value, ast.Call):
            function = node.value.func
            made = known.get(function.id) if isinstance(function, ast.Name) else None
            if isinstance(made, type) and issubclass(made, BusinessEvent):
                yield node, made
