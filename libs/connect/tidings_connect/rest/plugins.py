"""The plugin endpoints of Kafka Connect's REST API: which classes there are, what they take, and validation."""

from typing import Any

from aiohttp import web

from tidings_connect.config.definitions import plugin_definitions
from tidings_connect.config.plugins import Plugin, find_plugin, plugins
from tidings_connect.config.validation import (
    in_turn,
    require_connector_class,
    validate_for,
    validation_report,
)
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.errors import ConnectError, NotFoundError
from tidings_connect.rest.answers import json_answer
from tidings_connect.rest.errors import BadRequestError
from tidings_connect.rest.routing import read_json, string_map
from tidings_connect.rest.warnings import warn


class ValidationImpossibleError(ConnectError):
    """A configuration that names no connector which could check it; Kafka Connect answers 500 to it."""

    code = "validation"


async def list_plugins(request: web.Request) -> web.Response:
    """``GET /connector-plugins``."""
    connectors_only = request.query.get("connectorsOnly", "true").lower() == "true"
    shown = [_shown(plugin) for plugin in plugins() if plugin.connector is not None or not connectors_only]
    return json_answer(shown)


async def plugin_config(request: web.Request) -> web.Response:
    """``GET /connector-plugins/{plugin}/config``."""
    name = request.match_info["plugin"]
    plugin = find_plugin(name)
    if plugin is None:
        raise NotFoundError(f"Unknown plugin {name}.")
    return json_answer(
        [
            definition.shown(_documentation(plugin, definition.name))
            for definition in plugin_definitions(plugin)
        ]
    )


async def validate_config(request: web.Request, worker: WorkerConfig) -> web.Response:
    """``PUT /connector-plugins/{plugin}/config/validate``."""
    config = string_map(await read_json(request), "the body")
    plugin, included = request.match_info["plugin"], config.get("connector.class")
    if included is not None and not _without_suffix(included).endswith(_without_suffix(plugin)):
        raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")
    try:
        require_connector_class(config)
    except ConnectError as error:
        raise ValidationImpossibleError(f"{error}") from error
    found = await in_turn(config, validate_for, worker, config)
    report = validation_report(config, found.problems, worker.converters)
    return warn(json_answer(report), found.warnings, config.get("name"))


def _documentation(plugin: Plugin, name: str) -> str:
    return "" if plugin.connector is None else plugin.connector.documentation(name)


def _without_suffix(name: str) -> str:
    short = name.removesuffix("Connector")
    return short or name


def _shown(plugin: Plugin) -> dict[str, Any]:
    shown = {"class": plugin.class_name, "type": plugin.kind}
    return shown if plugin.version is None else {**shown, "version": plugin.version}
