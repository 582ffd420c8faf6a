"""Loads a domain: the aggregates, rules, events and down-conversions of one Python package, checked as a whole.

`load_domain` imports the package and everything in it, collects what was defined there, and checks what no single
definition can know. The sequencer reads `Domain.tables` and `Domain.references` to find the aggregate of a row; the
evaluator reads the rest.
"""

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType, NoneType
from typing import Any, get_args

import msgspec

from tidings_domain.aggregate.state import AggregatePlan
from tidings_domain.aggregate.uses import ChildUse, TableUse, child_uses, uses_of
from tidings_domain.errors import DomainError
from tidings_domain.language.events import CONVERSIONS, BusinessEvent, DownConversion, is_generated
from tidings_domain.language.model import Aggregate, Relation, Row, check_columns, declared_columns
from tidings_domain.language.rules import RULES, Rule
from tidings_domain.language.sites import mistake, nearest
from tidings_domain.loading.conversions import EventPlan, event_plan
from tidings_domain.loading.importing import import_all
from tidings_domain.loading.purity import impure_names
from tidings_domain.loading.rule_source import check_rule, check_yields


class Domain(msgspec.Struct, frozen=True):
    """A domain that has passed all checks.

    Attributes:
        name: such as ``shop``; the first word of its topics.
        package: the Python package.
        aggregates: the aggregate classes by name.
        rules: every rule, in the order of definition.
        events: newest event class to the plan for all its live versions.
        tables: who uses a table; tables that nobody uses are not in it.
        references: table to the references that its rows hold: attach ``references[use.table][identity(row, use.by)]``.
    """

    name: str
    package: str
    aggregates: dict[str, type[Aggregate]]
    rules: tuple[Rule[Any], ...]
    events: dict[type[BusinessEvent], EventPlan]
    tables: dict[str, tuple[TableUse, ...]]
    references: dict[str, tuple[TableUse, ...]]

    def rules_of(self, aggregate: str) -> tuple[Rule[Any], ...]:
        """The rules of one aggregate, in the order of definition."""
        return tuple(rule for rule in self.rules if rule.aggregate.__name__ == aggregate)

    def event_classes(self) -> tuple[type[BusinessEvent], ...]:
        """Every live version of every event."""
        return tuple(version for plan in self.events.values() for version in plan.versions)


def load_domain(package: str) -> Domain:
    """The domain that a package defines.

    Raises:
        DomainError: the package cannot be imported or has a mistake; the message names file, line and likely cause.
    """
    modules = list(import_all(package))
    aggregates = _aggregates(modules)
    rules = _collect(modules, RULES, Rule)
    conversions: tuple[DownConversion[Any, Any], ...] = _collect(modules, CONVERSIONS, DownConversion)
    if not aggregates:
        raise DomainError(
            f"{package} defines no aggregate",
            hint="derive a class from tidings_domain.language.model.Aggregate",
        )
    if not rules:
        raise DomainError(
            f"{package} defines no rule", hint="decorate a function with tidings_domain.language.rules.rule"
        )
    _check_rules(rules, aggregates)
    events = _events(rules, conversions)
    uses = [use for aggregate in aggregates.values() for use in uses_of(aggregate)]
    return Domain(
        name=_name(rules),
        package=package,
        aggregates=aggregates,
        rules=rules,
        events=events,
        tables=_grouped((use.table, use) for use in uses),
        references=_grouped((use.of, use) for use in uses if use.of is not None),
    )


def _aggregates(modules: list[ModuleType]) -> dict[str, type[Aggregate]]:
    found: dict[str, type[Aggregate]] = {}
    roots: dict[str, str] = {}
    keys: dict[str, type[Row]] = {}
    for module in modules:
        for value in list(vars(module).values()):
            if not (
                isinstance(value, type) and issubclass(value, Row) and value.__module__ == module.__name__
            ):
                continue
            check_columns(value)
            _check_relations(value)
            _check_key(value, keys)
            if not issubclass(value, Aggregate) or found.get(value.__name__) is value:
                continue
            if value.__name__ in found:
                raise mistake(value.__site__, f"aggregate {value.__name__} is defined twice")
            if value.__table__ in roots:
                raise mistake(
                    value.__site__, f"{value.__table__} is already the root of {roots[value.__table__]}"
                )
            _check_children(value)
            _compile(value)
            found[value.__name__] = value
            roots[value.__table__] = value.__name__
    return found


def _compile(aggregate: type[Aggregate]) -> None:
    """Everything that is worked out of an aggregate's annotations works."""
    try:
        AggregatePlan(aggregate)
    except (TypeError, NotImplementedError) as error:
        raise mistake(
            aggregate.__site__,
            f"{aggregate.__name__} or a row in it declares a type that cannot be read: {error}",
            hint="docs/domain.md says how to declare each of PostgreSQL's types",
        ) from error


def _check_key(row: type[Row], keys: dict[str, type[Row]]) -> None:
    """A table has one primary key, whichever class is about it."""
    other = keys.setdefault(row.__table__, row)
    if other.__key__ != row.__key__:
        raise mistake(
            row.__site__,
            f"{row.__name__}: the key of {row.__table__} is {row.__key__} here and {other.__key__} in {other.__name__}"
            f" at {other.__site__}",
            hint="`key` is the table's primary key",
        )


def _check_relations(row: type[Row]) -> None:
    for field, relation in row.__relations__.items():
        holder, other = (row, relation.row) if relation.kind == "children" else (relation.row, row)
        if len(relation.by) != len(holder.__key__):
            raise mistake(
                relation.site,
                f"{row.__name__}.{field}: by={relation.by} has {len(relation.by)} columns, but the key of"
                f" {holder.__name__} has {len(holder.__key__)}",
                hint=f"name the columns of {other.__table__} that hold {holder.__key__}",
            )
        if relation.kind == "reference" and any(
            one.kind == "children" for one in relation.row.__relations__.values()
        ):
            raise mistake(
                relation.site,
                f"{row.__name__}.{field}: {relation.row.__name__} has children, and a referenced row has none",
                hint=f"declare another Row on {relation.row.__table__} with the columns that are needed here",
            )
        declared = declared_columns(other)
        for column in relation.by:
            # It need not be declared, but what is nearly spelt like a declared one is hardly another one.
            hint = nearest(column, declared)
            if column not in declared and hint.startswith("did") and column not in other.__key__:
                raise mistake(
                    relation.site,
                    f"{row.__name__}.{field}: {other.__name__} declares no column '{column}'",
                    hint=f"{hint} If not, declare `{column}` in {other.__name__}",
                )
        if relation.kind == "children" and not issubclass(row, Aggregate):
            _check_nested(row, field, relation)


def _check_nested(row: type[Row], field: str, relation: Relation) -> None:
    """A child's children are found again in the state, by values that must be there and can be compared."""
    child = relation.row
    types = {one.encode_name: one.type for one in msgspec.structs.fields(child)}
    keys = {one.encode_name: one.type for one in msgspec.structs.fields(row)}
    for column, key in zip(relation.by, row.__key__, strict=True):
        if column not in types:
            raise mistake(
                relation.site,
                f"{row.__name__}.{field}: {child.__name__} declares no column '{column}'",
                hint=f"declare `{column}` in {child.__name__}: it says which {row.__name__} the row belongs to",
            )
        if _without_none(types[column]) != _without_none(keys[key]):
            raise mistake(
                relation.site,
                f"{row.__name__}.{field}: {child.__name__}.{column} and {row.__name__}.{key} are declared differently",
                hint="the one holds the other's value, so declare both alike",
            )


def _without_none(annotation: object) -> frozenset[object]:
    return frozenset(get_args(annotation) or (annotation,)) - {NoneType}


def _check_children(aggregate: type[Aggregate]) -> None:
    """A row has one place in an aggregate."""
    places: dict[str, str] = {}
    for child in child_uses(aggregate):
        table = child.use.table
        site = child.row.__site__ if child.above is None else child.above.row.__relations__[child.field].site
        if table in places:
            raise mistake(
                site,
                f"{aggregate.__name__}: {table} is at {places[table]} and at {_place(child)}",
                hint="use each child table once and pick rows in the rule",
            )
        if table == aggregate.__table__ and child.above is not None:
            raise mistake(
                site,
                f"{aggregate.__name__}: {_place(child)} is the root's own table again",
                hint="rows of the root's table can be children of the root, not of its children",
            )
        places[table] = _place(child)


def _place(child: ChildUse) -> str:
    return child.field if child.above is None else f"{_place(child.above)}.{child.field}"


def _collect(modules: list[ModuleType], name: str, kind: type[Any]) -> tuple[Any, ...]:
    made = [one for module in modules for one in vars(module).get(name, ())]
    return tuple(one for one in made if isinstance(one, kind))


def _check_rules(rules: tuple[Rule[Any], ...], aggregates: Mapping[str, type[Aggregate]]) -> None:
    known: dict[str, Rule[Any]] = {}
    for rule in rules:
        if rule.id in known:
            raise mistake(
                rule.site,
                f"rule id '{rule.id}' is already used at {known[rule.id].site}",
                hint="rename the function or give the rule an `id`",
            )
        known[rule.id] = rule
        if rule.aggregate not in aggregates.values():
            raise mistake(
                rule.site,
                f"rule '{rule.id}' is about {rule.aggregate.__name__}, which this domain does not define",
                hint=nearest(rule.aggregate.__name__, aggregates),
            )
        for event in rule.emits:
            if not is_generated(event):
                raise mistake(
                    rule.site,
                    f"rule '{rule.id}' emits {event.__name__}, which has no contract",
                    hint="write schemas/<domain>/<event>/v1.avsc and run `tidings-schemas generate`",
                )
        check_rule(rule)
        check_yields(rule)
        for word in impure_names(rule.function):
            raise mistake(
                rule.site,
                f"rule '{rule.id}' uses {word}: a rule may know only its change",
                hint="the commit time is change.at; ids are made for you",
            )


def _events(
    rules: tuple[Rule[Any], ...], conversions: tuple[DownConversion[Any, Any], ...]
) -> dict[type[BusinessEvent], EventPlan]:
    events: dict[type[BusinessEvent], EventPlan] = {}
    for rule in rules:
        for event in rule.emits:
            if event not in events:
                events[event] = event_plan(event, _versions(event), conversions, rule.site)
    emitted = {version for plan in events.values() for version in plan.versions}
    for conversion in conversions:
        if conversion.newer not in emitted:
            raise mistake(
                conversion.site,
                f"down-conversion from {conversion.newer.__name__}: no rule emits it",
                hint="emit the newest version, or delete the conversion",
            )
    return events


def _versions(event: type[BusinessEvent]) -> list[type[BusinessEvent]]:
    """Every generated version of the event, newest first: those beside it in the module of generated classes."""
    module = sys.modules[event.__module__]
    found = {
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BusinessEvent) and is_generated(value)
    }
    same = [one for one in found if (one.__domain__, one.__event__) == (event.__domain__, event.__event__)]
    return sorted(same, key=lambda one: -one.__major__)


def _grouped(pairs: Iterable[tuple[str, TableUse]]) -> dict[str, tuple[TableUse, ...]]:
    grouped: dict[str, dict[TableUse, None]] = {}
    for table, use in pairs:
        grouped.setdefault(table, {})[use] = None
    return {table: tuple(uses) for table, uses in grouped.items()}


def _name(rules: tuple[Rule[Any], ...]) -> str:
    first = rules[0].emits[0]
    for rule in rules:
        for event in rule.emits:
            if event.__domain__ != first.__domain__:
                raise mistake(
                    rule.site,
                    f"rule '{rule.id}' emits an event of domain '{event.__domain__}', others are of '{first.__domain__}'",
                    hint="one package is one domain",
                )
    return first.__domain__
