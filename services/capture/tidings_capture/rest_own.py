"""Endpoints that Kafka Connect does not have: a snapshot's progress, and signals for a task."""

import json
import uuid

from aiohttp import web

from tidings_capture.errors import ConflictError
from tidings_capture.rest_errors import BadRequestError
from tidings_capture.rest_routing import Handlers, read_object
from tidings_capture.supervisor import Supervisor


def own_endpoints(supervisor: Supervisor) -> dict[str, Handlers]:
    """The handlers, by path."""
    api = _OwnApi(supervisor)
    return {
        "/connectors/{name}/snapshot": {"GET": api.snapshot},
        "/connectors/{name}/signals": {"POST": api.signal},
    }


class _OwnApi:
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def snapshot(self, request: web.Request) -> web.Response:
        """Ours: how far the running or last snapshot of the task's process is."""
        report = self._supervisor.run_of(request.match_info["name"]).report
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

    async def signal(self, request: web.Request) -> web.Response:
        """Ours: a signal for the running task."""
        body = await read_object(request)
        data = body.get("data", {})
        if not isinstance(body.get("type"), str) or not isinstance(data, dict):
            raise BadRequestError("a signal is an object with type, a string, and data, an object")
        signal = {"id": str(body.get("id") or uuid.uuid4()), "type": body["type"], "data": data}
        if not self._supervisor.run_of(request.match_info["name"]).signal(json.dumps(signal)):
            raise ConflictError("no task is running that could take a signal")
        return web.json_response({"id": signal["id"]}, status=202)
