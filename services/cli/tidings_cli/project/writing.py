"""Writes a project's files, again as well as the first time: what somebody has edited or removed stays as it is.

`.tidings-init.json` remembers the hash of each file as it was written, and the tables as they were seen.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tidings_domain.errors import TranslatorError
from tidings_domain.starting.tables import Table

MEMORY: Final = ".tidings-init.json"


class ProjectError(TranslatorError):
    """A project cannot be written."""

    code = "project"


@dataclass(frozen=True, slots=True)
class Memory:
    """What the last run wrote and saw."""

    name: str | None = None
    schemas: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class Written:
    """What a run has done, by path."""

    new: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    """Nobody had edited them, and the database has changed."""
    edited: list[str] = field(default_factory=list)
    """Somebody had, and a run would write them differently today."""


def recall(into: Path) -> Memory:
    """What the last run left.

    Raises:
        ProjectError: the file is not what a run writes.
    """
    path = into / MEMORY
    if not path.exists():
        return Memory()
    try:
        body: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Memory(body["name"], tuple(body["schemas"]), body["files"], body["tables"])
    except (ValueError, KeyError, TypeError) as error:
        raise ProjectError(
            f"{path} cannot be read: {type(error).__name__}",
            hint="take it from version control, or remove it and all that init wrote",
        ) from error


def remember(into: Path, memory: Memory) -> None:
    """Leave it for the next run."""
    body = {
        "name": memory.name,
        "schemas": list(memory.schemas),
        "files": dict(sorted(memory.files.items())),
        "tables": memory.tables,
    }
    (into / MEMORY).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def write(into: Path, files: Mapping[str, str], memory: Memory) -> tuple[Written, dict[str, str]]:
    """Write what is new, and renew what nobody has edited; gives the hashes to remember, too.

    Raises:
        ProjectError: the first run finds a file in its way; nothing was written.
    """
    if not memory.files:
        there = sorted(path for path in files if (into / path).exists())
        if there:
            raise ProjectError(
                f"{', '.join(there)} is there already, and nothing was written", hint="choose another --into"
            )
    done, hashes = Written(), dict(memory.files)
    for path, text in files.items():
        target, digest = into / path, digest_of(text)
        if path not in memory.files:
            if target.exists():
                done.edited.append(path)
                continue
            done.new.append(path)
        elif not target.exists():
            continue  # somebody has removed it
        elif digest_of(target.read_text(encoding="utf-8")) != memory.files[path]:
            if digest != memory.files[path]:
                done.edited.append(path)
            continue
        elif digest == memory.files[path]:
            continue
        else:
            done.renewed.append(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        hashes[path] = digest
    return done, hashes


def digest_of(text: str) -> str:
    """A file's hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def columns_of(tables: Iterable[Table]) -> dict[str, dict[str, str]]:
    """Each table's columns with the annotation that a Row would have."""
    return {
        table.name: {
            column.name: f"{column.kind.python} | None" if column.nullable else column.kind.python
            for column in table.columns
        }
        for table in tables
    }


def differences(before: Mapping[str, Mapping[str, str]], now: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What has changed in the database since the last run, in words."""
    said = [f"new table {name}" for name in now if name not in before]
    said += [f"table {name} is gone" for name in before if name not in now]
    for name in now.keys() & before.keys():
        old, new = before[name], now[name]
        said += [f"new column {name}.{column}: {new[column]}" for column in new if column not in old]
        said += [f"column {name}.{column} is gone" for column in old if column not in new]
        said += [
            f"column {name}.{column} was {old[column]} and is {new[column]}"
            for column in new
            if column in old and old[column] != new[column]
        ]
    return sorted(said)
