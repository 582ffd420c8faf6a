"""Kafka Connect's REST API: connectors, their configuration, status, tasks, topics and offsets.

Paths, status codes and bodies: Apache Kafka documentation, "Kafka Connect REST API"; what it does not say was observed
on Kafka Connect 4.3.1 (``tests/conformance/rest/test_rest.py`` compares the two). Passwords are masked in answers, unless the worker's properties say
``tidings.rest.secrets=shown``; a configuration that comes back with the mask keeps the stored password. Plugins: `rest.plugins`; log levels:
`rest.loggers`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from tidings_connect.config.plugins import KAFKA_CONNECT_VERSION, kind_of, version_of
from tidings_connect.config.secrets import masked, masked_names
from tidings_connect.config.tasks import task_class_of
from tidings_connect.config.validation import (
    Options,
    given,
    in_turn,
    invalid_message,
    require_connector_class,
    validate_for,
)
from tidings_connect.errors import NotFoundError, OptionError
from tidings_connect.herder.herder import Herder
from tidings_connect.herder.local_task import FAILED
from tidings_connect.herder.remote_task import AnyTask, ConnectorView
from tidings_connect.rest.answers import json_answer
from tidings_connect.rest.bodies import most_bytes
from tidings_connect.rest.errors import (
    BadRequestError,
    HttpError,
    MalformedBodyError,
    StartingError,
    connect_errors,
)
from tidings_connect.rest.extensions import own_endpoints
from tidings_connect.rest.forwarding import restart_elsewhere
from tidings_connect.rest.loggers import LoggersApi
from tidings_connect.rest.offsets import positions_endpoints
from tidings_connect.rest.plugins import list_plugins, plugin_config, validate_config
from tidings_connect.rest.routing import (
    Handler,
    Handlers,
    add_endpoint,
    flag,
    read_json,
    read_nullable,
    read_object,
    string_map,
)
from tidings_connect.rest.warnings import warn
from tidings_connect.storage.records import INITIAL_STATES, PAUSED, STARTED, STOPPED
from tidings_connect.task_id import TaskId

_CREATE_FIELDS: Final = frozenset({"name", "config", "initial_state"})
_START_SECONDS: Final = 90.0
"""How long a request waits for the worker to have started; Kafka Connect's own limit of a request."""
_HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
_STARTING: Final = "Worker is still starting up."
_RESTARTING: Final = "RESTARTING"


class RestApi:
    """The handlers, around one supervisor."""

    def __init__(self, supervisor: Herder) -> None:
        self._supervisor = supervisor

    def application(self, *, loggers: bool = True) -> web.Application:
        """The application with all routes; ``/metrics`` and the like are added by the worker.

        Args:
            loggers: whether ``/admin/loggers`` is one of them; False where ``admin.listeners`` has it.
        """
        app = web.Application(
            middlewares=[connect_errors], client_max_size=most_bytes(self._supervisor.worker)
        )
        name = "/connectors/{name}"
        task = f"{name}/tasks/{{task}}"
        plugin = "/connector-plugins/{plugin}/config"
        add_endpoint(app, "/", {"GET": self._root})
        add_endpoint(app, "/health", {"GET": self._health})
        connectors: dict[str, Handlers] = {
            "/connectors": {"GET": self._list, "POST": self._create},
            name: {"GET": self._get, "DELETE": self._delete},
            f"{name}/config": {
                "GET": self._get_config,
                "PUT": self._put_config,
                "PATCH": self._patch_config,
            },
            f"{name}/status": {"GET": self._status},
            f"{name}/restart": {"POST": self._restart},
            f"{name}/pause": {"PUT": self._target(PAUSED, 202)},
            f"{name}/resume": {"PUT": self._target(STARTED, 202)},
            f"{name}/stop": {"PUT": self._target(STOPPED, 204)},
            f"{name}/tasks": {"GET": self._tasks, "POST": self._internal},
            f"{name}/fence": {"PUT": self._internal},
            f"{task}/status": {"GET": self._task_status},
            f"{task}/restart": {"POST": self._restart_task},
            **positions_endpoints(self._supervisor),
            **own_endpoints(self._supervisor),
        }
        for path, handlers in connectors.items():
            add_endpoint(
                app, path, {method: self._when_started(handler) for method, handler in handlers.items()}
            )
        add_endpoint(app, "/connector-plugins", {"GET": list_plugins})
        add_endpoint(app, plugin, {"GET": plugin_config})
        add_endpoint(app, f"{plugin}/validate", {"PUT": self._validate})
        if loggers:
            self._add_loggers(app)
        return app

    def admin_application(self) -> web.Application:
        """What is at ``admin.listeners``: log levels, and nothing else."""
        app = web.Application(middlewares=[connect_errors])
        self._add_loggers(app)
        return app

    def _add_loggers(self, app: web.Application) -> None:
        loggers = LoggersApi(self._supervisor.log_levels, self._supervisor.set_cluster_log_level)
        add_endpoint(app, "/admin/loggers", {"GET": loggers.list})
        add_endpoint(app, "/admin/loggers/{logger}", {"GET": loggers.get, "PUT": loggers.put})

    def _when_started(self, handler: Handler) -> Handler:
        """Nothing is said of connectors before the config topic has been read: "not found" could be wrong."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if not self._supervisor.started.is_set():
                try:
                    async with asyncio.timeout(_START_SECONDS):
                        await self._supervisor.started.wait()
                except TimeoutError as error:
                    raise StartingError("Request timed out. The worker is still starting up") from error
            return await handler(request)

        return handle

    async def _validate(self, request: web.Request) -> web.Response:
        return await validate_config(request, self._supervisor.worker)

    async def _root(self, _request: web.Request) -> web.Response:
        return json_answer(
            {
                "version": KAFKA_CONNECT_VERSION,
                "commit": "tidings",
                "kafka_cluster_id": self._supervisor.cluster_id,
            }
        )

    async def _health(self, _request: web.Request) -> web.Response:
        started = self._supervisor.started.is_set()
        return json_answer(
            {
                "status": "healthy" if started else "starting",
                "message": _HEALTHY if started else _STARTING,
            },
            status=200 if started else 503,
        )

    async def _list(self, request: web.Request) -> web.Response:
        runs = sorted(self._supervisor.runs.items())
        if "expand" not in request.query:
            return json_answer([name for name, _run in runs])
        makers = {"status": self._status_of, "info": self._info_of}
        wanted = [part for part in request.query.getall("expand") if part in makers]
        return json_answer({name: {part: makers[part](run) for part in wanted} for name, run in runs})

    async def _create(self, request: web.Request) -> web.Response:
        body = await read_object(request, _CREATE_FIELDS)
        name = body.get("name")
        if isinstance(name, dict | list):
            raise MalformedBodyError("name must be a string")
        config = string_map(body.get("config"), "config")
        state = str(body.get("initial_state") or "RUNNING").upper()
        if state not in INITIAL_STATES:
            raise MalformedBodyError("initial_state takes RUNNING, PAUSED or STOPPED")
        name = "" if name is None else str(name).strip()
        checked, warnings = await self._checked(name, self._named(name, config))
        await self._supervisor.put(name, checked, state=INITIAL_STATES[state], replace=False)
        return warn(self._created(request, name), warnings, name)

    async def _get(self, request: web.Request) -> web.Response:
        return json_answer(self._info_of(self._run(request)))

    async def _get_config(self, request: web.Request) -> web.Response:
        return json_answer(self._shown(self._run(request).config))

    async def _put_config(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        config = string_map(await read_json(request), "the body")
        return await self._store(request, name, self._named(name, config))

    async def _patch_config(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        patch = await read_nullable(request)
        options = None if patch is None else string_map(patch, "the body")
        run = self._run(request)
        if options is None:
            raise MalformedBodyError("the request has no body")
        # What the patch does not name is kept, secrets too: they come back masked, as in a PUT.
        names = masked_names(run.config)
        asked = {names.get(key, key): value for key, value in options.items()}
        merged = {key: value for key, value in {**masked(run.config), **asked}.items() if value is not None}
        return await self._store(request, name, self._named(name, merged))

    async def _store(self, request: web.Request, name: str, asked: Options) -> web.Response:
        config, warnings = await self._checked(name, asked)
        known = self._supervisor.runs.get(name)
        if known is not None and known.config == config and known.healthy:
            return json_answer(self._info_of(known))  # nothing to do: the same request twice changes nothing
        if await self._supervisor.put(name, config):
            return warn(self._created(request, name), warnings, name)
        return warn(json_answer(self._info_of(self._supervisor.run_of(name))), warnings, name)

    async def _delete(self, request: web.Request) -> web.Response:
        await self._supervisor.delete(request.match_info["name"])
        return web.Response(status=204)

    async def _status(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        run = self._supervisor.runs.get(name)
        if run is None:
            raise NotFoundError(f"No status found for connector {name}")
        return json_answer(self._status_of(run))

    async def _tasks(self, request: web.Request) -> web.Response:
        run = self._run(request)
        configs = self._supervisor.task_configs(run.name)
        task_class = {"task.class": task_class_of(run.config)}
        return json_answer(
            [
                {
                    "id": {"connector": run.name, "task": number},
                    "config": {**self._shown(config), **task_class},
                }
                for number, config in enumerate(configs)
            ]
        )

    async def _task_status(self, request: web.Request) -> web.Response:
        number, name = _task_number(request), request.match_info["name"]
        run = self._supervisor.runs.get(name)
        task = None if run is None else _task_of(run, number)
        if task is None:
            raise NotFoundError(f"No status found for task {name}-{number}")
        return json_answer(self._task_status_of(task))

    async def _restart_task(self, request: web.Request) -> web.Response:
        number, run = _task_number(request), self._restartable(request)
        if _task_of(run, number) is None:
            raise NotFoundError(f"Unknown task: {run.name}-{number}")
        await self._supervisor.restart(run.name, [number])
        return web.Response(status=204)

    async def _restart(self, request: web.Request) -> web.Response:
        include_tasks, only_failed = flag(request, "includeTasks"), flag(request, "onlyFailed")
        run = self._restartable(request)
        if not include_tasks and not only_failed:
            return web.Response(status=204)  # the connector itself is only a name here: it cannot fail
        # What will be restarted, as Kafka Connect says it before it begins; here it is over when this is answered.
        status = self._status_of(run)
        if not only_failed:
            status["connector"]["state"] = _RESTARTING
        if include_tasks:
            again = [task for task in run.tasks if not only_failed or task.task_state == FAILED]
            numbers = [task.task for task in again]
            for shown in status["tasks"]:
                if shown["id"] in numbers:
                    shown["state"] = _RESTARTING
            here = [number for number in numbers if TaskId(run.name, number) in self._supervisor.local_tasks]
            await self._supervisor.restart(run.name, here)
            tls = self._supervisor.worker.rest.client_tls
            for number in sorted(set(numbers) - set(here)):
                await restart_elsewhere(request, self._supervisor, TaskId(run.name, number), tls)
        return json_answer(status, status=202)

    def _target(self, state: str, status: int) -> Handler:
        """Pause, resume or stop."""

        async def handle(request: web.Request) -> web.Response:
            name = request.match_info["name"]
            if name not in self._supervisor.runs:
                raise NotFoundError(f"Unknown connector {name}")
            await self._supervisor.set_target(name, state)
            return web.Response(status=status)

        return handle

    async def _internal(self, request: web.Request) -> web.Response:
        """What only Kafka Connect's own workers ask of each other, signed with the group's session key."""
        if request.method == "POST":
            await read_json(request)
        raise BadRequestError("Internal request missing required signature")

    def _named(self, name: str, config: Options) -> dict[str, str | None]:
        named = dict(config)
        found = named.get("name")
        if found is None:
            named["name"] = name
        elif found != name:
            raise BadRequestError(
                f"Connector name configuration ({found}) doesn't match connector name in the URL ({name})"
            )
        return named

    async def _checked(self, name: str, config: Options) -> tuple[dict[str, str], tuple[str, ...]]:
        """The configuration with its secrets, and what to warn of.

        Raises:
            OptionError: it cannot run.
        """
        require_connector_class(config)
        complete = self._supervisor.with_passwords(name, given(config))
        known = self._supervisor.runs.get(name)
        if known is not None and known.config == complete and known.healthy:
            return complete, ()
        nulls = {key: value for key, value in config.items() if value is None}
        whole = {**complete, **nulls}
        found = await in_turn(whole, validate_for, self._supervisor.worker, whole)
        if found.problems:
            raise OptionError(invalid_message(found.problems))
        return complete, found.warnings

    def _created(self, request: web.Request, name: str) -> web.Response:
        # As in Kafka Connect, where tasks are made after the answer; clients wait for them in the status.
        return json_answer(
            {**self._info_of(self._supervisor.run_of(name)), "tasks": []},
            status=201,
            headers={"Location": str(request.url.origin() / "connectors" / name)},
        )

    def _run(self, request: web.Request) -> ConnectorView:
        return self._supervisor.run_of(request.match_info["name"])

    def _restartable(self, request: web.Request) -> ConnectorView:
        name = request.match_info["name"]
        if name not in self._supervisor.runs:
            raise NotFoundError(f"Unknown connector: {name}")
        return self._supervisor.run_of(name)

    def _status_of(self, run: ConnectorView) -> dict[str, Any]:
        return {
            "name": run.name,
            "connector": {"state": run.connector_state, **_on(run.first)},
            "tasks": [self._task_status_of(task) for task in run.tasks],
            "type": kind_of(run.config),
        }

    def _info_of(self, run: ConnectorView) -> dict[str, Any]:
        return {
            "name": run.name,
            "config": self._shown(run.config),
            "tasks": [{"connector": run.name, "task": task.task} for task in run.tasks],
            "type": kind_of(run.config),
        }

    def _shown(self, config: Mapping[str, str]) -> dict[str, str]:
        return dict(config) if self._supervisor.worker.rest_shows_secrets else masked(config)

    def _task_status_of(self, task: AnyTask) -> dict[str, Any]:
        status: dict[str, Any] = {"id": task.task, "state": task.task_state, **_on(task)}
        if task.trace is not None:
            status["trace"] = task.trace
        return status


def _task_of(run: ConnectorView, number: int) -> AnyTask | None:
    return run.tasks[number] if 0 <= number < len(run.tasks) else None


def _on(run: AnyTask) -> dict[str, str]:
    return {"worker_id": run.worker_id, "version": version_of(run.config)}


def _task_number(request: web.Request) -> int:
    try:
        return int(request.match_info["task"])
    except ValueError as error:
        raise HttpError(404) from error
