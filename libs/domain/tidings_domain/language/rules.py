"""Rules: functions from what a transaction did to an aggregate to business events.

::

    @rule(Order, emits=OrderPaid)
    def paid(change: Change[Order]) -> Iterator[OrderPaid]:
        if change.became(Order.status, "paid"):
            yield OrderPaid(...)

A rule is pure: it knows the aggregate before and after one commit and that commit's time, and nothing else. It runs once
for each change set that made a difference, and yields the newest version of its events.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar, cast, get_args

import msgspec

from tidings_domain.language.events import BusinessEvent
from tidings_domain.language.model import Aggregate, Row
from tidings_domain.language.sites import Site, caller_site, code_site, mistake

A = TypeVar("A", bound=Aggregate)
R = TypeVar("R", bound=Row)

Policy = Literal["skip", "hold", "stop"]
"""What happens when a rule fails: its events of this change are left out (`skip`), the aggregate's later transactions wait
for a person (`hold`), or the translator ends without moving on (`stop`)."""
POLICIES: tuple[Policy, ...] = get_args(Policy)

RULES = "__tidings_rules__"
"""The name under which a module keeps the rules that were defined in it."""


class Change(msgspec.Struct, Generic[A], frozen=True, gc=False):
    """What one committed transaction did to one aggregate.

    What is asked of it compares the aggregate after the commit with the one before. Before its creation an aggregate had
    nothing: no value, no rows. What is not known of before is never said to be new.

    Attributes:
        before: the aggregate before the commit; None when it did not exist, or nothing was known of it.
        after: the aggregate after the commit; None when it was deleted.
        at: the commit time, UTC.
        snapshot: the rows come from a snapshot and not from a transaction (only rules with ``snapshot=True`` see this).
        partial: the aggregate was there before anything was known of it, and rows of its children may be missing (only rules
            with ``partial=True`` see this).
        unknown: names of fields of which it is not known what they were; see `knows`.
        inserted: of children that are not all known, the keys of the rows that the commit has inserted.
    """

    before: A | None
    after: A | None
    at: datetime
    snapshot: bool = False
    partial: bool = False
    unknown: tuple[str, ...] = ()
    inserted: Mapping[str, frozenset[Any]] = {}

    @property
    def created(self) -> bool:
        """The aggregate's root row was inserted by this commit (in a snapshot: read for the first time)."""
        return self.before is None and self.after is not None and not self.partial

    @property
    def deleted(self) -> bool:
        """The aggregate's root row is gone."""
        return self.after is None and self.before is not None

    @property
    def current(self) -> A:
        """The aggregate after the commit, in rules that are not about its deletion.

        Raises:
            LookupError: the aggregate was deleted.
        """
        if self.after is None:
            raise LookupError("the aggregate was deleted; it has no current state")
        return self.after

    def changed(self, field: object) -> bool:
        """Whether a field has another value than before: ``change.changed(Product.price)``; a new aggregate's has, unless it
        is None."""
        if self.after is None:
            return False
        name = _name(field, self.after)
        value = getattr(self.after, name)
        if self.before is None:
            return self.created and value is not None
        return name not in self.unknown and bool(getattr(self.before, name) != value)

    def became(self, field: object, value: object) -> bool:
        """Whether a field has this value now and had not before: ``change.became(Order.status, "paid")``."""
        if self.after is None or getattr(self.after, _name(field, self.after)) != value:
            return False
        return self.changed(field)

    def knows(self, field: object) -> bool:
        """Whether it is known what a field was before, and of children that none are missing: ``change.knows(Order.lines)``."""
        some = self.after if self.after is not None else self.before
        if some is None:
            return False
        name = "__".join(_path(type(some), getattr(field, "__objclass__", None), _text(field)))
        return name not in self.unknown and not (self.partial and self.before is None)

    def added(self, field: tuple[R, ...]) -> tuple[R, ...]:
        """The child rows that are new: ``change.added(Order.shipments)``, or below children ``change.added(Line.parts)``."""
        return self._only_in(self.after, self.before, field, self.inserted)

    def removed(self, field: tuple[R, ...]) -> tuple[R, ...]:
        """The child rows that are gone: ``change.removed(Order.lines)``."""
        return self._only_in(self.before, self.after, field, {})

    @staticmethod
    def _only_in(
        one: A | None, other: A | None, field: object, inserted: Mapping[str, frozenset[Any]]
    ) -> tuple[Any, ...]:
        if one is None:
            return ()
        path = _path(type(one), getattr(field, "__objclass__", None), _text(field))
        rows = _rows_at(one, path)
        others = _rows_at(other, path) if other is not None else ()
        if rows is others or not rows:
            return ()
        key = key_getter(type(rows[0]))
        known = {key(row) for row in others}
        new = inserted.get("__".join(path)) if inserted else None
        return tuple(row for row in rows if key(row) not in known and (new is None or key(row) in new))


def _text(field: object) -> str:
    """The name of a field given as ``Order.status`` (at run time a member descriptor) or as text."""
    return field if isinstance(field, str) else cast("str", field.__name__)  # type: ignore[attr-defined]


def _name(field: object, aggregate: Aggregate) -> str:
    """The name of a field of the aggregate.

    Raises:
        TypeError: it is another class's; by its name alone it would be taken for the aggregate's own.
    """
    owner = getattr(field, "__objclass__", None)
    if owner is not None and not isinstance(aggregate, owner):
        raise TypeError(f"{owner.__name__}.{_text(field)} is not a field of {type(aggregate).__name__}")
    return _text(field)


@functools.cache
def _path(cls: type[Row], owner: type | None, name: str) -> tuple[str, ...]:
    """The fields that lead from an aggregate to the child rows that `owner` keeps in field `name`."""
    if owner is None or issubclass(cls, owner):
        return (name,)
    for field, relation in cls.__relations__.items():
        if relation.kind == "children":
            try:
                return (field, *_path(relation.row, owner, name))
            except TypeError:
                continue
    raise TypeError(f"{owner.__name__}.{name} is not in {cls.__name__}")


def _rows_at(row: Row, path: tuple[str, ...]) -> tuple[Row, ...]:
    rows: tuple[Row, ...] = getattr(row, path[0])
    return rows if len(path) == 1 else tuple(one for below in rows for one in _rows_at(below, path[1:]))


@functools.cache
def key_getter(cls: type[Row]) -> Callable[[Row], Any]:
    """A function from a row to its key: the one column's value, or a tuple of several."""
    names = {field.encode_name: field.name for field in msgspec.structs.fields(cls)}
    return attrgetter(*(names[column] for column in cls.__key__))


RuleFunction = Callable[[Change[A]], Iterable[BusinessEvent] | None]


class Rule(msgspec.Struct, Generic[A], frozen=True):
    """A rule as it was defined. It can be called like the function it was made from, which is what tests do.

    Attributes:
        id: unique in the domain, the function's name unless given; dead letters and metrics name it.
        emits: the event classes that it may yield.
        once: it yields for one aggregate only once; a later change that would make it yield again is silent.
        snapshot: it also runs on the rows of a snapshot.
        on_failure: what happens when it raises or yields what does not fit; see `Policy`.
        history: it needs all that happened to an aggregate (it counts, or says something once in a life), so that it must
            not be added to a generation that has begun without it.
        partial: it also runs on aggregates that were there before anything was known of them; see `Change.partial`.
    """

    id: str
    aggregate: type[A]
    emits: tuple[type[BusinessEvent], ...]
    function: RuleFunction[A]
    site: Site
    once: bool = False
    snapshot: bool = False
    on_failure: Policy = "skip"
    history: bool = False
    partial: bool = False

    def __call__(self, change: Change[A]) -> list[BusinessEvent]:
        """The events that follow from the change."""
        return list(self.function(change) or ())


def rule(
    aggregate: type[A],
    *,
    emits: type[BusinessEvent] | tuple[type[BusinessEvent], ...],
    id: str | None = None,  # noqa: A002 - the word that authors read in dead letters
    once: bool = False,
    snapshot: bool = False,
    on_failure: Policy = "skip",
    history: bool = False,
    partial: bool = False,
) -> Callable[[RuleFunction[A]], Rule[A]]:
    """Make a rule of a function from a `Change` to events. See `Rule` for the arguments.

    Raises:
        DomainError: the aggregate or the events are not what they should be.
    """
    site = caller_site(0)
    root: object = aggregate
    if not (isinstance(root, type) and issubclass(root, Aggregate)):
        raise mistake(
            site,
            f"@rule's first argument {_shown(root)} is not an aggregate",
            hint="pass an Aggregate class",
        )
    classes = emits if isinstance(emits, tuple) else (emits,)
    given: tuple[object, ...] = classes
    if not classes:
        raise mistake(site, "@rule emits nothing", hint="name the event classes: emits=OrderPlaced")
    for event in given:
        if not (isinstance(event, type) and issubclass(event, BusinessEvent)):
            raise mistake(
                site,
                f"@rule emits {_shown(event)}, which is not an event class",
                hint="pass a generated class, not its name",
            )

    if on_failure not in POLICIES:
        raise mistake(
            site, f"@rule has on_failure={on_failure!r}", hint=f"it can be one of {', '.join(POLICIES)}"
        )

    def make(function: RuleFunction[A]) -> Rule[A]:
        where = code_site(function.__code__) if hasattr(function, "__code__") else site
        made = Rule(
            id or function.__name__,
            aggregate,
            classes,
            function,
            where,
            once=once,
            snapshot=snapshot,
            on_failure=on_failure,
            history=history,
            partial=partial,
        )
        # Kept by the module itself, so that a second function of the same name is noticed and not just lost.
        function.__globals__.setdefault(RULES, []).append(made)
        return made

    return make


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else getattr(value, "__name__", repr(value))
