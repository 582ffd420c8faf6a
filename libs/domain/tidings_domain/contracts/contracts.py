"""Reads event contracts: ``schemas/<domain>/<event>/v<major>.avsc``, one Avro record per event and major version.

The path says what the event is called: ``schemas/shop/order-placed/v2.avsc`` is the record ``OrderPlaced`` in the
namespace ``shop.order_placed.v2`` and is published on the topic ``shop.order-placed.v2``. Every field has a `doc`,
because a contract is written for other teams. What a contract may use is what `tidings_domain.avro.encoders` can encode.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, fingerprint, to_parsing_canonical_form

from tidings_domain.errors import ContractError
from tidings_domain.language.lifecycle import Lifecycle, lifecycle_of, lifecycle_problems
from tidings_domain.language.sites import nearest

_FILE = re.compile(r"^(?P<domain>[a-z][a-z0-9-]*)/(?P<event>[a-z][a-z0-9-]*)/v(?P<major>[1-9][0-9]*)\.avsc$")
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes"})
_LOGICAL = frozenset(
    {("int", "date"), ("long", "time-micros"), ("long", "timestamp-micros"), ("long", "timestamp-millis")}
    | {("long", "local-timestamp-micros"), ("string", "uuid"), ("bytes", "decimal"), ("fixed", "decimal")}
)
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAMED = frozenset({"record", "enum", "fixed"})


class Contract(msgspec.Struct, frozen=True):
    """One event version's contract.

    Attributes:
        domain: such as ``shop``.
        event: such as ``order-placed``.
        major: the major version.
        schema: the Avro schema as it was written.
        origin: where it was read, for messages.
    """

    domain: str
    event: str
    major: int
    schema: dict[str, Any]
    origin: str

    @property
    def topic(self) -> str:
        """``shop.order-placed.v2``."""
        return f"{self.domain}.{self.event}.v{self.major}"

    @property
    def subject(self) -> str:
        """The registry's subject for the topic's values."""
        return f"{self.topic}-value"

    @property
    def lifecycle(self) -> Lifecycle:
        """When the version is deprecated and when it ends."""
        return lifecycle_of(self.schema)

    @property
    def class_name(self) -> str:
        """``OrderPlaced``."""
        return camel(self.event)

    @property
    def text(self) -> str:
        """The schema as compact JSON, which is what is registered."""
        return json.dumps(self.schema, separators=(",", ":"), ensure_ascii=False)

    @property
    def fingerprint(self) -> str:
        """Avro's CRC-64 fingerprint of the parsing canonical form: equal when the encoding is."""
        return str(fingerprint(to_parsing_canonical_form(fastavro.parse_schema(self.schema)), "CRC-64-AVRO"))


Contracts = dict[tuple[str, str, int], Contract]


def camel(event: str) -> str:
    """``order-placed`` to ``OrderPlaced``."""
    return "".join(part.capitalize() for part in event.split("-"))


def read_contracts(directory: Path) -> Contracts:
    """Every contract below a directory.

    Raises:
        ContractError: a file is in the wrong place, is not an Avro schema, or breaks a rule; all problems are told at once.
    """
    if not directory.is_dir():
        raise ContractError(
            f"no contracts: {directory} is not a directory",
            hint="run from the repository's root or give --schemas",
        )
    return parse_contracts(schema_files(directory), str(directory))


def schema_files(directory: Path) -> dict[str, str]:
    """Path below the directory to text, for every schema there is."""
    files = sorted(directory.rglob("*.avsc"))
    return {f.relative_to(directory).as_posix(): f.read_text(encoding="utf-8") for f in files}


def parse_contracts(files: Mapping[str, str], origin: str) -> Contracts:
    """Contracts from texts by path below the schemas directory.

    Raises:
        ContractError: as for `read_contracts`.
    """
    contracts: Contracts = {}
    problems: list[str] = []
    for path, text in files.items():
        if path.startswith("consumers/"):  # read by `tidings_domain.contracts.consumers`
            continue
        try:
            contract = _parse(path, text, f"{origin}/{path}")
        except ContractError as error:
            problems.append(str(error))
            continue
        problems += [f"{contract.origin}: {problem}" for problem in _problems(contract)]
        contracts[contract.domain, contract.event, contract.major] = contract
    if problems:
        raise ContractError("\n".join(problems))
    return contracts


def _parse(path: str, text: str, origin: str) -> Contract:
    place = _FILE.match(PurePosixPath(path).as_posix())
    if place is None:
        raise ContractError(
            f"{origin}: a contract is <domain>/<event>/v<major>.avsc, in lower case with hyphens"
        )
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise ContractError(f"{origin}:{error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ContractError(f"{origin}: an event is an Avro record")
    symbols = "".join(f"\n{origin}: {problem}" for problem in _symbol_problems(schema, ""))
    if symbols:  # before fastavro, which names neither the symbol nor its field
        raise ContractError(symbols.lstrip("\n"))
    try:
        fastavro.parse_schema(schema)
    except (SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError, ValueError) as error:
        raise ContractError(f"{origin}: not an Avro schema: {error}") from error
    return Contract(place["domain"], place["event"], int(place["major"]), schema, origin)


def _problems(contract: Contract) -> Iterator[str]:
    schema = contract.schema
    if schema.get("name") != contract.class_name:
        yield f"the record is called '{schema.get('name')}', its directory says '{contract.class_name}'"
    namespace = f"{contract.domain}.{contract.event.replace('-', '_')}.v{contract.major}"
    if schema.get("namespace") != namespace:
        yield f"the namespace must be '{namespace}'"
    yield from lifecycle_problems(schema)
    yield from _record_problems(schema, "", set())


def _record_problems(schema: Mapping[str, Any], path: str, named: set[str]) -> Iterator[str]:
    if not schema.get("doc"):
        yield f"record '{schema['name']}' has no doc"
    named.add(schema["name"])
    for field in schema["fields"]:
        where = f"{path}.{field['name']}" if path else field["name"]
        if not field.get("doc"):
            yield f"field '{where}' has no doc"
        yield from _type_problems(field["type"], where, named)


def _type_problems(schema: Any, path: str, named: set[str]) -> Iterator[str]:
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        if len(schema) != 2 or len(others) != 1:
            yield f"field '{path}': a union may only be null and one other type"
        for other in others:
            yield from _type_problems(other, path, named)
    elif isinstance(schema, str):
        if schema not in _PRIMITIVES and schema.rpartition(".")[2] not in named:
            yield f"field '{path}': type '{schema}' is not supported; {nearest(schema, _PRIMITIVES)}"
    else:
        yield from _complex_problems(schema, path, named)


def _complex_problems(schema: Mapping[str, Any], path: str, named: set[str]) -> Iterator[str]:
    kind, logical = schema["type"], schema.get("logicalType")
    if logical is not None and (kind, logical) not in _LOGICAL:
        yield f"field '{path}': logical type '{logical}' of {kind} is not supported"
    if kind == "record":
        yield from _record_problems(schema, path, named)
    elif kind in ("array", "map"):
        yield from _type_problems(schema["items" if kind == "array" else "values"], f"{path}[]", named)
    elif kind in _NAMED:
        named.add(schema["name"])
    elif logical is None:
        yield from _type_problems(kind, path, named)


def _symbol_problems(schema: Any, path: str) -> Iterator[str]:
    """Symbols of enums, wherever they are, that are not Avro names."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _symbol_problems(branch, path)
    if not isinstance(schema, dict):
        return
    for field in schema.get("fields") or ():
        if isinstance(field, dict):
            yield from _symbol_problems(
                field.get("type"), ".".join(filter(None, (path, str(field.get("name")))))
            )
    for inner in ("type", "items", "values"):
        yield from _symbol_problems(schema.get(inner), path if inner == "type" else f"{path}[]")
    symbols = schema.get("symbols") if schema.get("type") == "enum" else None
    for symbol in symbols if isinstance(symbols, list) else ():
        if not isinstance(symbol, str) or not _SYMBOL.match(symbol):
            yield (
                f"field '{path}': '{symbol}' is not an Avro enum's symbol: letters, digits and underscores, no digit first;"
                " let the rule translate the database's label, or make the field a string"
            )


def newest(contracts: Iterable[Contract]) -> dict[tuple[str, str], Contract]:
    """The newest contract of each event, by domain and event."""
    found: dict[tuple[str, str], Contract] = {}
    for contract in contracts:
        key = (contract.domain, contract.event)
        if key not in found or found[key].major < contract.major:
            found[key] = contract
    return found
