"""A project's settings: `[tool.tidings]` in pyproject.toml, `.env`, and the environment, which counts more."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from tidings_connect.java.properties import load_properties
from tidings_envelope.base_errors import SettingsError


@dataclass(frozen=True, slots=True)
class Project:
    """What a directory says.

    Attributes:
        domain: the Python package.
        source: the technical topics' first word.
        given: the TIDINGS_* settings that have a value.
    """

    directory: Path
    domain: str
    source: str
    connector: Path
    worker: Path
    given: Mapping[str, str]

    @property
    def state(self) -> Path:
        """For what outlives a run."""
        return self.directory / ".tidings"

    @property
    def run(self) -> Path:
        """For what ends with a run; one that was killed leaves it to the next."""
        return self.state / "run"

    @property
    def settings(self) -> Path:
        """A file for shells, with a run's addresses."""
        return self.state / "settings.sh"

    def offsets_topic(self) -> str | None:
        """Where the worker keeps its offsets; None where its properties do not name it here.

        Raises:
            WorkerConfigError: they cannot be read.
        """
        topic = load_properties(self.worker).get("offset.storage.topic", "")
        return topic if topic and "$" not in topic else None


def read_project(directory: Path) -> Project:
    """The project in a directory.

    Raises:
        SettingsError: it holds none, or what it names is not there.
    """
    path = directory / "pyproject.toml"
    if not path.is_file():
        raise SettingsError(
            f"{directory} is not a project: it has no pyproject.toml",
            hint="tidings init postgresql://... writes one",
        )
    table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("tidings", {})
    missing = [
        name for name in ("domain", "source", "connector", "worker") if not isinstance(table.get(name), str)
    ]
    if missing:
        raise SettingsError(
            f"{path}: [tool.tidings] lacks {', '.join(missing)}",
            hint="domain is the package, source the topic.prefix; connector and worker are files",
        )
    connector, worker = directory / table["connector"], directory / table["worker"]
    for file in (connector, worker):
        if not file.is_file():
            raise SettingsError(f"{path}: there is no {file}")
    values = {**dotenv_values(directory / ".env"), **os.environ}
    given = {name: value for name, value in values.items() if name.startswith("TIDINGS_") and value}
    return Project(directory, table["domain"], table["source"], connector, worker, given)
