"""The command ``tidings doctor``.

Exit codes: 0 nothing worse than a warning was found (with ``--strict``: nothing at all), 1 the files cannot be read, 2 wrong
usage, 3 something was found.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tidings_capture.postgres.client import read_url
from tidings_capture.postgres.settings.config import ConnectorConfig, read_connector_config
from tidings_cli.doctor import database, kafka, registry, sinks
from tidings_cli.doctor.findings import ERROR, Finding, as_dict, as_text, error, warning
from tidings_connect.config.exactly_once import DISABLED
from tidings_connect.config.providers import read_config_providers
from tidings_connect.config.validation import validate
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.data.sizes import parse_size
from tidings_connect.herder.files import read_connector_file
from tidings_connect.java.properties import load_properties
from tidings_service import TidingsError, configure_logging, load_settings, print_error
from tidings_service.kafka_settings import KafkaSettings
from tidings_service.registry_settings import RegistrySettings

_FOUND: Final = 3
_MOST_IDLE_SECONDS: Final = 86_400.0
_ENVIRONMENT: Final = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
"""Without a worker's file, `${env:NAME}` in a connector's is a variable of whoever asks."""


def main(arguments: Sequence[str]) -> int:
    """The command; its exit code."""
    given = parser().parse_args(arguments)
    if not any((given.url, given.connector, given.worker, given.kafka, given.registry, given.lakehouse)):
        parser().error(
            "nothing to look at: give a database's URL, --connector, --worker, --kafka, --registry or --lakehouse"
        )
    if given.sinks and given.worker is None:
        parser().error("--sinks asks the worker: give its properties with --worker")
    configure_logging("doctor", level="ERROR")  # standard output is the report's
    try:
        findings, checked = examine(given)
    except TidingsError as problem:
        return print_error(problem)
    if given.json:
        print(json.dumps(as_dict(findings, checked), indent=2))
    else:
        print(as_text(findings, checked), end="")
    bad = [one for one in findings if given.strict or one.severity == ERROR]
    return _FOUND if bad else 0


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    options = argparse.ArgumentParser(
        prog="tidings doctor",
        description="Look at a real surrounding, before the start and after, and say what is wrong, why it matters, and the "
        "statement that mends it. It changes nothing. Exit code 3 when something is wrong.",
    )
    options.add_argument(
        "url", nargs="?", help="postgresql://user:password@host/database; not needed with --connector"
    )
    options.add_argument(
        "--connector",
        type=Path,
        metavar="FILE",
        help="the connector's JSON or properties: its tables, publication, slot; of a sink the system that it writes to",
    )
    options.add_argument(
        "--worker",
        type=Path,
        metavar="FILE",
        help="the worker's properties: Kafka with its credentials, its topics, secrets",
    )
    options.add_argument(
        "--sinks", action="store_true",
        help="the systems of all sinks that the worker runs, at the address in its properties on this machine; needs --worker",
    )  # fmt: skip
    options.add_argument(
        "--url-of-worker", metavar="URL", dest="rest", help="another address of it, for --sinks"
    )
    options.add_argument(
        "--kafka",
        metavar="HOST:PORT",
        default=_given("TIDINGS_KAFKA"),
        help="without --worker (default: TIDINGS_KAFKA); its login and TLS are TIDINGS_KAFKA_*",
    )
    options.add_argument(
        "--source", metavar="PREFIX", default=_given("TIDINGS_SOURCE"),
        help="the topic prefix, without --connector (default: TIDINGS_SOURCE)",
    )  # fmt: skip
    options.add_argument(
        "--registry",
        metavar="URL",
        default=_given("TIDINGS_REGISTRY"),
        help="that of the stages (default: TIDINGS_REGISTRY); its login and TLS are TIDINGS_REGISTRY_*",
    )
    options.add_argument(
        "--lakehouse", metavar="WAREHOUSE", default=_given("TIDINGS_LAKEHOUSE_WAREHOUSE"),
        help="the warehouse, a directory or a bucket's URI (default: TIDINGS_LAKEHOUSE_WAREHOUSE); with its catalog, as"
        " TIDINGS_LAKEHOUSE_* say",
    )  # fmt: skip
    options.add_argument(
        "--retained", type=_size, default=parse_size("1GB"), metavar="SIZE",
        help="tell of an unused slot that retains more WAL (default: 1GB)",
    )  # fmt: skip
    options.add_argument(
        "--idle", type=_seconds, default=0.0, metavar="SECONDS",
        help="keep a session of the database silent for so long, and tell whether something on the way has ended it (default: 0)",
    )  # fmt: skip
    options.add_argument("--strict", action="store_true", help="exit code 3 for warnings, too")
    options.add_argument("--json", action="store_true", help="one JSON object")
    return options


def _given(name: str) -> str | None:
    """A setting that has a value: an empty one, as in a project's .env, is none."""
    return os.environ.get(name) or None


def examine(given: argparse.Namespace) -> tuple[list[Finding], list[str]]:
    """What was found, and what was looked at.

    Raises:
        TidingsError: a file or an address cannot be read.
    """
    findings: list[Finding] = []
    checked: list[str] = []
    worker = None if given.worker is None else read_worker_config(load_properties(given.worker))
    config, prefix = None, given.source
    if given.connector is not None:
        checked.append("connector")
        config = _connector(given.connector, worker, findings)
        prefix = prefix if config is None else config.topic_prefix
    if config is not None or given.url is not None:
        checked.append("database")
        endpoint = config.endpoint if config is not None else read_url(given.url)
        findings += database.look_at_database(database.Look(endpoint, config, given.retained, given.idle))
    if worker is not None and given.sinks:
        checked.append("sinks")
        findings += sinks.look_at_running(given.rest, worker)
    if worker is not None or given.kafka is not None:
        checked.append("kafka")
        findings += kafka.look_at_kafka(_kafka(given.kafka, worker, prefix))
    if given.registry is not None or worker is not None:
        checked.append("registry")
        findings += _registries(given.registry, worker)
    if given.lakehouse is not None:
        checked.append("lake")
        findings += _lake(given.lakehouse)
    return findings, checked


def _connector(path: Path, worker: WorkerConfig | None, findings: list[Finding]) -> ConnectorConfig | None:
    """The connector as capture reads it; what capture would refuse is added to the findings."""
    file = read_connector_file(path)
    options: dict[str, str | None] = {**file.config, "name": file.name}
    providers = read_config_providers(_ENVIRONMENT) if worker is None else worker.providers
    problems = validate(options, providers, DISABLED if worker is None else worker.exactly_once).problems
    # That the server does not answer, or not as it must, is the database's business, which asks more.
    own = {name: texts for name, texts in problems.items() if not _is_of_server(texts)}
    for name, texts in own.items():
        findings += [
            error(
                "connector",
                "option",
                f"{name}: {text}",
                "a worker refuses the connector",
                f"correct {name} in {path}",
            )
            for text in texts
        ]
    if own:
        return None
    resolved = providers.resolve({name: value for name, value in options.items() if value is not None})
    if sinks.sink_of(resolved) is not None:
        findings += sinks.look_at_sink(file.name, resolved)
        return None
    if resolved.get("provide.transaction.metadata", "false").strip().lower() != "true":
        findings.append(
            warning(
                "connector", "no-transactions", "provide.transaction.metadata is not true",
                "business events cannot be derived from whole transactions", "provide.transaction.metadata=true",
            )
        )  # fmt: skip
    return read_connector_config(file.name, resolved, {} if worker is None else worker.converters, "doctor")


def _is_of_server(texts: Sequence[str]) -> bool:
    return all(text.startswith("Error while validating connector config") for text in texts)


def _kafka(bootstrap: str | None, worker: WorkerConfig | None, prefix: str | None) -> kafka.Look:
    if worker is None:
        access = load_settings(KafkaSettings, kafka=bootstrap).kafka_access
        return kafka.Look(access.librdkafka(), prefix)
    if worker.offset_file is not None:
        return kafka.Look(worker.common_client(), prefix)
    topics = (worker.config_topic, worker.offset_topic, worker.status_topic)
    compacted = {topic.kind: (topic.name, 1 if topic.kind == "config" else None) for topic in topics}
    return kafka.Look(worker.common_client(), prefix, compacted, worker.group_id)


def _registries(url: str | None, worker: WorkerConfig | None) -> list[Finding]:
    findings: list[Finding] = []
    if url is not None:
        findings += registry.look_at_registry(load_settings(RegistrySettings, registry=url).registry_access)
    if worker is not None:
        findings += registry.look_at_converters(worker)
    return findings


def _lake(warehouse: str) -> Iterable[Finding]:
    from tidings_cli.doctor.lake import look_at_lake  # noqa: PLC0415 - only who names a lake needs its packages
    from tidings_lakehouse.settings import WarehouseSettings  # noqa: PLC0415

    return look_at_lake(load_settings(WarehouseSettings, lakehouse_warehouse=warehouse))


def _seconds(text: str) -> float:
    seconds = float(text)  # argparse tells of a ValueError
    if not 0 <= seconds < _MOST_IDLE_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and {_MOST_IDLE_SECONDS:g}")
    return seconds


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{problem}") from problem


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
