"""Writes the Python event classes of a domain from its contracts.

The text depends on the contracts alone and has a fixed order, so that `tidings-schemas generate --check` can compare.
Each record becomes a frozen msgspec struct: ``OrderPlacedV2`` for the event, ``OrderPlacedV2Line`` for its record
`Line`; the newest version also has the names ``OrderPlaced`` and ``OrderPlacedLine``, which rules use.
"""

import json
import keyword
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from tidings_domain.contracts.contracts import Contract, Contracts, newest

_WIDTH = 110
_PRIMITIVE = {
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "string": "str",
    "bytes": "bytes",
}
_LOGICAL = {
    "decimal": "Decimal",
    "date": "date",
    "time-micros": "time",
    "timestamp-micros": "datetime",
    "timestamp-millis": "datetime",
    "local-timestamp-micros": "datetime",
    "uuid": "UUID",
}
_IMPORTS = (
    ("datetime", ("date", "datetime", "time")),
    ("decimal", ("Decimal",)),
    ("typing", ("ClassVar", "Literal")),
    ("uuid", ("UUID",)),
)


def generate(domain: str, contracts: Contracts) -> str:
    """The module of event classes for one domain.

    Args:
        domain: such as ``shop``.
        contracts: of this and perhaps other domains.
    """
    own = sorted((c for c in contracts.values() if c.domain == domain), key=lambda c: (c.event, c.major))
    classes: list[str] = []
    names: set[str] = {"ClassVar"}
    aliases: list[str] = []
    records = False
    latest = newest(own)
    for contract in own:
        generator = _EventGenerator(contract)
        classes += generator.classes
        names |= generator.imports
        records |= len(generator.class_names) > 1
        if latest[contract.domain, contract.event] is contract:
            prefix, short = f"{contract.class_name}V{contract.major}", contract.class_name
            aliases += [f"{short}{name.removeprefix(prefix)} = {name}" for name in generator.class_names]
    bases = "BusinessEvent, BusinessRecord" if records else "BusinessEvent"
    head = f"{_head(domain)}\n\n{_imports(names, bases, 'msgspec' in names)}"
    parts = [head, *classes, "\n".join(aliases)]
    return "\n\n\n".join(part for part in parts if part) + "\n"


def _head(domain: str) -> str:
    return (
        f'"""Business events of the domain `{domain}`.\n\n'
        f"Generated from schemas/{domain} by `tidings-schemas generate`; edit the contracts, not this file.\n"
        '"""'
    )


def _imports(names: set[str], bases: str, needs_msgspec: bool) -> str:
    standard = [
        f"from {module} import {', '.join(word for word in words if word in names)}"
        for module, words in _IMPORTS
        if any(word in names for word in words)
    ]
    own = [f"from tidings_domain import {bases}"]
    third = ["import msgspec"] if needs_msgspec else []
    return "\n".join(standard) + "\n\n" + "\n".join(third + own)


class _EventGenerator:
    """The classes of one contract, inner records first."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.prefix = f"{contract.class_name}V{contract.major}"
        self.classes: list[str] = []
        self.class_names: list[str] = []
        self.imports: set[str] = set()
        self._named: dict[str, str] = {}
        self._record(contract.schema, self.prefix, "BusinessEvent")

    def _record(self, schema: Mapping[str, Any], name: str, base: str) -> None:
        fields = [(field, self._type(field["type"])) for field in schema["fields"]]
        lines = [f"class {name}({base}, frozen=True, kw_only=True):", *_docstring(schema)]
        if base == "BusinessEvent":
            lines += [
                "",
                f"    __domain__: ClassVar[str] = {self.contract.domain!r}".replace("'", '"'),
                f"    __event__: ClassVar[str] = {self.contract.event!r}".replace("'", '"'),
                f"    __major__: ClassVar[int] = {self.contract.major}",
                *_contract_lines(self.contract),
            ]
        if fields:
            lines += ["", *(self._field(field, annotation) for field, annotation in fields)]
        self.classes.append("\n".join(lines))
        self.class_names.append(name)

    def _field(self, field: Mapping[str, Any], annotation: str) -> str:
        name: str = field["name"]
        default = _default(field)
        if keyword.iskeyword(name):
            self.imports.add("msgspec")
            more = f", default={default}" if default is not None else ""
            return f'    {name}_: {annotation} = msgspec.field(name="{name}"{more})'
        return f"    {name}: {annotation}" + (f" = {default}" if default is not None else "")

    def _type(self, schema: Any) -> str:
        if isinstance(schema, list):
            return f"{self._type(next(branch for branch in schema if branch != 'null'))} | None"
        if isinstance(schema, str):
            return _PRIMITIVE.get(schema) or self._named[schema.rpartition(".")[2]]
        kind, logical = schema["type"], schema.get("logicalType")
        if logical is not None:
            self.imports.add(_LOGICAL[logical])
            return _LOGICAL[logical]
        if kind in ("record", "enum", "fixed"):
            return self._named_type(schema)
        if kind == "array":
            return f"tuple[{self._type(schema['items'])}, ...]"
        return f"dict[str, {self._type(schema['values'])}]" if kind == "map" else self._type(kind)

    def _named_type(self, schema: Mapping[str, Any]) -> str:
        if schema["type"] == "record":
            name = self.prefix + str(schema["name"])
            self._record(schema, name, "BusinessRecord")
        elif schema["type"] == "enum":
            self.imports.add("Literal")
            name = f"Literal[{', '.join(json.dumps(one) for one in schema['symbols'])}]"
        else:
            name = "bytes"
        self._named[schema["name"]] = name
        return name


def _default(field: Mapping[str, Any]) -> str | None:
    """The Python text of a field's default, where Avro's and Python's values are alike."""
    if "default" not in field:
        return None
    value = field["default"]
    if value is None:
        return "None"
    if value == [] and isinstance(value, list):
        return "()"
    plain = field["type"] if isinstance(field["type"], str) else None
    if isinstance(field["type"], dict) and field["type"].get("type") == "enum":
        return json.dumps(value)
    if plain in ("boolean", "int", "long", "float", "double"):
        return repr(value)
    return json.dumps(value, ensure_ascii=False) if plain == "string" else None


def _docstring(schema: Mapping[str, Any]) -> Iterator[str]:
    text = [*_wrapped(f'"""{schema["doc"]}', "    ", "    ")]
    attributes = [
        line
        for field in schema["fields"]
        for line in _wrapped(f"{field['name']}: {field['doc']}", " " * 8, " " * 12)
    ]
    if attributes:
        text += ["", "    Attributes:", *attributes]
    return iter([*text, '    """'])


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text.replace("\\", "\\\\"),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _contract_lines(contract: Contract) -> list[str]:
    """The contract's JSON as adjacent string literals of bounded length."""
    text, size = contract.text, 90
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return ["    __contract__: ClassVar[str] = (", *(f"        {piece!r}" for piece in pieces), "    )"]
