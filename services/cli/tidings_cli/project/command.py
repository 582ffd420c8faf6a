"""``tidings init``: looks at a database and writes a project that runs; again, it adds what is new.

Exit codes: 0, 1 when the database cannot be read or a file is in the way, 2 for wrong options.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tidings_cli.project.files import Seen, aggregates_text, notes, project_files
from tidings_cli.project.writing import (
    MEMORY,
    Memory,
    ProjectError,
    Written,
    columns_of,
    differences,
    digest_of,
    recall,
    remember,
    write,
)
from tidings_domain.contracts.contracts import schema_files
from tidings_domain.starting import cli as domain_only
from tidings_domain.starting.database import read_database, read_schemas, read_server
from tidings_domain.starting.package import events_text
from tidings_domain.starting.proposal import Proposal, propose
from tidings_domain.starting.tables import Table
from tidings_envelope.base_errors import SettingsError, TidingsError, print_error
from tidings_envelope.errors import EnvelopeError

_DOMAIN = re.compile(r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    options = parser().parse_args(arguments)
    if options.registry is not None:
        return _domain_of_registry(options)
    try:
        sys.stdout.write(_init(options))
    except (TidingsError, EnvelopeError) as error:
        return print_error(error)
    return 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    options = argparse.ArgumentParser(
        prog="tidings init",
        description="Writes a project that runs from what a database is like: what capture is told and why, a domain with"
        " aggregates, rules, contracts and tests, compose.yaml, values for Helm, and a Makefile. In a project it adds what is"
        " new in the database, and touches nothing that was edited.",
    )
    options.add_argument(
        "url", nargs="?", metavar="URL",
        help="the database (default: TIDINGS_DATABASE, which hides a password from the process list)",
    )  # fmt: skip
    where = options.add_mutually_exclusive_group()
    where.add_argument("--database", metavar="URL", help="the same")
    where.add_argument(
        "--registry", metavar="URL",
        help="write a domain alone, from the schemas that a connector has registered; foreign keys are guessed by name",
    )  # fmt: skip
    options.add_argument("--source", metavar="PREFIX", help="with --registry: the connector's topic.prefix")
    options.add_argument("--name", metavar="DOMAIN", help="first word of all topics (the database's name)")
    options.add_argument(
        "--schema", action="append", metavar="NAME", help="a schema of the database; repeatable (all of people's own)"
    )  # fmt: skip
    options.add_argument(
        "--table", action="append", metavar="SCHEMA.TABLE", help="only these tables; repeatable (all)"
    )
    options.add_argument(
        "--root", action="append", default=[], metavar="SCHEMA.TABLE",
        help="make it an aggregate, whatever it looks like; repeatable",
    )  # fmt: skip
    options.add_argument(
        "--into",
        type=Path,
        metavar="DIR",
        help="where to write (a new directory of that name, or the project here)",
    )
    return options


def _domain_of_registry(options: argparse.Namespace) -> int:
    if options.url is not None:
        return print_error(SettingsError("a database's URL and --registry: one of the two"))
    options.name, options.into = options.name or "shop", options.into or Path()
    return domain_only.run(options)


def _init(options: argparse.Namespace) -> str:
    url = options.url or options.database or os.environ.get("TIDINGS_DATABASE")
    if not url:
        raise SettingsError("where is the database?", hint="tidings init postgresql://user@host/database")
    server = read_server(url)
    here = Path(MEMORY).exists()
    into = options.into or (Path() if here else Path(options.name or _name_of(server.database)))
    memory = recall(into)
    name = options.name or memory.name or _name_of(server.database)
    if not _DOMAIN.match(name):
        raise SettingsError(f"--name {name}: a domain is called in lower case with hyphens, such as shop")
    if memory.name not in {None, name}:
        raise SettingsError(f"--name {name}: the project in {into} is called {memory.name}")
    schemas = options.schema or list(memory.schemas) or read_schemas(url)
    tables = _chosen(read_database(url, schemas), options)
    seen = Seen(name, server, tables, _without_taken(propose(tables, options.root), into, name, memory))
    if not seen.proposal.aggregates and not memory.files:
        raise ProjectError(
            "no table has a primary key, so there is no aggregate", hint="; ".join(notes(seen))
        )
    files = project_files(seen)
    done, hashes = write(into, files, memory)
    _write_events(into, seen, hashes, done)
    now = columns_of(tables)
    remember(into, Memory(name, tuple(schemas), hashes, now))
    return _told(into, seen, done, differences(memory.tables, now) if memory.files else None)


def _chosen(tables: list[Table], options: argparse.Namespace) -> list[Table]:
    names = {table.name for table in tables}
    for wanted in (*(options.table or ()), *options.root):
        if wanted not in names:
            raise SettingsError(
                f"there is no table {wanted}; there are: {', '.join(sorted(names)) or 'none'}"
            )
    return [table for table in tables if not options.table or table.name in options.table]


def _name_of(database: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", database.lower()).strip("-")


def _without_taken(proposal: Proposal, into: Path, name: str, memory: Memory) -> Proposal:
    """Without aggregates whose table the author has made the root of one in a module of their own."""
    package = into / name.replace("-", "_")
    own = [
        path.read_text(encoding="utf-8")
        for path in sorted(package.glob("**/*.py"))
        if path.relative_to(into).as_posix() not in memory.files
    ]
    return Proposal(
        proposal.referred,
        tuple(
            one
            for one in proposal.aggregates
            if not any(f'root="{one.root.table.name}"' in text for text in own)
        ),
        proposal.notes,
    )


def _write_events(into: Path, seen: Seen, hashes: dict[str, str], done: Written) -> None:
    """The event classes of all contracts that are there now; they are generated, so nobody edits them."""
    path = f"{seen.package}/events.py"
    text, target = events_text(seen.name, schema_files(into / "schemas")), into / path
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        (done.renewed if target.exists() else done.new).append(path)
        target.write_text(text, encoding="utf-8")
    hashes[path] = digest_of(text)


def _told(into: Path, seen: Seen, done: Written, changed: list[str] | None) -> str:
    server = seen.server
    lines = [
        f"PostgreSQL {server.version}, database {server.database}, wal_level={server.wal_level}, {len(seen.tables)} tables",
        "",
    ]
    if changed is None:
        lines += [*aggregates_text(seen), "", *(f"note: {note}" for note in notes(seen)), ""]
    else:
        lines += [*(f"since the last run: {one}" for one in changed or ["the tables are as they were"]), ""]
    for what, paths in (("new", done.new), ("renewed", done.renewed)):
        lines += [f"{what}: {path}" for path in sorted(paths)]
    lines += [
        f"left as it is, because it was edited (it would be written differently today): {path}"
        for path in sorted(done.edited)
    ]
    if server.wal_level != "logical":
        lines += ["", "The server is not ready: ALTER SYSTEM SET wal_level = logical, and restart it."]
    step = "" if into.resolve() == Path.cwd() else f"cd {into}; "
    lines += [
        "",
        f"Next: {step}make install test doctor up. README.md and connector.md say what was chosen, and why.",
    ]
    return "\n".join(lines) + "\n"
