"""Writes the page of the REST API: ``python -m tidings_connect.rest.page docs/rest.md``.

The paths and methods are those that the application serves; one that lacks its meaning here, or a meaning without its path, fails.
With ``--check`` it writes nothing and fails when the page is not what the code says.
"""

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Final, cast

from tidings_connect.config.worker_properties import read_worker_config
from tidings_connect.herder.herder import Herder
from tidings_connect.rest.api import RestApi
from tidings_connect.rest.routing import ENDPOINTS
from tidings_service.generated import page_command

_COMMAND: Final = "python -m tidings_connect.rest.page"
_HEAD: Final = """# The REST API

<!-- Generated from the code: .venv/bin/python -m tidings_connect.rest.page docs/rest.md -->

What a capture worker answers at its `listeners` (port 8083). It is Kafka Connect 4.3's, with its bodies, status codes and messages; what
is marked *ours* is not in Kafka Connect. Bodies are JSON. Any worker of a group takes any request and passes it on to the one whom it
concerns. [Operations](operations.md#capture-rest-api) has examples.

An error is answered with `{"error_code": 404, "message": "..."}`: 400 a configuration that is refused, 404 a connector, task or plugin
that is not there, 405, 406, 415 the wrong method or media type, 409 while the group has no leader or shares out its work anew (try again),
413 a body that is too large, 500 what nobody expected, 503 while the worker starts.

| Method | Path | What it does |
|---|---|---|
"""
_TAIL: Final = """
HEAD is answered as GET without its body, OPTIONS with the methods of a path. With `admin.listeners` the paths below `/admin` are there
instead.

## Every service

`tidings capture` serves these beside its REST API, the sequencer at port 8091, the translator at 8092, the
lakehouse at 8093 (`TIDINGS_HTTP_HOST`, `TIDINGS_HTTP_PORT`: [settings](settings.md)).

| Method | Path | What it answers |
|---|---|---|
| GET | `/metrics` | [metrics](metrics.md) in Prometheus' format, or OpenMetrics where it is asked for |
| GET | `/healthz` | 200 while the process gets on; 503 with the loop that stands still: start it again |
| GET | `/readyz` | 200 when it does its work; 503 with what it waits for |
| GET | `/tables` | of the lakehouse: rows by table |
"""
_N: Final = "/connectors/{name}"
_T: Final = f"{_N}/tasks/{{task}}"
_P: Final = "/connector-plugins"
MEANINGS: Final[dict[tuple[str, str], str]] = {
    ("GET", "/"): "version, commit, and the id of Kafka's cluster",
    ("GET", "/health"): "200 when the worker takes requests, 503 while it starts",
    (
        "GET",
        "/connectors",
    ): "names; with `?expand=status`, `?expand=info` or both, an object with these of each",
    (
        "POST",
        "/connectors",
    ): "create one: `name`, `config`, and `initial_state` (`RUNNING`, `PAUSED` or `STOPPED`); 201, or 409 where it is there",
    ("GET", _N): "configuration and tasks",
    (
        "DELETE",
        _N,
    ): "delete it; 204. Its slot and publication stay unless `slot.drop.on.stop=true`; the log names them",
    ("GET", f"{_N}/config"): "its configuration, secrets masked",
    ("PUT", f"{_N}/config"): "create it, or replace its configuration as a whole; 201 or 200",
    ("PATCH", f"{_N}/config"): "change single options; null removes one",
    (
        "GET",
        f"{_N}/status",
    ): "state, worker and, where it has failed, `trace` of the connector and of each task",
    (
        "POST",
        f"{_N}/restart",
    ): "start it again: 204; with `?includeTasks=true`, and `&onlyFailed=true`, its tasks, too: 202 with the plan",
    ("PUT", f"{_N}/pause"): "tasks stay and do nothing; 202",
    ("PUT", f"{_N}/resume"): "go on, from paused or stopped; 202",
    ("PUT", f"{_N}/stop"): "end its tasks and keep its configuration; 204. Offsets can be altered then",
    ("GET", f"{_N}/tasks"): "its tasks with their configurations",
    ("POST", f"{_N}/tasks"): "for Kafka Connect's own workers only: refused",
    ("PUT", f"{_N}/fence"): "for Kafka Connect's own workers only: refused",
    ("GET", f"{_T}/status"): "state, worker and `trace` of one task",
    ("POST", f"{_T}/restart"): "start one task again; 204",
    ("GET", f"{_N}/topics"): "the topics that it has written to",
    ("PUT", f"{_N}/topics/reset"): "forget them",
    ("GET", f"{_N}/offsets"): "how far it has come",
    (
        "PATCH",
        f"{_N}/offsets",
    ): 'of a stopped connector: set single offsets, `{"offsets": [{"partition": {...}, "offset": {...}}]}`',
    ("DELETE", f"{_N}/offsets"): "of a stopped connector: forget them; it begins as its `snapshot.mode` says",
    ("GET", f"{_N}/snapshot"): "*ours*: how far the running or the last snapshot is, by table",
    (
        "POST",
        f"{_N}/signals",
    ): '*ours*: a signal of Debezium\'s, `{"id", "type", "data"}`, without a table for it; 202',
    (
        "DELETE",
        f"{_N}/slot",
    ): "*ours*: drop the replication slot of a stopped connector; 204, also where there is none",
    (
        "GET",
        _P,
    ): "the classes of connectors; with `?connectorsOnly=false` transforms, predicates and converters, too",
    ("GET", f"{_P}/{{plugin}}/config"): "the options of a class, as Kafka Connect defines options",
    (
        "PUT",
        f"{_P}/{{plugin}}/config/validate",
    ): "what is wrong with a configuration, by option; nothing is stored",
    ("GET", "/admin/loggers"): "the log levels that were set",
    ("GET", "/admin/loggers/{logger}"): "the level of one",
    (
        "PUT",
        "/admin/loggers/{logger}",
    ): 'set it, `{"level": "DEBUG"}`; with `?scope=cluster` on every worker of the group',
}
"""What each method of each path does."""


class IncompletePageError(Exception):
    """A path lacks its meaning, or a meaning its path."""


def served() -> list[tuple[str, str]]:
    """Methods and paths, in the order in which they are added."""
    worker = read_worker_config({"bootstrap.servers": "localhost:9092", "group.id": "page", **_STORES})
    herder = SimpleNamespace(worker=worker, log_levels=None, set_cluster_log_level=None)
    found = RestApi(cast(Herder, herder)).application()[ENDPOINTS]
    return [(method, path) for path, methods in found.items() for method in methods]


def page() -> str:
    """The whole page.

    Raises:
        IncompletePageError: `MEANINGS` are not those of what is served.
    """
    endpoints = served()
    if wrong := sorted(set(endpoints) ^ MEANINGS.keys()):
        raise IncompletePageError(f"MEANINGS and what is served differ: {wrong}")
    rows = "".join(f"| {method} | `{path}` | {MEANINGS[method, path]} |\n" for method, path in endpoints)
    return f"{_HEAD}{rows}{_TAIL}"


_STORES: Final = {
    **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    return page_command(_COMMAND, lambda _path: page(), arguments)


if __name__ == "__main__":
    sys.exit(main())
