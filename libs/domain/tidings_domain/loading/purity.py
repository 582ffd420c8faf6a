"""Checks that a rule or a down-conversion uses nothing but its argument: no clock, no random number, no network, no file.

Python cannot forbid it, but the usual ways are seen in the function's bytecode: every global name and the attributes
taken from it are looked up, and compared with modules, clocks and functions that are not pure. What a called function
does is not followed.
"""

import builtins
import dis
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime
from types import CodeType, ModuleType
from typing import Any

_MODULES = frozenset(
    {
        "aiohttp",
        "asyncio",
        "confluent_kafka",
        "http",
        "httpx",
        "os",
        "psycopg",
        "random",
        "requests",
        "secrets",
    }
    | {"socket", "sqlite3", "subprocess", "time", "urllib"}
)
_FUNCTIONS: dict[str, Any] = {
    "datetime.now()": datetime.now,
    "datetime.today()": datetime.today,
    "datetime.utcnow()": getattr(datetime, "utcnow", None),
    "date.today()": date.today,
    "uuid1()": uuid.uuid1,
    "uuid4()": uuid.uuid4,
    "open()": open,
    "input()": input,
}
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def impure_names(function: Callable[..., Any]) -> list[str]:
    """The impure things that a function's own code uses, as an author would write them."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return []
    return sorted(set(_impure(code, getattr(function, "__globals__", {}))))


def _impure(code: CodeType, known: dict[str, Any]) -> Iterator[str]:
    value: Any = None
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = known.get(name, getattr(builtins, name, None))
        elif instruction.opname in _ATTRIBUTE and isinstance(value, (ModuleType, type)):
            value = getattr(value, name, None)
        elif instruction.opname == "IMPORT_NAME" and name.partition(".")[0] in _MODULES:
            yield f"module {name}"
            continue
        elif instruction.opname not in ("PUSH_NULL", "CACHE", "PRECALL", "RESUME"):
            value = None
        if value is not None:
            yield from _judge(value)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _impure(constant, known)


def _judge(value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] in _MODULES:
            yield f"module {value.__name__}"
        return
    for name, function in _FUNCTIONS.items():
        # A method of a class is a new object each time it is taken, so `is` would not do.
        if type(value) is type(function) and value == function:
            yield name
            return
    home = str(getattr(value, "__module__", None) or "").partition(".")[0]
    if callable(value) and not isinstance(value, type) and home in _MODULES:
        yield f"{home}.{getattr(value, '__name__', '?')}()"
