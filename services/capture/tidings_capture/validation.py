"""Checks a connector's configuration before it is stored: Kafka Connect's validate, with Debezium's connection test."""

from collections.abc import Mapping
from typing import Any

from tidings_capture.config_providers import ConfigProviders
from tidings_capture.connector_config import read_endpoint
from tidings_capture.errors import CaptureError, PostgresError
from tidings_capture.exactly_once import DISABLED, preflight
from tidings_capture.options import OPTIONS, Option, check_options, passwords, secret_options
from tidings_capture.postgres import Session
from tidings_capture.preparation import check_server

_TYPES = {
    "int": "INT",
    "long": "LONG",
    "boolean": "BOOLEAN",
    "list": "LIST",
    "class": "CLASS",
    "password": "PASSWORD",
}
_OPTION_OF_SQLSTATE = {"28": "database.user", "3D": "database.dbname"}


def validate(
    config: Mapping[str, str], providers: ConfigProviders, exactly_once: str = DISABLED
) -> dict[str, list[str]]:
    """What is wrong, by option. Asks the database when the options allow; blocks for seconds at most.

    Args:
        providers: what resolves the references to secrets that may stand in `config`.
        exactly_once: the worker's ``exactly.once.source.support``.
    """
    problems = providers.problems(config)
    for name in secret_options(config):
        missing = providers.missing(config[name])
        if missing is not None:
            # As a password its text would only be refused by whoever it is for, without a word of the reason.
            problems[name] = [
                f"{name} refers to {missing}, which config.providers of the worker does not name"
            ]
    if problems:
        return problems
    config = providers.resolve(config)
    problems = check_options(config)
    for name, found in preflight(config, exactly_once).items():
        problems.setdefault(name, []).extend(found)
    if not problems:
        try:
            session = Session(read_endpoint(config))
            try:
                check_server(session)
            finally:
                session.close()
        except PostgresError as error:
            option = _OPTION_OF_SQLSTATE.get((error.sqlstate or "")[:2], "database.hostname")
            problems[option] = [f"{error}"]
        except CaptureError as error:
            problems["database.hostname"] = [f"{error}" + (f" ({error.hint})" if error.hint else "")]
    return problems


def invalid_message(problems: Mapping[str, list[str]]) -> str:
    """The text Kafka Connect answers an invalid configuration with."""
    texts = [text for found in problems.values() for text in found]
    return (
        f"Connector configuration is invalid and contains the following {len(texts)} error(s):\n"
        + "\n".join(texts)
        + "\nYou can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


def validation_report(
    plugin: str, config: Mapping[str, str], problems: Mapping[str, list[str]]
) -> dict[str, Any]:
    """The body of ``PUT /connector-plugins/{plugin}/config/validate``."""
    secret = passwords(config)
    names = [*OPTIONS, *(name for name in {**config, **problems} if name not in OPTIONS)]
    return {
        "name": plugin,
        "error_count": sum(len(found) for found in problems.values()),
        "groups": [],
        "configs": [
            {
                "definition": _definition(OPTIONS.get(name, Option(name))),
                "value": {
                    "name": name,
                    "value": None
                    if name in secret
                    else config.get(name, OPTIONS.get(name, Option(name)).default),
                    "recommended_values": list(OPTIONS[name].values) if name in OPTIONS else [],
                    "errors": problems.get(name, []),
                    "visible": True,
                },
            }
            for name in names
        ],
    }


def _definition(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": _TYPES.get(option.kind, "STRING"),
        "required": option.required,
        "default_value": option.default,
        "importance": "HIGH" if option.required else "MEDIUM",
        "documentation": option.documentation,
        "group": None,
        "width": "MEDIUM",
        "display_name": option.name,
        "dependents": [],
        "order": -1,
    }
