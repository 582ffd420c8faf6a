"""Record the definitions of connectors, transforms and converters from a real Kafka Connect with Debezium.

    .venv/bin/python scripts/record_connect_definitions.py http://127.0.0.1:8083

Writes what ``/connector-plugins`` says of names, types, defaults, groups and recommended values, without its texts, into
``libs/connect/tidings_connect/config/definitions.json`` (what every connector has, transforms and converters; where PostgreSQL's
connector is there) and into a file for each connector of ours that is there (its own options);
``tests/conformance/rest/`` compares them with the real thing.
"""

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_capture.postgres.settings.option_table import CONNECTOR_CLASS
from tidings_connect.config.option import FRAMEWORK_GROUPS
from tidings_connect.config.plugins import plugins

_ROOT = Path(__file__).parents[1]
_OF_FRAMEWORK = _ROOT / "libs/connect/tidings_connect/config/definitions.json"
_CAPTURE = _ROOT / "services/capture/tidings_capture"
_OF_CONNECTORS = {
    CONNECTOR_CLASS: _CAPTURE / "postgres/settings/connect_definitions.json",
    MariaDbConnector.class_name: _CAPTURE / "mysql/settings/mariadb_definitions.json",
    MySqlConnector.class_name: _CAPTURE / "mysql/settings/mysql_definitions.json",
}
_GROUP = 5


def main(url: str) -> None:
    """Ask the server at `url` and write the files."""
    shown = _ask(f"{url}/connector-plugins?connectorsOnly=false")
    known = {plugin["class"]: plugin.get("version") for plugin in shown}
    for name, file in _OF_CONNECTORS.items():
        if name in known:
            _record(file, validated := _validated(url, name))
            if name == CONNECTOR_CLASS:
                _record_framework(url, validated, known)


def _validated(url: str, name: str) -> dict[str, Any]:
    config = {"connector.class": name, "name": "x", "topic.prefix": "x"}
    found: dict[str, Any] = _ask(f"{url}/connector-plugins/{name}/config/validate", config)
    return found


def _record(file: Path, validated: dict[str, Any]) -> None:
    """A connector's own options."""
    recommended = {
        entry["value"]["name"]: entry["value"]["recommended_values"]
        for entry in validated["configs"]
        if entry["definition"]["group"] not in {"Common", "Transforms", "Predicates"}
    }
    facts = [_fact(entry["definition"]) for entry in validated["configs"]]
    own = [fact for fact in facts if fact[_GROUP] not in FRAMEWORK_GROUPS]
    groups = [group for group in validated["groups"] if group not in FRAMEWORK_GROUPS]
    _write(
        file,
        f'"groups": {json.dumps(groups)}',
        f'"recommended": {json.dumps({name: v for name, v in recommended.items() if v})}',
        f'"connector": [\n{_rows(own)}\n]',
    )


def _record_framework(url: str, validated: dict[str, Any], known: Collection[str]) -> None:
    """What every connector has, and transforms and converters."""
    found = {
        plugin.class_name: [
            _fact(d) for d in _ask(f"{url}/connector-plugins/{urllib.parse.quote(plugin.class_name)}/config")
        ]
        for plugin in plugins()
        if plugin.class_name in known and plugin.connector is None
    }
    facts = [_fact(entry["definition"]) for entry in validated["configs"]]
    of_framework = [fact for fact in facts if fact[_GROUP] in FRAMEWORK_GROUPS]
    groups = [group for group in validated["groups"] if group in FRAMEWORK_GROUPS]
    _write(
        _OF_FRAMEWORK,
        f'"groups": {json.dumps(groups)}',
        f'"framework": [\n{_rows(of_framework)}\n]',
        *(f'"{name}": [\n{_rows(facts)}\n]' for name, facts in found.items()),
    )


def _write(path: Path, *parts: str) -> None:
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _fact(definition: dict[str, Any]) -> list[Any]:
    names = [
        "name",
        "type",
        "required",
        "default_value",
        "importance",
        "group",
        "order_in_group",
        "width",
        "display_name",
        "dependents",
    ]
    return [definition[name] for name in names]


def _rows(facts: list[list[Any]]) -> str:
    return ",\n".join(json.dumps(fact, ensure_ascii=False) for fact in facts)


def _ask(url: str, body: dict[str, str] | None = None) -> Any:
    request = urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        method="GET" if body is None else "PUT",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
