"""Business events in Python: the base of the classes that `tidings-schemas generate` writes, and down-conversions.

A generated class is frozen and typed, and holds its contract's text, so that a service needs no schema files. Values
are validated against the contract when the event is encoded, which is part of the evaluation of the rule that yielded
it: a wrong value names the rule and the field.

Rules yield the newest version of an event. An older version that is still published is made from the next newer one::

    @down_conversion(OrderPlacedV2, to=OrderPlacedV1)
    def order_placed_v1(event: OrderPlacedV2) -> OrderPlacedV1:
        return OrderPlacedV1(order_id=event.order_id, ...)
"""

import functools
import json
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tidings_domain.avro.encoders import compile_encoder
from tidings_domain.avro.values import Encoder
from tidings_domain.language.sites import Site, caller_site, code_site, mistake

CONVERSIONS = "__tidings_conversions__"
"""The name under which a module keeps the down-conversions that were defined in it."""


class BusinessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record inside an event."""


class BusinessEvent(BusinessRecord, frozen=True, kw_only=True):
    """One version of one business event.

    Class attributes (their names cannot be an Avro field's):
        __domain__: such as ``shop``.
        __event__: such as ``order-placed``.
        __major__: the major version; each has its own topic.
        __contract__: the Avro schema, JSON text.
    """

    __domain__: ClassVar[str]
    __event__: ClassVar[str]
    __major__: ClassVar[int]
    __contract__: ClassVar[str]


def is_generated(event: type[BusinessEvent]) -> bool:
    """Whether the class was generated from a contract."""
    return all(hasattr(event, name) for name in ("__domain__", "__event__", "__major__", "__contract__"))


def topic_of(event: type[BusinessEvent]) -> str:
    """The event version's topic, ``shop.order-placed.v1``; it is the CloudEvents type too."""
    return f"{event.__domain__}.{event.__event__}.v{event.__major__}"


@functools.cache
def contract_of(event: type[BusinessEvent]) -> dict[str, Any]:
    """The event version's Avro schema."""
    contract: dict[str, Any] = json.loads(event.__contract__)
    return contract


@functools.cache
def encoder_of(event: type[BusinessEvent]) -> Encoder:
    """A function from an event to its Avro binary encoding, without the wire format's frame.

    It raises `EventError` for a value that the contract does not allow.
    """
    return compile_encoder(contract_of(event), event)


N = TypeVar("N", bound=BusinessEvent)
O = TypeVar("O", bound=BusinessEvent)  # noqa: E741 - newer and older


class DownConversion(msgspec.Struct, Generic[N, O], frozen=True):
    """A pure function from an event's version to the next older one."""

    newer: type[N]
    older: type[O]
    function: Callable[[N], O]
    site: Site

    def __call__(self, event: N) -> O:
        """The older version of the event."""
        return self.function(event)


def down_conversion(newer: type[N], *, to: type[O]) -> Callable[[Callable[[N], O]], DownConversion[N, O]]:
    """Declare how the next older version of an event is made from `newer`.

    Raises:
        DomainError: the two are not neighbouring versions of one event.
    """
    site = caller_site(0)
    given: tuple[object, ...] = (newer, to)
    for event in given:
        if not (isinstance(event, type) and issubclass(event, BusinessEvent) and is_generated(event)):
            raise mistake(site, f"@down_conversion: {event!r} is not a generated event class")
    if (newer.__domain__, newer.__event__) != (to.__domain__, to.__event__):
        raise mistake(
            site,
            f"@down_conversion from {newer.__name__} to {to.__name__}: these are different events",
            hint="convert between versions of one event",
        )
    if newer.__major__ <= to.__major__:
        raise mistake(
            site,
            f"@down_conversion from {newer.__name__} to {to.__name__} does not go down",
            hint=f"swap them: @down_conversion({to.__name__}, to={newer.__name__})",
        )

    def make(function: Callable[[N], O]) -> DownConversion[N, O]:
        where = code_site(function.__code__) if hasattr(function, "__code__") else site
        made = DownConversion(newer, to, function, where)
        module_names: dict[str, Any] = function.__globals__
        module_names.setdefault(CONVERSIONS, []).append(made)
        return made

    return make
