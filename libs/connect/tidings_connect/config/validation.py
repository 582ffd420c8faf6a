"""Checks a connector's configuration before it is stored: Kafka Connect's validate."""

from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from tidings_connect.config.definitions import (
    PLUGIN_VERSION,
    chain_definitions,
    connector_definitions,
    converter_definitions,
    groups,
    recommended,
    with_converters,
)
from tidings_connect.config.exactly_once import DISABLED, preflight
from tidings_connect.config.option import Definition
from tidings_connect.config.plugins import connectors, find_connector, plugins
from tidings_connect.config.providers import ConfigProviders
from tidings_connect.config.secrets import hidden_texts, masked, masked_names, passwords, secret_options
from tidings_connect.config.tasks import TASKS_MAX, task_count_problem
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.connector import CANNOT_CONNECT, Connector, Findings
from tidings_connect.converters.encoding import JSON_CONVERTER, make_converter
from tidings_connect.converters.options import ConverterError
from tidings_connect.converters.plain import writes_rows
from tidings_connect.errors import OptionError
from tidings_connect.limits import limited
from tidings_connect.threads import VALIDATION, Places
from tidings_service import without_secrets

Options = Mapping[str, str | None]
"""A configuration as it comes in; null is a value that is not given."""
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_NOT_UNDERSTOOD = ("Not a number of type", "could not be found", "Expected value to be either")
_HIDDEN: Final = frozenset({"schema.exclude.list", "gtid.source.excludes", "schema.history.internal"})
"""Options that Debezium hides."""
_AT_A_SERVER: Final = Places(2)

P = ParamSpec("P")
T = TypeVar("T")
_NULL = "Null value can not be supplied as the configuration value."


def require_connector_class(config: Options) -> None:
    """Refuse a configuration whose connector cannot be told, or is none of this worker's.

    Raises:
        OptionError: in Kafka Connect's words.
    """
    name = config.get("connector.class")
    if name is None:
        raise OptionError(f"Connector config {_java_map(config)} contains no connector type")
    if find_connector(name) is None:
        raise OptionError(_no_class(name))


def _no_class(name: str) -> str:
    known = ", ".join(
        f"PluginDesc{{klass=class {c.class_name}, name='{c.class_name}', version='{c.version}', "
        f"encodedVersion={c.version}, type={c.kind}, typeName='{c.kind}', location='classpath'}}"
        for c in connectors().values()
    )
    return (
        f"Failed to find any class that implements Connector and which name matches {name}, available connectors "
        f"are: {known}"
    )


def given(config: Options) -> dict[str, str]:
    """The options that have a value."""
    return {name: value for name, value in config.items() if value is not None}


async def in_turn(config: Options, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a check of a configuration returns, from a thread; only two ask the same server at a time."""
    connector = find_connector(config.get("connector.class"))
    place = "" if connector is None else connector.place(config)
    async with _AT_A_SERVER.at(place):
        return await VALIDATION.run(check, *args, **kwargs)


def validate_for(worker: WorkerConfig, config: Options) -> Findings:
    """As `validate`, on a worker."""
    with limited(worker.limits):
        return validate(config, worker.providers, worker.exactly_once)


def validate(config: Options, providers: ConfigProviders, exactly_once: str = DISABLED) -> Findings:
    """What is wrong with a configuration, and what it would do. Asks the database when the options allow; blocks for
    seconds at most.

    Args:
        providers: what resolves the references to secrets that may stand in `config`.
        exactly_once: the worker's ``exactly.once.source.support``.
    """
    options = given(config)
    problems = providers.problems(options)
    for name in secret_options(options):
        missing = providers.missing(options[name])
        if missing is not None:
            # As a password its text would only be refused by whoever it is for, without a word of the reason.
            problems[name] = [
                f"{name} refers to {missing}, which config.providers of the worker does not name"
            ]
    if problems:
        return Findings(problems)
    connector = find_connector(options.get("connector.class"))
    if connector is None:
        return Findings({"connector.class": [_no_class(options.get("connector.class", ""))]})
    unresolved, options = options, providers.resolve(options)
    problems = _problems(connector, config, options, exactly_once)
    found = Findings(problems) if problems else connector.examine(options)
    references = providers.references(unresolved)
    hidden = {**hidden_texts(options), **references, **masked_names(options)}
    return Findings(
        without_values(found.problems, unresolved, options, references),
        tuple(without_secrets(text, hidden) for text in found.warnings),
    )


def _problems(
    connector: Connector, config: Options, options: dict[str, str], exactly_once: str
) -> dict[str, list[str]]:
    problems = connector.problems(options)
    own = _framework_problems(connector, options), preflight(options, exactly_once)
    for name, found in (item for problems_of in own for item in problems_of.items()):
        problems.setdefault(name, []).extend(found)
    known = connector_definitions(connector)
    for name in config.keys() - options.keys():
        if name not in known or known[name].of_framework:
            problems.setdefault(name, []).append(_NULL)
    if not problems and (too_many := task_count_problem(options)) is not None:
        problems[TASKS_MAX] = [too_many]
    return problems


def without_values(
    problems: Mapping[str, list[str]],
    unresolved: Mapping[str, str],
    options: Mapping[str, str],
    references: Mapping[str, str],
) -> dict[str, list[str]]:
    """Problems in words that tell no secret: an answer goes to whoever wrote the configuration.

    What is wrong with a value that a provider gave is not said, because the words would quote it, or parts of it.
    """
    hidden = {**hidden_texts(options), **references}
    names = masked_names(options)
    found = {}
    for name, texts in problems.items():
        given_by = unresolved[name] if options.get(name) != unresolved.get(name) else None
        found[names.get(name, name)] = [
            _without_value(name, text, given_by, {**hidden, **names}) for text in texts
        ]
    return found


def _without_value(name: str, text: str, given_by: str | None, hidden: Mapping[str, str]) -> str:
    if given_by is not None and not text.startswith(CANNOT_CONNECT):
        return f"{name}: what {given_by} gives is not a value of this option; it is not shown"
    return without_secrets(text, hidden)


def _framework_problems(connector: Connector, options: Mapping[str, str]) -> dict[str, list[str]]:
    """What Kafka Connect itself finds wrong: the connector's name, and classes that there are not."""
    problems: dict[str, list[str]] = {}
    if "name" not in options:
        problems["name"] = ['Missing required configuration "name" which has no default value.']
    elif not options["name"].strip():
        problems["name"] = ["Invalid value  for configuration name: String may not be empty"]
    for option in _CONVERTERS:
        kind = "header_converter" if option == "header.converter" else "converter"
        classes = {plugin.class_name for plugin in plugins() if plugin.kind == kind}
        if option in options and options[option] not in classes:
            text = f"Class {options[option]} could not be found."
            problems[option] = [f"Invalid value {options[option]} for configuration {option}: {text}"]
        elif option in options and connector.writes_rows and not writes_rows(options[option]):
            problems[option] = [
                f"{option}={options[option]} cannot write rows: use a JsonConverter or an AvroConverter"
            ]
        elif options.get(option) == JSON_CONVERTER:
            try:
                make_converter(options, is_key=option == "key.converter")
            except ConverterError as error:
                problems[option] = [f"{error}"]
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
    config: Options, problems: Mapping[str, list[str]], converters: Mapping[str, str]
) -> dict[str, Any]:
    """The body of ``PUT /connector-plugins/{plugin}/config/validate``: each option's definition, value and problems.

    Args:
        problems: what `validate` has found.
        converters: the worker's own, by property.
    """
    options = given(config)
    connector = find_connector(options["connector.class"])
    assert connector is not None  # `require_connector_class` was called
    of_connector = connector_definitions(connector)
    named = {name: value for name, value in options.items() if name in _CONVERTERS}
    known = [
        with_converters(d, {**converters, **(named if d.name.endswith(PLUGIN_VERSION) else {})})
        for d in of_connector.values()
    ]
    definitions = [d for d in known if d.of_framework] + chain_definitions(options)
    definitions += [d for d in known if not d.of_framework] + converter_definitions(options)
    names = {definition.name for definition in definitions}
    others = [name for name in problems if name not in names]
    secret = passwords(options)
    shown = [
        {
            "definition": None
            if definition is None
            else definition.shown(connector.documentation(definition.name)),
            "value": {
                "name": name,
                "value": None
                if definition is None or name in secret
                else _value(
                    definition,
                    options,
                    problems.get(name, []),
                    own=name in of_connector and not connector.shows_values,
                ),
                "recommended_values": [] if definition is None else recommended(definition, connector),
                "errors": problems.get(name, []),
                "visible": name not in _HIDDEN and not _is_of_unknown(definition),
            },
        }
        for name, definition in [
            *((d.name, d) for d in definitions),
            *((name, _of(name, connector)) for name in others),
        ]
    ]
    return {
        "name": options["connector.class"],
        "error_count": sum(len(found) for found in problems.values()),
        "groups": groups(options, connector),
        "configs": shown,
    }


def _is_of_unknown(definition: Definition | None) -> bool:
    """Whether it is the version of a class that there is not."""
    return (
        definition is not None
        and definition.name.endswith(f"converter{PLUGIN_VERSION}")
        and definition.default_value is None
    )


def _value(
    definition: Definition, options: Mapping[str, str], problems: list[str], *, own: bool
) -> str | None:
    """A framework's or plugin's option with its default, none where it cannot be understood; Debezium says no values of
    its own.

    Args:
        own: it is the connector's, which says none.
    """
    name = definition.name
    if any(text in problem for text in _NOT_UNDERSTOOD for problem in problems):
        return None
    if name.endswith(".converter.converter.type"):
        return name.partition(".")[0]
    if own and not definition.of_framework:
        return None
    return options[name].strip() if name in options else definition.default_value


def _of(name: str, connector: Connector) -> Definition | None:
    """Of an option that is known here but not listed by Debezium."""
    option = connector.options.get(name)
    if option is None:
        return None
    return Definition(name, "STRING", option.required, option.default, "MEDIUM", None, -1, "MEDIUM", name)


def _java_map(config: Options) -> str:
    shown = masked({key: "null" if value is None else value for key, value in config.items()})
    return "{" + ", ".join(f"{key}={value}" for key, value in shown.items()) + "}"
