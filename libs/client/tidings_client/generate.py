"""``tidings-client generate``: event classes from the registry's contracts, to be trimmed to what is used."""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidings_client.errors import ClientError
from tidings_client.registry import Registry

_TOPIC = re.compile(r"^(?P<name>[a-z][a-z0-9.-]*)\.v(?P<major>[1-9][0-9]*)$")
_PLAIN = {
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="tidings-client", description="For readers of business events.")
    commands = parser.add_subparsers(dest="command", required=True)
    generator = commands.add_parser("generate", help="print event classes for topics")
    generator.add_argument("topics", nargs="+", metavar="TOPIC", help="such as shop.order-placed.v2")
    generator.add_argument(
        "--registry",
        default=os.environ.get("TIDINGS_REGISTRY"),
        metavar="URL",
        help="default: TIDINGS_REGISTRY",
    )
    options = parser.parse_args(arguments)
    try:
        registry = Registry(options.registry or "")
        text = classes_text({topic: registry.latest(topic) for topic in options.topics})
    except ClientError as error:
        sys.stderr.write(f"tidings-client: {error}\n")
        return 1
    sys.stdout.write(text)
    return 0


def classes_text(contracts: Mapping[str, Any]) -> str:
    """A module of event classes.

    Args:
        contracts: topic to its Avro schema.

    Raises:
        ClientError: a topic is not called ``<domain>.<event>.v<major>``.
    """
    blocks: list[str] = []
    for topic, schema in contracts.items():
        found = _TOPIC.match(topic)
        if found is None:
            raise ClientError(f"{topic} is no business topic: they are called <domain>.<event>.v<major>")
        suffix = f"V{found['major']}"
        marked = f'@event("{found["name"]}", version={found["major"]})\n'
        blocks += _classes(schema, suffix, marked, {})
    body = "\n\n\n".join(blocks)
    imports = ["from dataclasses import dataclass"]
    for module, names in (("datetime", ("date", "datetime", "time")), ("decimal", ("Decimal",)), ("typing", ("Literal",)),
                          ("uuid", ("UUID",))):  # fmt: skip
        used = [name for name in names if re.search(rf"^    \w+: .*\b{name}\b", body, re.MULTILINE)]
        if used:
            imports.append(f"from {module} import {', '.join(used)}")
    return "\n".join([*imports, "", "from tidings_client import event", "", "", body]) + "\n"


def _classes(schema: Mapping[str, Any], suffix: str, marked: str, named: dict[str, str]) -> Iterator[str]:
    """The classes of the records inside, then the record's own."""
    inner: list[str] = []
    required, optional = [], []
    for field in schema["fields"]:
        kind = _type(field["type"], suffix, named, inner)
        line = f"    {field['name']}: {kind}"
        if "default" in field:
            optional.append(f"{line} = None" if field["default"] is None else line)
        else:
            required.append(line)
    yield from inner
    doc = str(schema.get("doc", schema["name"])).replace("\\", "\\\\").replace('"""', "'''")
    lines = [
        f"{marked}@dataclass(frozen=True, kw_only=True)",
        f"class {schema['name']}{suffix}:",
        f'    """{doc}"""',
        "",
    ]
    yield "\n".join([*lines, *required, *optional])


def _type(schema: Any, suffix: str, named: dict[str, str], inner: list[str]) -> str:
    if isinstance(schema, list):
        others = [_type(one, suffix, named, inner) for one in schema if one != "null"]
        return " | ".join([*others, "None"])
    if isinstance(schema, str):
        return _PLAIN.get(schema) or named[schema.rpartition(".")[2]]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return f"list[{_type(schema['items'], suffix, named, inner)}]"
    if kind == "map":
        return f"dict[str, {_type(schema['values'], suffix, named, inner)}]"
    if kind == "enum":
        made = f"Literal[{', '.join(repr(one).replace(chr(39), chr(34)) for one in schema['symbols'])}]"
    elif kind == "fixed":
        made = "bytes"
    elif kind == "record":
        inner += _classes(schema, suffix, "", named)
        made = f"{schema['name']}{suffix}"
    else:
        return _type(kind, suffix, named, inner)
    named[schema["name"]] = made
    return made


if __name__ == "__main__":
    sys.exit(main())
