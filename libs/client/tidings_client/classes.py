"""Event classes as Python's text, from Avro schemas that others wrote.

A schema is not trusted: names must be names in Python and texts become literals, so that the module holds imports of
the standard library and classes with fields, and nothing else, or the contract is refused by the name that does not fit.
"""

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidings_client.errors import ClientError

_TOPIC: Final = re.compile(r"(?P<name>[a-z][a-z0-9.-]*)\.v(?P<major>[1-9][0-9]*)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final = {
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "string": "str",
    "bytes": "bytes",
    "null": "None",
}
_LOGICAL: Final = {
    "decimal": "Decimal",
    "date": "date",
    "time-micros": "time",
    "timestamp-micros": "datetime",
    "timestamp-millis": "datetime",
    "local-timestamp-micros": "datetime",
    "uuid": "UUID",
}
_MODULES: Final = {
    "builtins": ("bool", "bytes", "dict", "float", "int", "list", "str"),
    "datetime": ("date", "datetime", "time"),
    "decimal": ("Decimal",),
    "typing": ("Literal",),
    "uuid": ("UUID",),
}
_MARKED: Final = re.compile("\0([^\0]+)\0")
"""A name that a type takes from elsewhere; texts are written with escapes, so no other NUL stands in a class."""
_DEEPEST: Final = 50
"""How deep types may be nested."""
_SHOWN: Final = 100
"""Characters of a wrong name that a message shows."""


def classes_text(contracts: Mapping[str, Any]) -> str:
    """A module of event classes.

    Args:
        contracts: topic to its Avro schema.

    Raises:
        ClientError: a topic is not called ``<domain>.<event>.v<major>``; or a contract holds what cannot be written in
            Python, and the message names it.
    """
    module = _Module()
    for topic, schema in contracts.items():
        found = _TOPIC.fullmatch(topic)
        if found is None:
            raise ClientError(
                f"{_shown(topic)} is not a business topic: they are called <domain>.<event>.v<major>"
            )
        try:
            _Contract(module, f"V{found['major']}").read(
                schema, f'@event("{found["name"]}", version={found["major"]})\n'
            )
        except ClientError as error:
            raise ClientError(f"{topic}: {error}") from error
    return module.text()


class _Module:
    """The classes so far."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._bound: set[str] = set()

    def add(self, name: str, text: str, bound: Iterable[str]) -> None:
        """A class. `bound` are the names that defaults bind within it: no type can have one of them there."""
        if self._classes.setdefault(name, text) != text:
            raise ClientError(f"there are two different records for the class {_shown(name)}")
        self._bound.update(bound)

    def text(self) -> str:
        body = "\n\n\n".join(self._classes.values())
        used = set(_MARKED.findall(body))
        own = sorted(used & self._bound & self._classes.keys())
        if own:
            raise ClientError(f"a field is called {_shown(own[0])}, like a class")
        names = {name: self._free(name) if name in self._bound else name for name in used}
        imports = ["from dataclasses import dataclass"]
        for module, known in _MODULES.items():
            taken = [one for one in known if one in used and (module != "builtins" or one != names[one])]
            if taken:
                listed = [one if one == names[one] else f"{one} as {names[one]}" for one in taken]
                imports.append(f"from {module} import {', '.join(listed)}")
        body = _MARKED.sub(lambda found: names[found[1]], body)
        return "\n".join([*sorted(imports), "", "from tidings_client import event", "", "", body]) + "\n"

    def _free(self, name: str) -> str:
        while name in self._bound:
            name += "_"
        return name


class _Contract:
    """Reads one contract into a module.

    Args:
        suffix: of its classes' names.
    """

    def __init__(self, module: _Module, suffix: str) -> None:
        self._module = module
        self._suffix = suffix
        self._named: dict[str, str | None] = {}
        """The types that have a name, by its last part; None while one is being read."""

    def read(self, schema: Any, marked: str) -> None:
        """The classes of the records inside, then the event's own."""
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            raise ClientError("it is not a record")
        self._record(schema, marked, 0)

    def _record(self, schema: Mapping[str, Any], marked: str, depth: int) -> str:
        name = self._open(schema)
        given = schema.get("fields")
        if not isinstance(given, list) or not all(isinstance(one, Mapping) for one in given):
            raise ClientError(f"the fields of {_shown(name)} are not a list of fields")
        required, optional = {}, {}
        for field in given:
            called = _checked_name(field.get("name"), "a field's name")
            if called.startswith("__"):
                raise ClientError(
                    f"a field is called {_shown(called)}, which has a meaning of its own in Python"
                )
            if called in required or called in optional:
                raise ClientError(f"two fields of {_shown(name)} are called {_shown(called)}")
            kind = self._type(field.get("type"), called, depth + 1)
            if "default" in field and field["default"] is None:
                optional[called] = f"    {called}: {kind} = None"
            else:
                required[called] = f"    {called}: {kind}"
        made = f"{name}{self._suffix}"
        lines = [
            f"{marked}@dataclass(frozen=True, kw_only=True)",
            f"class {made}:",
            _docstring(schema.get("doc", name)),
            *([""] if given else []),
            *required.values(),
            *optional.values(),
        ]
        self._module.add(made, "\n".join(lines), optional)
        self._named[name] = _marked(made)
        return _marked(made)

    def _open(self, schema: Mapping[str, Any]) -> str:
        """The name of a type that begins here."""
        full = schema.get("name")
        for part in full.split(".") if isinstance(full, str) else [full]:
            _checked_name(part, "a type's name")
        name = str(full).rpartition(".")[2]
        if name in self._named:
            raise ClientError(f"there are two types for the name {_shown(full)}")
        self._named[name] = None
        return name

    def _type(self, schema: Any, field: str, depth: int) -> str:
        if depth > _DEEPEST:
            raise ClientError("it is nested too deeply")
        if isinstance(schema, list):
            others = [self._type(one, field, depth + 1) for one in schema if one != "null"]
            return " | ".join(dict.fromkeys([*others, "None"]))
        if isinstance(schema, str):
            return self._reference(schema)
        if not isinstance(schema, Mapping):
            raise ClientError(f"the type of {_shown(field)} is none")
        kind, logical = schema.get("type"), schema.get("logicalType")
        if isinstance(logical, str) and isinstance(kind, str) and kind in _PLAIN and logical in _LOGICAL:
            return _marked(_LOGICAL[logical])
        match kind:
            case "array":
                return f"{_marked('list')}[{self._type(schema.get('items'), field, depth + 1)}]"
            case "map":
                values = self._type(schema.get("values"), field, depth + 1)
                return f"{_marked('dict')}[{_marked('str')}, {values}]"
            case "enum":
                name = self._open(schema)
                made = f"{_marked('Literal')}[{', '.join(_symbols(schema, name))}]"
            case "fixed":
                name = self._open(schema)
                made = _marked("Decimal" if logical == "decimal" else "bytes")
            case "record":
                return self._record(schema, "", depth)
            case _:
                return self._type(kind, field, depth + 1)
        self._named[name] = made
        return made

    def _reference(self, name: str) -> str:
        if name in _PLAIN:
            return _PLAIN[name] if name == "null" else _marked(_PLAIN[name])
        short = name.rpartition(".")[2]
        if short not in self._named:
            raise ClientError(f"there is no type {_shown(name)}")
        made = self._named[short]
        if made is None:
            raise ClientError(f"{_shown(name)} holds itself, which a class for reading cannot")
        return made


def _symbols(schema: Mapping[str, Any], name: str) -> list[str]:
    symbols = schema.get("symbols")
    if not isinstance(symbols, list) or not symbols or not all(isinstance(one, str) for one in symbols):
        raise ClientError(f"the symbols of {_shown(name)} are not a list of texts")
    return [_literal(one) for one in symbols]


def _marked(name: str) -> str:
    return f"\0{name}\0"


def _checked_name(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise ClientError(f"{what} is not text")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ClientError(f"{what} is {_shown(name)}, which is none in Python")
    return name


def _shown(text: Any) -> str:
    """A text as a message may show it: on one line, nothing that moves a cursor."""
    shown = ascii(str(text))
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _literal(text: str) -> str:
    """A text as Python writes it, in double quotes where that is the same."""
    shown = ascii(text)
    return f'"{text}"' if shown == f"'{text}'" and '"' not in text else shown


def _docstring(doc: Any) -> str:
    text = str(doc).encode("utf-8", "backslashreplace").decode()  # half a surrogate pair is not text
    escaped = text.replace("\\", "\\\\")
    if '"""' in text or text.endswith('"'):
        escaped = escaped.replace('"', '\\"')
    shown = "".join(one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in escaped)
    return f'    """{shown}"""'
