"""Endpoints that Kafka Connect does not have: a snapshot's progress, signals for a task, and what a stopped connector
leaves at its source (`Connector.removable`)."""

import asyncio
import json
import uuid

from aiohttp import web

from tidings_connect.config.plugins import connector_of, removable
from tidings_connect.errors import ConflictError, NotFoundError, NotStoppedError
from tidings_connect.herder.herder import Herder
from tidings_connect.rest.answers import json_answer
from tidings_connect.rest.errors import BadRequestError
from tidings_connect.rest.routing import Handler, Handlers, read_object
from tidings_connect.storage.records import STOPPED


def own_endpoints(supervisor: Herder) -> dict[str, Handlers]:
    """The handlers, by path."""
    api = _OwnApi(supervisor)
    return {
        "/connectors/{name}/snapshot": {"GET": api.snapshot},
        "/connectors/{name}/signals": {"POST": api.signal},
        **{f"/connectors/{{name}}/{what}": {"DELETE": api.remove(what)} for what in removable()},
    }


class _OwnApi:
    def __init__(self, supervisor: Herder) -> None:
        self._supervisor = supervisor

    async def snapshot(self, request: web.Request) -> web.Response:
        """Ours: how far the running or last snapshot of the task's process is."""
        report = self._supervisor.run_of(request.match_info["name"]).report
        tables = report.snapshot_tables
        left = [table for table in tables.values() if table.state != "done"]
        return json_answer(
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

    async def signal(self, request: web.Request) -> web.Response:
        """Ours: a signal for the running task."""
        body = await read_object(request)
        data = body.get("data", {})
        if not isinstance(body.get("type"), str) or not isinstance(data, dict):
            raise BadRequestError("a signal is an object with type, a string, and data, an object")
        signal = {"id": str(body.get("id") or uuid.uuid4()), "type": body["type"], "data": data}
        if not self._supervisor.run_of(request.match_info["name"]).signal(json.dumps(signal)):
            raise ConflictError("no task is running that could take a signal")
        return json_answer({"id": signal["id"]}, status=202)

    def remove(self, what: str) -> Handler:
        """Ours: remove what a stopped connector has left at its source; what does not exist is removed already."""

        async def handle(request: web.Request) -> web.Response:
            name = request.match_info["name"]
            run = self._supervisor.run_of(name)
            connector = connector_of(run.config)
            if connector is None or what not in connector.removable:
                raise NotFoundError(f"connector {name} has no {what}")
            if run.target_state != STOPPED:
                raise NotStoppedError(
                    f"the {what} of connector {name} is in use: stop it first with PUT /connectors/{name}/stop"
                )
            async with self._supervisor.stopped(name):
                config = self._supervisor.resolved(self._supervisor.run_of(name).config)
                await asyncio.to_thread(connector.removable[what], config)
            return web.Response(status=204)

        return handle
