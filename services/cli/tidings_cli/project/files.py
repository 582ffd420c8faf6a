"""The texts of a project, from what was seen."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources

from tidings_cli.project.connector import Choice, choices
from tidings_cli.project.observations import observe
from tidings_domain.starting.database import Server
from tidings_domain.starting.package import module_name, package_files
from tidings_domain.starting.proposal import Proposal
from tidings_domain.starting.tables import Table

_PLAIN = re.compile(r"[A-Za-z0-9_./:-]+")
_HERE = frozenset({"localhost", "127.0.0.1", "::1", ""})


@dataclass(frozen=True, slots=True)
class Seen:
    """A database as it was seen, and what is made of it."""

    name: str
    server: Server
    tables: Sequence[Table]
    proposal: Proposal

    @property
    def package(self) -> str:
        """The Python package."""
        return self.name.replace("-", "_")


def project_files(seen: Seen) -> dict[str, str]:
    """Path to text, for everything but the generated event classes."""
    told = choices(seen.name, seen.server, seen.tables)
    values = _values(seen, told)
    named = {
        "worker.properties": "worker.properties",
        ".env": "env",
        "Makefile": "makefile",
        "Dockerfile": "dockerfile",
        "pyproject.toml": "pyproject",
        ".gitignore": "gitignore",
        "compose.yaml": "compose.yaml",
        "values.yaml": "values.yaml",
    }
    config = {choice.option: choice.value for choice in told}
    return {
        **{path: _filled(template, values) for path, template in named.items()},
        "connector.json": json.dumps({"name": seen.name, "config": config}, indent=2) + "\n",
        "connector.md": _connector_text(seen, told),
        "README.md": readme_text(seen),
        **package_files(seen.name, seen.package, seen.proposal),
    }


def aggregates_text(seen: Seen) -> list[str]:
    """What became of the tables, and why, a line each."""
    lines = []
    for aggregate in seen.proposal.aggregates:
        root = aggregate.root
        lines.append(f"{root.cls} ({seen.package}/{module_name(aggregate)}.py): {root.table.name}")
        lines += [f"  {c.field}: {c.member.table.name}, because {c.why}" for c in aggregate.descendants()]
        lines += [
            f"  {held.field}: refers to {held.key.table}{'' if held.required else ', which may be missing'}"
            for held in root.references
        ]
    return lines


def notes(seen: Seen) -> list[str]:
    """What to know of the database, a sentence each."""
    return [*observe(seen.tables), *seen.proposal.notes]


def readme_text(seen: Seen) -> str:
    """README.md: what was seen, what was made of it, and what comes next."""
    server = seen.server
    return "\n".join(
        [
            f"# {seen.name}",
            "",
            (
                f"What happens in the database `{server.database}` (PostgreSQL {server.version}), as business events"
                f" `{seen.name}.<event>.v<major>`. `tidings init` has written this; it is yours."
            ),
            "",
            "    make install    # this domain beside Tidings",
            "    make test       # the rules, on transactions in memory",
            "    make doctor     # what the database lacks, with the statement that mends it",
            "    make up         # the whole pipeline on this machine, live, until Ctrl-C",
            "    make image      # for compose.yaml (`docker compose up`) and values.yaml (Helm)",
            "",
            "`tidings init` again, in this directory, adds what is new in the database; what you have edited it leaves as it is.",
            "",
            "## What was made of the tables",
            "",
            "```text",
            *aggregates_text(seen),
            "```",
            "",
            "Each event tells its key only. What else is news, and what others get of it, you say in",
            f"`{seen.package}/*.py` and `schemas/{seen.name}/`; then `tidings schemas generate`. Why capture is set up as it is:",
            "[connector.md](connector.md).",
            "",
            "## What to know of the tables",
            "",
            *[f"- {note}" for note in notes(seen)],
            "",
        ]
    )


def _connector_text(seen: Seen, told: Sequence[Choice]) -> str:
    rows = [f"| `{one.option}` | `{one.value}` | {one.why} |" for one in told]
    return "\n".join(
        [
            "# connector.json, and why",
            "",
            (
                f"Of the database `{seen.server.database}`, PostgreSQL {seen.server.version}. All options:"
                " docs/debezium-compatibility.md in Tidings' repository."
            ),
            "",
            "| Option | Value | Why |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _values(seen: Seen, told: Sequence[Choice]) -> dict[str, str]:
    server = seen.server
    literal = {
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.dbname": server.database,
    }
    lines = [f"      {one.option}: {json.dumps(literal.get(one.option, one.value))}" for one in told]
    return {
        "name": seen.name,
        "package": seen.package,
        "host": _quoted(server.host),
        "port": str(server.port),
        "database": _quoted(server.database),
        "user": _quoted(server.user),
        "container_host": "host.docker.internal" if server.host in _HERE else server.host,
        "connector": "\n".join(lines),
    }


def _quoted(text: str) -> str:
    """A value as a shell and docker compose both read it."""
    return text if _PLAIN.fullmatch(text) else '"' + re.sub(r'(["\\$`])', r"\\\1", text) + '"'


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = resources("tidings_cli.project").joinpath("templates", template).read_text("utf-8")
    return re.sub(r"@\{(\w+)\}", lambda found: values[found[1]], text)
