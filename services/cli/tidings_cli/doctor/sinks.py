"""Sink connectors: the systems that they write to, as each kind of sink looks at its own (`SinkConnector.diagnose`)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tidings_cli.doctor.findings import ERROR, Finding, error, warning
from tidings_connect.config.plugins import connector_of
from tidings_connect.config.secrets import MASK
from tidings_connect.config.worker import WorkerConfig
from tidings_connect.rest.client import RestClient, RestError, address_of
from tidings_connect.task.sink import SinkConnector
from tidings_service import TidingsError

_PLACE: Final = "sink"


def sink_of(config: Mapping[str, str]) -> SinkConnector | None:
    """The sink that a configuration is one of."""
    found = connector_of(config)
    return found if isinstance(found, SinkConnector) else None


def look_at_sink(name: str, config: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the system of one sink.

    Args:
        config: without problems, with secrets in place of references to them.
    """
    sink = sink_of(config)
    assert sink is not None
    try:
        for one in sink.diagnose(name, config):
            make = error if one.severity == ERROR else warning
            yield make(_PLACE, one.code, f"{name}: {one.what}", one.why, one.mend)
    except ImportError as problem:
        yield error(
            _PLACE, "not-installed", f"{name}: its client is not installed here ({problem.name})", "the connector's tasks fail",
            "pip install tidings-sinks",
        )  # fmt: skip


def look_at_running(url: str | None, worker: WorkerConfig) -> Iterator[Finding]:
    """What is wrong with the sinks that a worker runs.

    Args:
        url: the worker's REST API; None: where its properties say, on this machine.
    """
    client = RestClient(url or address_of(worker), worker.rest)
    try:
        running = client.connectors()
    except RestError as problem:
        yield error(
            "worker", "unreachable", str(problem), "its sinks cannot be looked at", "start the worker, or correct --url-of-worker"
        )  # fmt: skip
        return
    for name, connector in sorted(running.items()):
        if sink_of(connector.config) is None:
            continue
        if connector.failure is not None:
            yield error(
                _PLACE, "failed", f"{name}: a task has failed: {connector.failure}", "what it reads is not written",
                f"mend what it says, then POST {url or address_of(worker)}/connectors/{name}/restart?includeTasks=true&onlyFailed=true",
            )  # fmt: skip
        yield from _look_with_secrets(name, connector.config, worker)


def _look_with_secrets(name: str, config: Mapping[str, str], worker: WorkerConfig) -> Iterator[Finding]:
    masked: Sequence[str] = sorted(option for option, text in config.items() if text == MASK)
    if masked:
        yield warning(
            _PLACE, "masked", f"{name}: the worker does not show {', '.join(masked)}", "its system cannot be looked at from here",
            "give the connector's file with --connector, or put a reference to the secret in its place (docs/security.md)",
        )  # fmt: skip
        return
    try:
        resolved = worker.providers.resolve(dict(config))
    except TidingsError as problem:
        yield error(
            _PLACE,
            "secret",
            f"{name}: {problem}",
            "the connector's tasks fail",
            problem.hint or "see the message",
        )
        return
    yield from look_at_sink(name, resolved)
