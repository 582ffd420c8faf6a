"""The command ``tidings-capture worker.properties``: a worker like Kafka Connect's, until SIGTERM.

Exit codes: 0 after a stop, 1 when Kafka cannot be reached, 2 for properties that cannot be used.
"""

import argparse
import asyncio
import functools
import socket
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web
from prometheus_client import REGISTRY

import tidings_service.login_metrics  # noqa: F401 - registers the metric
from tidings_connect.config.plugins import connectors
from tidings_connect.config.rest.security import Listener, authentication
from tidings_connect.config.validation import in_turn, invalid_message, require_connector_class, validate
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.errors import OptionError, WorkerConfigError
from tidings_connect.herder.files import ConnectorFile, read_connector_file
from tidings_connect.herder.group_metrics import GroupCollector
from tidings_connect.herder.herder import Herder
from tidings_connect.herder.jobs import worker_secrets
from tidings_connect.herder.metrics import ConnectorCollector
from tidings_connect.herder.rotation import Rotation
from tidings_connect.herder.tagged_collector import TaggedCollector
from tidings_connect.java.properties import load_properties
from tidings_connect.limits import set_limits
from tidings_connect.rest.api import RestApi
from tidings_connect.rest.forwarding import forwarding
from tidings_connect.rest.origins import same_origin
from tidings_connect.series_bounds import SeriesBounds
from tidings_connect.storage.records import INITIAL_STATES, STARTED
from tidings_connect.task.forks import TaskForks
from tidings_service import (
    Health,
    HttpServer,
    ServiceSettings,
    SettingsError,
    TidingsError,
    add_observability,
    configure_logging,
    get_logger,
    hide,
    load_settings,
    report_error,
    run_service,
    serve_application,
    serve_http,
)

_SERVICE = "capture"


def main(arguments: Sequence[str] | None = None, more: str = "") -> int:
    """The command; its exit code.

    Args:
        more: what the help says of other commands.
    """
    given = parser(more).parse_intermixed_args(arguments)
    forks = TaskForks()
    forks.fork()  # before there is a secret, a logger or a thread
    configure_logging(_SERVICE)
    try:
        settings = load_settings(ServiceSettings)
        configure_logging(_SERVICE, level=settings.log_level, format=settings.log_format)
        worker = read_worker_config(load_properties(given.properties))
        if given.connectors and worker.offset_file is None:
            raise WorkerConfigError(
                "connector files are for a standalone worker, and the properties have group.id",
                hint="POST the connector to a distributed worker's /connectors",
            )
        connectors = [read_connector_file(path) for path in given.connectors]
    except TidingsError as error:
        return report_error(error, service=_SERVICE)
    return run_service(functools.partial(run_worker, worker, settings, connectors, forks), service=_SERVICE)


def parser(more: str = "") -> argparse.ArgumentParser:
    """The command's options; see `main`."""
    parser = argparse.ArgumentParser(
        prog="tidings-capture",
        description="A worker that takes connectors over Kafka Connect's REST API.",
        epilog=more,
    )
    parser.add_argument(
        "properties",
        type=Path,
        help="a Kafka Connect worker's .properties file: distributed, or standalone (with "
        "offset.storage.file.filename and without group.id)",
    )
    parser.add_argument(
        "connectors", type=Path, nargs="*", help="of a standalone worker: a .json or .properties file each"
    )
    return parser


async def run_worker(
    worker: WorkerConfig,
    settings: ServiceSettings,
    files: Sequence[ConnectorFile],
    forks: TaskForks,
    stop: asyncio.Event,
) -> int:
    """Run a worker until `stop` is set.

    Args:
        files: the connectors that a standalone worker is started with.
        forks: starts its tasks; closed at the end.

    Raises:
        BrokerError: Kafka cannot be reached.
        SettingsError: the listener's address cannot be used.
    """
    log = get_logger("tidings_capture.worker")
    set_limits(worker.limits)
    hide(worker_secrets(worker))
    for name in worker.unknown:
        log.warning("unknown worker property is ignored", property=name)
    health = Health()
    health.set("kafka", False, "not connected yet")
    log_format = settings.log_format
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    supervisor = Herder(
        worker, _worker_id(worker), health, log_level=settings.log_level, log_format=log_format, forks=forks
    )
    # The listener comes first: a port that is taken must be found before a connector is started.
    servers = await serve_rest(supervisor, health)
    supervisor.worker_id = _worker_id(worker, servers[0].port)
    supervisor.scheme = worker.rest.advertised_scheme
    runs = supervisor.local_tasks.values
    bounds = SeriesBounds(worker.most_topics)
    tagged = TaggedCollector(
        ConnectorCollector(runs, bounds), lambda: [(run.name, run.config) for run in runs()]
    )
    made = [connector.companion(supervisor, bounds) for connector in connectors().values()]
    companions = [companion for companion in made if companion is not None]
    collectors = (
        tagged,
        GroupCollector(supervisor),
        *(collector for companion in companions for collector in companion.collectors),
    )
    for collector in collectors:
        REGISTRY.register(collector)
    pages = await serve_http(health, settings.http_host, settings.http_port) if settings.http_port else None
    try:
        await supervisor.start()
        for connector in files:
            await _create(supervisor, connector)
        log.info("listening", url=servers[0].url)
        loops = [supervisor.run_loop(companion.run(), companion.name) for companion in companions]
        loops.append(supervisor.run_loop(Rotation(worker, supervisor).run(), "secrets"))
        failed = asyncio.create_task(supervisor.failed.wait(), name="failed")
        await asyncio.wait(
            (asyncio.create_task(stop.wait(), name="stop"), failed), return_when=asyncio.FIRST_COMPLETED
        )
        log.info("stopping")
        failed.cancel()
        for loop in loops:
            loop.cancel()
        await supervisor.stop()
        await asyncio.gather(*loops, return_exceptions=True)
    finally:
        if pages is not None:
            await pages.close()
        for collector in collectors:
            REGISTRY.unregister(collector)
        for server in servers:
            await server.close()
        await forks.close()
    return 0 if supervisor.failure is None else report_error(supervisor.failure, service=_SERVICE)


async def _create(supervisor: Herder, connector: ConnectorFile) -> None:
    """Create a connector that a standalone worker is started with.

    Raises:
        OptionError: its configuration is wrong.
    """
    require_connector_class(connector.config)
    found = await in_turn(connector.config, validate, connector.config, supervisor.worker.providers)
    if found.problems:
        raise OptionError(f"connector {connector.name}: {invalid_message(found.problems)}")
    state = INITIAL_STATES.get(connector.initial_state or "RUNNING", STARTED)
    await supervisor.put(connector.name, connector.config, state=state)


async def serve_rest(supervisor: Herder, health: Health) -> list[HttpServer]:
    """Start the REST API, and with ``admin.listeners`` a second server for log levels; the API is the first.

    Raises:
        SettingsError: an address cannot be listened on.
    """
    worker, rest = supervisor.worker, supervisor.worker.rest
    made = RestApi(supervisor)
    api = made.application(loggers=rest.admin_listeners is None)
    api.middlewares.append(forwarding(supervisor, rest.client_tls))
    add_observability(api, health, REGISTRY)
    add_headers = worker.rest_headers.signal()
    if add_headers is not None:
        api.on_response_prepare.append(add_headers)
    applications = [(api, rest.listeners, rest.tls)]
    if rest.admin_listeners:
        applications.append((made.admin_application(), rest.admin_listeners, rest.admin_tls))
    servers: list[HttpServer] = []
    for application, listeners, tls in applications:
        application.middlewares.insert(0, same_origin(worker.rest_headers.origins))
        if rest.users is not None:
            application.middlewares.insert(0, authentication(rest.users))
        try:
            servers.append(await _serve(application, listeners, tls))
        except SettingsError:
            for server in servers:
                await server.close()
            raise
    return servers


async def _serve(
    api: web.Application, listeners: Sequence[Listener], tls: ssl.SSLContext | None
) -> HttpServer:
    first, *others = ((one.host, one.port, tls if one.scheme == "https" else None) for one in listeners)
    server = await serve_application(api, *first)
    try:
        for other in others:
            await server.listen(*other)
    except SettingsError:
        await server.close()
        raise
    return server


def _worker_id(worker: WorkerConfig, port: int | None = None) -> str:
    host = worker.advertised_host or worker.host
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - every address: the one that others are likely to reach it at
        host = _address_towards(worker.bootstrap_servers)
    return f"{host}:{worker.advertised_port or port or worker.port}"


def _address_towards(bootstrap_servers: str) -> str:
    """This machine's address on the way to Kafka; nothing is sent."""
    host, _, port = bootstrap_servers.partition(",")[0].strip().rpartition(":")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()
