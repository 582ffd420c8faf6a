"""Event classes: dataclasses that say which fields of an event their reader uses.

Values have the types that fastavro gives them: int, float, bool, str, bytes, Decimal, datetime (UTC), date, time, UUID,
list and dict; a field may also be another dataclass, an Enum, a Literal, a tuple, or `... | None`. Of events in structured mode,
which are JSON, texts become what the field says.
"""

import dataclasses
import enum
import types
import typing
from base64 import b64decode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeVar, Union, get_args, get_origin
from uuid import UUID

from tidings_client.errors import ClientError

T = TypeVar("T")
Convert = Callable[[Any], Any]
_NAME, _VERSION = "__tidings_event__", "__tidings_version__"
_FROM_TEXT: dict[Any, Convert] = {
    Decimal: Decimal,
    UUID: UUID,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    bytes: b64decode,
}


def event(name: str, *, version: int) -> Callable[[type[T]], type[T]]:
    """Say which event a dataclass reads: ``event("shop.order-placed", version=2)`` is the topic shop.order-placed.v2.

    Raises:
        ClientError: the class is not a dataclass.
    """

    def mark(cls: type[T]) -> type[T]:
        if not dataclasses.is_dataclass(cls):
            raise ClientError(f"{cls.__name__} is not a dataclass: write @dataclass below @event")
        setattr(cls, _NAME, name)
        setattr(cls, _VERSION, version)
        return cls

    return mark


def name_of(cls: type[Any]) -> str:
    """``shop.order-placed``.

    Raises:
        ClientError: the class was not marked with `event`.
    """
    if _NAME not in vars(cls):
        raise ClientError(f"{cls.__name__} does not say which event it reads: mark it with @event")
    return str(vars(cls)[_NAME])


def version_of(cls: type[Any]) -> int:
    """The major version that a class reads."""
    return int(vars(cls)[_VERSION])


def topic_of(cls: type[Any]) -> str:
    """``shop.order-placed.v2``."""
    return f"{name_of(cls)}.v{version_of(cls)}"


def compile_class(cls: type[T]) -> Callable[[dict[str, Any]], T]:
    """A function from an event's fields to an instance; it raises `ClientError` naming the field that does not fit."""
    hints = typing.get_type_hints(cls)
    fields = [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]  # it is a dataclass
    converters = [(field.name, _compile(hints[field.name])) for field in fields]
    needed = {
        field.name
        for field in fields
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }

    def make(values: dict[str, Any]) -> T:
        given: dict[str, Any] = {}
        for name, convert in converters:
            if name not in values:
                if name in needed:
                    raise ClientError(f"{cls.__name__}.{name} is not in the event, and has no default")
                continue
            try:
                given[name] = convert(values[name])
            except ClientError as error:
                raise ClientError(f"{cls.__name__}.{name}: {error}") from error
            except (ValueError, TypeError, ArithmeticError, AttributeError) as error:
                raise ClientError(f"{cls.__name__}.{name} has a value that does not fit") from error
        return cls(**given)

    return make


def _compile(hint: Any) -> Convert:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [_compile(one) for one in arguments if one is not type(None)]
        first = inner[0] if len(inner) == 1 else _same
        return lambda value: None if value is None else first(value)
    if origin in (list, tuple):
        item = _compile(arguments[0]) if arguments else _same
        made = list if origin is list else tuple
        return lambda value: made(item(one) for one in value)
    if origin is dict:
        item = _compile(arguments[1])
        return lambda value: {key: item(one) for key, one in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return compile_class(hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint
    return _scalar(hint)


def _scalar(hint: Any) -> Convert:
    parse = _FROM_TEXT.get(hint)
    if parse is not None:
        return lambda value: parse(value) if isinstance(value, str) else _checked(value, hint)
    if hint is float:
        return lambda value: float(_checked(value, (int, float)))
    if hint in (int, str, bool):
        return lambda value: _checked(value, hint)
    return _same


def _checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        expected = " or ".join(one.__name__ for one in kind) if isinstance(kind, tuple) else kind.__name__
        raise ClientError(f"must be {expected}, not {type(value).__name__}")
    return value


def _same(value: Any) -> Any:
    return value
