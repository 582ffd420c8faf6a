"""Connectors that a standalone worker is started with: one file each, as for Kafka Connect's ``connect-standalone``.

A ``.json`` file holds what is posted to ``/connectors`` (``name``, ``config``, ``initial_state``) or the configuration
itself; every other file is Java properties.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidings_connect.errors import WorkerConfigError
from tidings_connect.java.properties import load_properties


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """What a file asks for."""

    name: str
    config: dict[str, str]
    initial_state: str | None = None
    """``RUNNING``, ``PAUSED`` or ``STOPPED``."""


def read_connector_file(path: Path) -> ConnectorFile:
    """Understand a file.

    Raises:
        WorkerConfigError: it cannot be read, or has no name; names the file.
    """
    state: str | None = None
    if path.suffix == ".json":
        body = _json(path)
        config = body
        if isinstance(body.get("config"), dict):
            config = {"name": body.get("name"), **body["config"]}
            state = body.get("initial_state")
    else:
        config = dict(load_properties(path))
    wrong = sorted(name for name, value in config.items() if isinstance(value, dict | list))
    if wrong:
        raise WorkerConfigError(f"{path}: {', '.join(wrong)} must be text")
    name = config.get("name")
    if not isinstance(name, str) or not name.strip():
        raise WorkerConfigError(f"{path}: name is missing")
    texts = {
        option: value if isinstance(value, str) else json.dumps(value)
        for option, value in config.items()
        if value is not None
    }
    return ConnectorFile(name, texts, state)


def _json(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WorkerConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WorkerConfigError(f"{path} is not JSON") from error
    if not isinstance(body, dict):
        raise WorkerConfigError(f"{path} is not a JSON object")
    return body
