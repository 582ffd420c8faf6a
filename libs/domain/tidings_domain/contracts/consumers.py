"""Checks consumer contracts: what a downstream team reads, kept beside the contracts that they read from.

``schemas/consumers/<team>/<domain>.<event>.v<major>.avsc`` is the Avro schema with which that team reads that topic:
the fields it uses, and no others. `problems` says in words what of it the topic's events can't satisfy, so that who
changes a contract learns which team would be hit before the team does. The rules are Avro's schema resolution
(specification 1.12), and two of our own: a decimal must have the same scale and at least the same precision, and a
logical type must be the same or be left out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import fastavro
import msgspec
from fastavro.schema import SchemaParseException

from tidings_domain.avro.encoders import inlined
from tidings_domain.contracts.contracts import Contract, Contracts
from tidings_domain.errors import ContractError
from tidings_domain.language.sites import nearest

DIRECTORY = "consumers"
"""The directory below the schemas that holds them; so no domain is called like it."""
_FILE = re.compile(
    rf"^{DIRECTORY}/(?P<team>[a-z0-9][a-z0-9-]*)/(?P<topic>(?P<domain>[a-z][a-z0-9-]*)\.(?P<event>[a-z][a-z0-9-]*)"
    r"\.v(?P<major>[1-9][0-9]*))\.avsc$"
)
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""What a reader may take a writer's type as."""


class ConsumerContract(msgspec.Struct, frozen=True):
    """How one team reads one event version."""

    team: str
    domain: str
    event: str
    major: int
    schema: dict[str, Any]
    origin: str

    @property
    def topic(self) -> str:
        """``shop.order-placed.v2``."""
        return f"{self.domain}.{self.event}.v{self.major}"


def is_consumers(path: str) -> bool:
    """Whether a path below the schemas directory is a consumer contract's."""
    return path.startswith(f"{DIRECTORY}/")


def parse_consumer_contracts(files: Mapping[str, str], origin: str) -> list[ConsumerContract]:
    """Consumer contracts from texts by path below the schemas directory; other paths are passed over.

    Raises:
        ContractError: a file is in the wrong place or is not an Avro record; all problems are told at once.
    """
    found: list[ConsumerContract] = []
    wrong: list[str] = []
    for path, text in files.items():
        if is_consumers(path):
            try:
                found.append(_parse(path, text, f"{origin}/{path}"))
            except ContractError as error:
                wrong.append(str(error))
    if wrong:
        raise ContractError("\n".join(wrong))
    return found


def _parse(path: str, text: str, origin: str) -> ConsumerContract:
    place = _FILE.match(path)
    if place is None:
        raise ContractError(
            f"{origin}: a consumer contract is {DIRECTORY}/<team>/<domain>.<event>.v<major>.avsc, the topic's name"
        )
    try:
        schema = json.loads(text)
        if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("fields"):
            raise ContractError(f"{origin}: an event is an Avro record with fields")
        fastavro.parse_schema(schema)
        inlined(schema)
    except json.JSONDecodeError as error:
        raise ContractError(f"{origin}:{error.lineno}: not JSON: {error.msg}") from error
    except (SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError, ValueError) as error:
        raise ContractError(f"{origin}: not an Avro schema: {error}") from error
    return ConsumerContract(
        place["team"], place["domain"], place["event"], int(place["major"]), schema, origin
    )


def problems(consumers: list[ConsumerContract], contracts: Contracts) -> list[str]:
    """What the consumers' contracts ask for and the topics' events do not give, one sentence each."""
    told: list[str] = []
    for consumer in consumers:
        contract = contracts.get((consumer.domain, consumer.event, consumer.major))
        if contract is None:
            told.append(f"{_who(consumer)}, but that version is not published{_instead(consumer, contracts)}")
        else:
            reader, writer = inlined(consumer.schema), inlined(contract.schema)
            told += [f"{_who(consumer)}: {problem}" for problem in _differences(writer, reader, "")]
    return told


def _who(consumer: ConsumerContract) -> str:
    return f"team {consumer.team} reads {consumer.topic} ({consumer.origin})"


def _instead(consumer: ConsumerContract, contracts: Contracts) -> str:
    majors = sorted(
        one.major
        for one in contracts.values()
        if (one.domain, one.event) == (consumer.domain, consumer.event)
    )
    if majors:
        return (
            f" (live: {', '.join(f'v{major}' for major in majors)}): keep it until the team has moved, and delete"
            " its file then"
        )
    return f"; {nearest(f'{consumer.domain}.{consumer.event}', _events(contracts))}"


def _events(contracts: Contracts) -> list[str]:
    return [f"{contract.domain}.{contract.event}" for contract in contracts.values()]


def readers_of(contract: Contract, consumers: list[ConsumerContract]) -> list[str]:
    """The teams that have a contract for an event version."""
    return sorted({consumer.team for consumer in consumers if consumer.topic == contract.topic})


def _name(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(_name(branch) for branch in schema)
    if isinstance(schema, str):
        return schema
    if schema.get("logicalType") == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return str(schema.get("logicalType") or schema.get("name") or _name(schema["type"]))


def _kind(schema: Any) -> str:
    if isinstance(schema, list):
        return "union"
    if isinstance(schema, str):
        return schema
    return _kind(schema["type"]) if not isinstance(schema["type"], str) else str(schema["type"])


def _differences(writer: Any, reader: Any, path: str) -> Iterator[str]:
    where = f"field '{path}'" if path else "the event"
    if isinstance(writer, list):
        yield from _from_union(writer, reader, path)
        return
    if isinstance(reader, list):
        if all(any(True for _ in _differences(writer, branch, path)) for branch in reader):
            yield f"{where} is {_name(writer)}, they read {_name(reader)}"
        return
    wrote, read = _kind(writer), _kind(reader)
    if wrote != read:
        if read not in _PROMOTED.get(wrote, ()) or _logical(writer) or _logical(reader):
            yield f"{where} is {_name(writer)}, they read {_name(reader)}"
        return
    yield from _logical_differences(writer, reader, where)
    if wrote == "record":
        yield from _record_differences(writer, reader, path, where)
    elif wrote == "enum":
        yield from _enum_differences(writer, reader, where)
    elif wrote == "fixed":
        if writer["size"] != reader["size"] or not _same_name(writer, reader):
            yield f"{where} is fixed {writer['name']} of {writer['size']} bytes, they read {reader['name']} of {reader['size']}"
    elif wrote in ("array", "map"):
        inner = "items" if wrote == "array" else "values"
        yield from _differences(writer[inner], reader[inner], f"{path}[]")


def _from_union(writer: list[Any], reader: Any, path: str) -> Iterator[str]:
    """Every branch that may be written has to be readable."""
    if "null" in writer and not ("null" in reader if isinstance(reader, list) else reader == "null"):
        yield f"field '{path}' may be missing (null), and they read {_name(reader)}; make it optional in their schema"
    for branch in writer:
        if branch != "null":
            yield from _differences(branch, reader, path)


def _logical(schema: Any) -> str | None:
    return schema.get("logicalType") if isinstance(schema, dict) else None


def _logical_differences(writer: Any, reader: Any, where: str) -> Iterator[str]:
    wrote, read = _logical(writer), _logical(reader)
    if read is None or (wrote is None and read is None):
        return
    if wrote != read:
        yield f"{where} is {_name(writer)}, they read {_name(reader)}"
    elif wrote == "decimal" and (
        writer.get("scale", 0) != reader.get("scale", 0) or writer["precision"] > reader["precision"]
    ):
        yield f"{where} is {_name(writer)}, they read {_name(reader)}: same scale, and no fewer digits"


def _same_name(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> bool:
    """Unqualified names have to be the same, or an alias of the reader's."""
    wrote = str(writer["name"]).rpartition(".")[2]
    aliases = {str(alias).rpartition(".")[2] for alias in reader.get("aliases", ())}
    return wrote == str(reader["name"]).rpartition(".")[2] or wrote in aliases


def _record_differences(
    writer: Mapping[str, Any], reader: Mapping[str, Any], path: str, where: str
) -> Iterator[str]:
    if not _same_name(writer, reader):
        yield f"{where}: the record is called {writer['name']}, in their schema {reader['name']}"
    fields = {field["name"]: field for field in writer["fields"]}
    for field in reader["fields"]:
        inner = f"{path}.{field['name']}" if path else field["name"]
        found = next(
            (fields[name] for name in (field["name"], *field.get("aliases", ())) if name in fields), None
        )
        if found is not None:
            yield from _differences(found["type"], field["type"], inner)
        elif "default" not in field:
            yield (
                f"they need field '{inner}', which is not in the contract; {nearest(field['name'], fields)} A default in"
                " their schema would do, if they can be without it"
            )


def _enum_differences(writer: Mapping[str, Any], reader: Mapping[str, Any], where: str) -> Iterator[str]:
    if not _same_name(writer, reader):
        yield f"{where}: the enum is called {writer['name']}, in their schema {reader['name']}"
    unknown = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
    if unknown and "default" not in reader:
        yield f"{where} may be {', '.join(unknown)}, which they do not know, and their enum has no default"
