"""The database of one comparison: its tables, the changes to them, and what both connectors are told."""

from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tidings_connect.data.records import Record

HERE = Path(__file__).parent


TYPES = (("types.sql", "changes.sql"),)


MORE_TYPES = (("more_types.sql", "more_changes.sql"),)


Records = dict[str, list[Record]]
"""By topic, in order."""


def statements(name: str) -> list[str]:
    """The statements of a file, which end with a semicolon at the end of a line."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    text = "".join(f"{line}\n" for line in lines if not line.startswith("--"))
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


@dataclass
class Scenario:
    """A database for one comparison."""

    url: str
    prefix: str
    options: dict[str, str] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = TYPES
    """Pairs of SQL files: tables, and the changes to them."""

    @property
    def database(self) -> str:
        return str(psycopg.conninfo.conninfo_to_dict(self.url)["dbname"])

    def properties(self) -> dict[str, str]:
        """What both connectors are told."""
        return {
            "topic.prefix": self.prefix,
            "provide.transaction.metadata": "true",
            "skipped.operations": "none",
            **self.options,
        }


def transactions(changes: list[str]) -> int:
    """How many transactions the statements are: those between BEGIN and COMMIT are one."""
    begins = [index for index, statement in enumerate(changes) if statement == "BEGIN"]
    ends = [index for index, statement in enumerate(changes) if statement == "COMMIT"]
    return len(changes) - sum(end - begin for begin, end in zip(begins, ends, strict=True))
