"""Kafka Connect's REST API: connectors, their status and tasks, plugins and validation.

Paths, status codes and bodies: Apache Kafka documentation, "Kafka Connect REST API". Passwords are masked in answers;
a configuration that comes back with the mask keeps the stored password.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from tidings_capture.connector_remote import RemoteRun
from tidings_capture.connector_run import ConnectorRun
from tidings_capture.errors import OptionError
from tidings_capture.options import CONNECTOR_CLASS, CONNECTOR_VERSION, passwords
from tidings_capture.rest_errors import BadRequestError, connect_errors, error_response
from tidings_capture.stores import PAUSED, STARTED, STOPPED
from tidings_capture.supervisor import MASK, ConflictError, NotFoundError, Supervisor
from tidings_capture.validation import invalid_message, validate, validation_report

KAFKA_CONNECT_VERSION: Final = "4.3.1"
"""The release whose API this is."""
AnyRun = ConnectorRun | RemoteRun
_INITIAL_STATES: Final = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}


class RestApi:
    """The handlers, around one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def application(self) -> web.Application:
        """The application with all routes; ``/metrics`` and the like are added by the worker."""
        app = web.Application(middlewares=[connect_errors])
        add, name = app.router.add_route, "/connectors/{name}"
        add("GET", "/", self._root)
        add("GET", "/connectors", self._list)
        add("POST", "/connectors", self._create)
        add("GET", name, self._get)
        add("DELETE", name, self._delete)
        add("GET", f"{name}/config", self._get_config)
        add("PUT", f"{name}/config", self._put_config)
        add("GET", f"{name}/status", self._status)
        add("GET", f"{name}/snapshot", self._snapshot)
        add("POST", f"{name}/signals", self._signal)
        add("GET", f"{name}/tasks", self._tasks)
        add("GET", f"{name}/tasks/{{task}}/status", self._task_status)
        add("POST", f"{name}/tasks/{{task}}/restart", self._restart_task)
        add("POST", f"{name}/restart", self._restart)
        add("PUT", f"{name}/pause", self._pause)
        add("PUT", f"{name}/resume", self._resume)
        add("PUT", f"{name}/stop", self._stop)
        add("GET", "/connector-plugins", self._plugins)
        add("PUT", "/connector-plugins/{plugin}/config/validate", self._validate)
        return app

    async def _root(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "version": KAFKA_CONNECT_VERSION,
                "commit": "tidings",
                "kafka_cluster_id": self._supervisor.cluster_id,
            }
        )

    async def _list(self, request: web.Request) -> web.Response:
        expand = request.query.getall("expand", [])
        runs = self._supervisor.runs
        if not expand:
            return web.json_response(sorted(runs))
        makers = {"status": _status_of, "info": _info_of}
        shown = {
            name: {part: self._shown(makers[part], run) for part in expand if part in makers}
            for name, run in sorted(runs.items())
        }
        return web.json_response(shown)

    async def _create(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        name, config = body.get("name"), body.get("config")
        if not isinstance(name, str) or not name.strip():
            raise BadRequestError("name is required")
        state = body.get("initial_state", "RUNNING")
        if state not in _INITIAL_STATES:
            raise BadRequestError("initial_state takes RUNNING, PAUSED or STOPPED")
        if name in self._supervisor.runs:
            return error_response(409, f"Connector {name} already exists")
        checked = await self._checked(name, _string_map(config, "config"))
        await self._supervisor.put(name, checked, state=_INITIAL_STATES[state], replace=False)
        return self._created(request, name)

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(_info_of(self._run(request)))

    async def _get_config(self, request: web.Request) -> web.Response:
        return web.json_response(_masked(self._run(request).config))

    async def _put_config(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        config = _string_map(await _json_object(request), "the body")
        checked = await self._checked(name, config)
        known = self._supervisor.runs.get(name)
        if known is not None and known.config == checked and known.healthy:
            return web.json_response(_info_of(known))  # nothing to do: the same request twice changes nothing
        if await self._supervisor.put(name, checked):
            return self._created(request, name)
        return web.json_response(_info_of(self._supervisor.run_of(name)))

    async def _delete(self, request: web.Request) -> web.Response:
        await self._supervisor.delete(request.match_info["name"])
        return web.Response(status=204)

    async def _status(self, request: web.Request) -> web.Response:
        run = self._supervisor.runs.get(request.match_info["name"])
        if run is None:
            raise NotFoundError(f"No status found for connector {request.match_info['name']}")
        return web.json_response(self._shown(_status_of, run))

    async def _snapshot(self, request: web.Request) -> web.Response:
        """Ours: how far the running or last snapshot of the task's process is."""
        report = self._run(request).report
        tables = report.snapshot_tables
        left = [table for table in tables.values() if table.state != "done"]
        return web.json_response(
            {
                "state": "none" if not tables else "running" if left else "done",
                "rows": report.snapshot_rows,
                "tables_left": len(left),
                "tables": [
                    {"table": name, "state": t.state, "rows": t.rows, "estimated_rows": t.estimated}
                    for name, t in tables.items()
                ],
            }
        )

    async def _signal(self, request: web.Request) -> web.Response:
        """Ours: a signal for the running task."""
        body = await _json_object(request)
        data = body.get("data", {})
        if not isinstance(body.get("type"), str) or not isinstance(data, dict):
            raise BadRequestError("a signal is an object with type, a string, and data, an object")
        signal = {"id": str(body.get("id") or uuid.uuid4()), "type": body["type"], "data": data}
        if not self._run(request).signal(json.dumps(signal)):
            raise ConflictError("no task is running that could take a signal")
        return web.json_response({"id": signal["id"]}, status=202)

    async def _tasks(self, request: web.Request) -> web.Response:
        run = self._run(request)
        tasks = [{"id": {"connector": run.name, "task": 0}, "config": _masked(run.config)}]
        return web.json_response(tasks if run.has_task else [])

    async def _task_status(self, request: web.Request) -> web.Response:
        run = self._task_run(request)
        return web.json_response(_task_status_of(run))

    async def _restart_task(self, request: web.Request) -> web.Response:
        await self._supervisor.restart(self._task_run(request).name)
        return web.Response(status=204)

    async def _restart(self, request: web.Request) -> web.Response:
        run = self._run(request)
        flags = {
            flag: request.query.get(flag, "false").lower() == "true"
            for flag in ("includeTasks", "onlyFailed")
        }
        if flags["includeTasks"]:
            await self._supervisor.restart(run.name, only_failed=flags["onlyFailed"])
            run = self._run(request)
            return web.json_response(self._shown(_status_of, run), status=202)
        return web.Response(status=204)  # the connector itself is only a name here: it cannot fail

    async def _pause(self, request: web.Request) -> web.Response:
        await self._set_target(request, PAUSED)
        return web.Response(status=202)

    async def _resume(self, request: web.Request) -> web.Response:
        await self._set_target(request, STARTED)
        return web.Response(status=202)

    async def _stop(self, request: web.Request) -> web.Response:
        await self._set_target(request, STOPPED)
        return web.Response(status=204)

    async def _plugins(self, _request: web.Request) -> web.Response:
        return web.json_response([{"class": CONNECTOR_CLASS, "type": "source", "version": CONNECTOR_VERSION}])

    async def _validate(self, request: web.Request) -> web.Response:
        config = _string_map(await _json_object(request), "the body")
        plugin = request.match_info["plugin"]
        if plugin not in {CONNECTOR_CLASS, "PostgresConnector", "Postgres"}:
            raise NotFoundError(f"Unknown connector plugin {plugin}")
        problems = await asyncio.to_thread(self._problems, config)
        return web.json_response(validation_report(CONNECTOR_CLASS, config, problems))

    def _problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        worker = self._supervisor.worker
        return validate(config, worker.providers, worker.exactly_once)

    async def _checked(self, name: str, config: dict[str, str]) -> dict[str, str]:
        given = config.setdefault("name", name)
        if given != name:
            raise BadRequestError(
                f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
            )
        config = self._supervisor.with_passwords(name, config)
        known = self._supervisor.runs.get(name)
        if known is not None and known.config == config and known.healthy:
            return config
        problems = await asyncio.to_thread(self._problems, config)
        if problems:
            raise OptionError(invalid_message(problems))
        return config

    async def _set_target(self, request: web.Request, state: str) -> None:
        name = request.match_info["name"]
        if name not in self._supervisor.runs:
            raise NotFoundError(f"Unknown connector {name}")
        await self._supervisor.set_target(name, state)

    def _created(self, request: web.Request, name: str) -> web.Response:
        return web.json_response(
            _info_of(self._supervisor.run_of(name)),
            status=201,
            headers={"Location": str(request.url.with_path(f"/connectors/{name}").with_query(None))},
        )

    def _run(self, request: web.Request) -> AnyRun:
        return self._supervisor.run_of(request.match_info["name"])

    def _task_run(self, request: web.Request) -> AnyRun:
        run, task = self._run(request), request.match_info["task"]
        if task != "0" or not run.has_task:
            raise NotFoundError(f"No status found for task {run.name}-{task}")
        return run

    def _shown(self, make: Any, run: AnyRun) -> Any:
        return make(run)


def _masked(config: dict[str, str]) -> dict[str, str]:
    secret = passwords(config)
    return {key: MASK if key in secret and value else value for key, value in config.items()}


def _info_of(run: AnyRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "config": _masked(run.config),
        "tasks": [{"connector": run.name, "task": 0}] if run.has_task else [],
        "type": "source",
    }


def _task_status_of(run: AnyRun) -> dict[str, Any]:
    status: dict[str, Any] = {"id": 0, "state": run.task_state, **_on(run.worker_id)}
    if run.trace is not None:
        status["trace"] = run.trace
    return status


def _on(worker_id: str) -> dict[str, str]:
    return {"worker_id": worker_id, "version": CONNECTOR_VERSION}


def _status_of(run: AnyRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "connector": {"state": run.connector_state, **_on(run.worker_id)},
        "tasks": [_task_status_of(run)] if run.has_task else [],
        "type": "source",
    }


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError as error:
        raise BadRequestError("the request's body is no JSON") from error
    if not isinstance(body, dict):
        raise BadRequestError("the request's body is no JSON object")
    return body


def _string_map(value: object, what: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise BadRequestError(f"{what} must be a JSON object of options")
    wrong = sorted(key for key, item in value.items() if isinstance(item, dict | list))
    if wrong:
        raise BadRequestError(f"{', '.join(wrong)} must be a string")
    return {
        key: item if isinstance(item, str) else json.dumps(item)
        for key, item in value.items()
        if item is not None
    }
