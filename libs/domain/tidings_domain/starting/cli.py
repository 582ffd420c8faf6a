"""``tidings-translator init``: writes a starting domain and never touches a file that is there."""

import argparse
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tidings_domain.contracts.codegen import generate
from tidings_domain.contracts.contracts import parse_contracts
from tidings_domain.contracts.registration import OpenRegistry, open_registry
from tidings_domain.errors import TranslatorError
from tidings_domain.starting.database import read_database
from tidings_domain.starting.proposal import Proposal, propose
from tidings_domain.starting.subjects import read_registry
from tidings_domain.starting.tables import Table
from tidings_domain.starting.texts import file_texts
from tidings_envelope.base_errors import SettingsError, TidingsError, print_error
from tidings_envelope.errors import EnvelopeError

_DOMAIN = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")
_PYPROJECT = """[tool.tidings-schemas]
schemas = "schemas"
classes = {{ {domain} = "{package}/events.py" }}
"""
_PYTEST = """
[tool.pytest.ini_options]
# The domain's tests are plain functions; where pytest-asyncio is installed it would warn of a setting it lacks.
addopts = ["-p", "no:asyncio"]
"""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code: 0, 1 when the source cannot be read or a file is there already, 2 for options."""
    return run(parser().parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """The same, with options that were read."""
    try:
        if not _DOMAIN.match(options.name):
            raise SettingsError(
                f"--name {options.name}: a domain is called in lower case with hyphens, such as shop"
            )
        proposal = propose(_tables(options), options.root)
        if not proposal.aggregates:
            raise TranslatorError(
                "no table has a primary key, so there is no aggregate", hint="; ".join(proposal.notes)
            )
        package = options.name.replace("-", "_")
        _write(options.into, _all_files(options.name, package, proposal))
    except (TidingsError, EnvelopeError) as error:
        return print_error(error)
    sys.stdout.write(_summary(options.into, package, proposal))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(
        prog="tidings-translator init",
        description="Writes a starting domain: aggregates, rules, contracts and a test, from the tables of a database or"
        " from the schemas that a connector with the Avro converter has registered.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--database",
        metavar="URL",
        default=os.environ.get("TIDINGS_DATABASE"),
        help="read PostgreSQL's catalog (default: TIDINGS_DATABASE, which hides a password from the process list)",
    )
    where.add_argument(
        "--registry", metavar="URL", help="read the registry instead; foreign keys are guessed by name"
    )
    parser.add_argument("--source", metavar="PREFIX", help="with --registry: the connector's topic.prefix")
    parser.add_argument(
        "--name", default="shop", metavar="DOMAIN", help="first word of the business topics (shop)"
    )
    parser.add_argument(
        "--schema", action="append", metavar="NAME", help="a schema of the database; repeatable (public)"
    )
    parser.add_argument(
        "--table", action="append", metavar="SCHEMA.TABLE", help="only these tables; repeatable (all)"
    )
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="SCHEMA.TABLE",
        help="make it an aggregate, whatever it looks like; repeatable",
    )
    parser.add_argument(
        "--into", type=Path, default=Path(), metavar="DIR", help="where to write (this directory)"
    )
    return parser


def _tables(options: argparse.Namespace) -> list[Table]:
    if options.registry is not None:
        if options.source is None:
            raise SettingsError("--registry needs --source, the connector's topic.prefix")
        with closing(open_registry(options.registry)) as registry:
            names = options.table or _registered(registry, options.source)
            found = read_registry(registry, options.source, names)
    elif options.database is not None:
        found = read_database(options.database, options.schema or ["public"])
        if options.table:
            found = [table for table in found if table.name in options.table]
    else:
        raise SettingsError("where are the tables? --database URL, or --registry URL with --source")
    names = {table.name for table in found}
    for wanted in (*(options.table or ()), *options.root):
        if wanted not in names:
            raise SettingsError(
                f"there is no table {wanted}; there are: {', '.join(sorted(names)) or 'none'}"
            )
    return found


def _registered(registry: OpenRegistry, source: str) -> list[str]:
    """The tables of a source that have a schema of their own."""
    pattern = re.compile(rf"^{re.escape(source)}\.([^.]+\.[^.]+)-value$")
    found = [match[1] for subject in registry.subjects() if (match := pattern.match(subject))]
    if not found:
        raise TranslatorError(
            f"the registry has no schema of a table of '{source}'",
            hint="--source is the connector's topic.prefix",
        )
    return sorted(found)


def _all_files(domain: str, package: str, proposal: Proposal) -> dict[str, str]:
    files = file_texts(domain, package, proposal)
    contracts = {
        path.removeprefix("schemas/"): text for path, text in files.items() if path.startswith("schemas/")
    }
    files[f"{package}/events.py"] = generate(domain, parse_contracts(contracts, "schemas"))
    return files


def _write(into: Path, files: dict[str, str]) -> None:
    there = [path for path in files if (into / path).exists()]
    if there:
        raise TranslatorError(
            f"{', '.join(sorted(there))} is there already, and nothing was written",
            hint="choose another --into or --name",
        )
    for path, text in files.items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_text(text, encoding="utf-8")


def _summary(into: Path, package: str, proposal: Proposal) -> str:
    domain = package.replace("_", "-")
    lines = []
    for aggregate in proposal.aggregates:
        root = aggregate.root
        lines.append(f"{root.cls}: {root.table.name}")
        lines += [f"  {c.field}: {c.member.table.name}, because {c.why}" for c in aggregate.descendants()]
        lines += [
            f"  {held.field}: refers to {held.key.table}{' (guessed from the name)' if held.key.guessed else ''}"
            for held in root.references
        ]
    lines += [f"note: {note}" for note in proposal.notes]
    settings = _PYPROJECT.format(domain=domain, package=package)
    pyproject = into / "pyproject.toml"
    if pyproject.exists():
        tool = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {})
        table = tool.get("tidings-schemas")
        if table is None:
            lines += ["", f"Add to {pyproject}:", "", settings.rstrip()]
        elif domain not in table.get("classes", {}):
            lines += ["", f'Add to classes in {pyproject}: {domain} = "{package}/events.py"']
    else:
        pyproject.write_text(settings + _PYTEST, encoding="utf-8")
    lines += [
        "",
        f"Written: {package}/, schemas/{domain}/, test_{package}.py. Next: pytest {into / f'test_{package}.py'}",
        f"Then say in {package}/rules.py what is news, in schemas/{domain}/ what others get of it, and generate:",
        "tidings-schemas generate",
    ]
    return "\n".join(lines) + "\n"
