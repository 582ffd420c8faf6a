"""Endpoints that Kafka Connect does not have: a snapshot's progress, signals for a task, a stopped connector's slot."""

import asyncio
import json
import uuid

from aiohttp import web

from tidings_capture.connector_config import read_endpoint, read_slot_name
from tidings_capture.preparation import drop_slot
from tidings_capture.rest_answers import json_answer
from tidings_capture.rest_errors import BadRequestError
from tidings_capture.rest_routing import Handlers, read_object
from tidings_capture.stores import STOPPED
from tidings_capture.supervisor import Supervisor
from tidings_connect.errors import ConflictError, NotStoppedError


def own_endpoints(supervisor: Supervisor) -> dict[str, Handlers]:
    """The handlers, by path."""
    api = _OwnApi(supervisor)
    return {
        "/connectors/{name}/snapshot": {"GET": api.snapshot},
        "/connectors/{name}/signals": {"POST": api.signal},
        "/connectors/{name}/slot": {"DELETE": api.drop_slot},
    }


class _OwnApi:
    def __init__(self, supervisor: Supervisor) -> None:
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

    async def drop_slot(self, request: web.Request) -> web.Response:
        """Ours: drop the replication slot of a connector that is stopped; one that does not exist is dropped already."""
        name = request.match_info["name"]
        if self._supervisor.run_of(name).target_state != STOPPED:
            raise NotStoppedError(
                f"the slot of connector {name} is in use: stop it first with PUT /connectors/{name}/stop"
            )
        async with self._supervisor.stopped(name):
            config = self._supervisor.resolved(self._supervisor.run_of(name).config)
            await asyncio.to_thread(drop_slot, read_endpoint(config), read_slot_name(config))
        return web.Response(status=204)
