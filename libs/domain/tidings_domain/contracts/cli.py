"""`tidings-schemas` generates event classes from contracts, checks compatibility and registers schemas.

Where contracts and generated modules are is said in the root pyproject.toml::

    [tool.tidings-schemas]
    schemas = "schemas"
    classes = { shop = "examples/shop/tidings_shop/events.py" }
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tidings_domain.contracts.asyncapi import asyncapi
from tidings_domain.contracts.codegen import generate
from tidings_domain.contracts.compatibility import incompatibilities
from tidings_domain.contracts.consumers import parse_consumer_contracts, problems
from tidings_domain.contracts.contracts import Contracts, parse_contracts, read_contracts, schema_files
from tidings_domain.contracts.registration import open_registry, register_event
from tidings_domain.errors import ContractError
from tidings_envelope.base_errors import TidingsError, print_error
from tidings_envelope.errors import EnvelopeError


class Layout(msgspec.Struct, frozen=True):
    """Where things are: the schemas directory, and the generated module of each domain."""

    schemas: Path
    classes: dict[str, Path]


def find_layout(start: Path) -> Layout:
    """The layout that the nearest pyproject.toml with a ``[tool.tidings-schemas]`` table describes.

    Raises:
        ContractError: there is none, or the table lacks a key.
    """
    for directory in (start, *start.parents):
        file = directory / "pyproject.toml"
        if not file.is_file():
            continue
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("tidings-schemas")
        if table is None:
            continue
        classes = {domain: directory / path for domain, path in table.get("classes", {}).items()}
        return Layout(directory / table.get("schemas", "schemas"), classes)
    raise ContractError(
        f"no pyproject.toml with a [tool.tidings-schemas] table in {start} or above",
        hint='add it: schemas = "schemas" and classes = { <domain> = "<package>/events.py" }',
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    options = parser().parse_args(arguments)
    try:
        layout = find_layout(Path.cwd())
        if options.schemas is not None:
            layout = msgspec.structs.replace(layout, schemas=options.schemas)
        contracts = read_contracts(layout.schemas)
        if options.command == "generate":
            return _generate(layout, contracts, check=options.check)
        if options.command == "check":
            return _check(layout, contracts, options.against, options.retired)
        if options.command == "asyncapi":
            return _asyncapi(layout, contracts, options)
        return _register(contracts, options.registry)
    except (TidingsError, EnvelopeError) as error:
        return print_error(error)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-schemas", description="Event contracts and what is made of them."
    )
    parser.add_argument("--schemas", type=Path, help="the directory of contracts (default: pyproject.toml's)")
    commands = parser.add_subparsers(dest="command", required=True)
    generator = commands.add_parser("generate", help="write the event classes from the contracts")
    generator.add_argument(
        "--check", action="store_true", help="write nothing; fail when a module is not up to date"
    )
    checker = commands.add_parser(
        "check",
        help="check the contracts, that consumers get what they read, and that nothing breaks what others use",
    )
    checker.add_argument(
        "--against", metavar="REF|DIR", help="a git reference, or a directory with contracts"
    )
    checker.add_argument(
        "--retired",
        metavar="TOPIC",
        action="append",
        default=[],
        help="a version that is gone on purpose; repeatable",
    )
    registrar = commands.add_parser(
        "register", help="register the contracts with FULL_TRANSITIVE compatibility"
    )
    writer = commands.add_parser("asyncapi", help="print the AsyncAPI 3 document of a domain")
    writer.add_argument("--domain", help="needed where there are several")
    writer.add_argument("--document-version", default="1.0.0", metavar="X.Y.Z", help="default: 1.0.0")
    writer.add_argument(
        "--server", metavar="HOST:PORT", help="the Kafka cluster's address, to be named in it"
    )
    registrar.add_argument("--registry", metavar="URL", help="default: TIDINGS_REGISTRY")
    return parser


def _generate(layout: Layout, contracts: Contracts, *, check: bool) -> int:
    domains = {contract.domain for contract in contracts.values()}
    for domain in sorted(domains - set(layout.classes)):
        raise ContractError(
            f"pyproject.toml does not say where the classes of domain '{domain}' go",
            hint=f'add it to [tool.tidings-schemas]: classes = {{ {domain} = "<package>/events.py" }}',
        )
    stale = 0
    for domain, path in sorted(layout.classes.items()):
        text = generate(domain, contracts)
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            stale += 1
            sys.stderr.write(f"{_shown(path)} does not fit the contracts: run `tidings-schemas generate`\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {_shown(path)}\n")
    return 1 if stale else 0


def _check(layout: Layout, contracts: Contracts, against: str | None, retired: list[str]) -> int:
    consumers = parse_consumer_contracts(schema_files(layout.schemas), str(_shown(layout.schemas)))
    hit = problems(consumers, contracts)
    for problem in hit:
        sys.stderr.write(f"{problem}\n")
    if against is None:
        if not hit:
            read = f", and give {len(consumers)} consumers what they read" if consumers else ""
            sys.stdout.write(f"{len(contracts)} contracts are well-formed{read}\n")
        return 1 if hit else 0
    found = contracts_at(layout.schemas, against)
    earlier = {key: one for key, one in found.items() if one.topic not in retired}
    broken = incompatibilities(earlier, contracts)
    today = datetime.now(UTC).date()
    for gone in found.values():
        sunset = gone.lifecycle.sunset
        if gone.topic in retired and sunset is not None and today < sunset:
            broken.append(f"{gone.topic}: it is retired, but its sunset is {sunset}; readers plan by it")
    # Events that were written before are still there to be read.
    known = [one for one in consumers if (one.domain, one.event, one.major) in found]
    retained = problems(known, {key: one for key, one in found.items() if key in contracts})
    broken += [f"{problem} (events as of {against})" for problem in retained if problem not in hit]
    for problem in broken:
        sys.stderr.write(f"{problem}\n")
    if not broken and not hit:
        sys.stdout.write(f"{len(contracts)} contracts are compatible with {against}\n")
    return 1 if broken or hit else 0


def contracts_at(schemas: Path, against: str) -> Contracts:
    """The contracts in a directory, or as they are at a git reference.

    Raises:
        ContractError: there is no such directory or reference.
    """
    if Path(against).is_dir():
        return read_contracts(Path(against))
    listed = _git(schemas, against, "ls-tree", "-r", "--name-only", against, "./")
    files = {
        name: _git(schemas, against, "show", f"{against}:./{name}")
        for name in listed.splitlines()
        if name.endswith(".avsc")
    }
    return parse_contracts(files, against)


def _git(directory: Path, against: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=directory, capture_output=True, text=True, encoding="utf-8", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ContractError(
            f"the contracts at '{against}' cannot be read: it is neither a directory nor a git reference here",
            hint="in a shallow clone, fetch the reference first",
        ) from error
    return done.stdout


def _asyncapi(layout: Layout, contracts: Contracts, options: argparse.Namespace) -> int:
    domains = sorted({contract.domain for contract in contracts.values()})
    chosen = options.domain or (domains[0] if len(domains) == 1 else None)
    if chosen not in domains:
        raise ContractError(
            f"there is no domain '{chosen}' in {layout.schemas}" if chosen else "there are several domains",
            hint=f"choose one with --domain: {', '.join(domains)}",
        )
    document = asyncapi(chosen, contracts.values(), version=options.document_version, server=options.server)
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return 0


def _register(contracts: Contracts, url: str | None) -> int:
    with closing(open_registry(url)) as registry:
        for contract in sorted(contracts.values(), key=lambda one: one.topic):
            schema_id = register_event(registry, contract.subject, contract.schema)
            sys.stdout.write(f"{contract.subject}: schema {schema_id}\n")
    return 0


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    sys.exit(main())
