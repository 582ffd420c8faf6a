"""Which requests are for the leader, and which for the worker that runs the connector."""

from typing import Any

import pytest

from tidings_connect.rest.forwarding import place_of
from tidings_connect.task_id import TaskId


@pytest.mark.parametrize(
    ("request_line", "place"),
    [
        ("GET /connectors", (None, "")),
        ("GET /connectors/", (None, "")),
        ("POST /connectors/", ("leader", "")),
        ("PUT /connectors/a/config", ("leader", "a")),
        ("PATCH /connectors/a%2Fb/config", ("leader", "a/b")),
        ("DELETE /connectors/a", ("leader", "a")),
        ("PUT /connectors/a/pause", ("leader", "a")),
        ("DELETE /connectors/a/offsets", ("leader", "a")),
        ("DELETE /connectors/a/slot", ("leader", "a")),
        ("GET /connectors/a/offsets", (None, "a")),
        ("GET /connectors/a/status", (None, "a")),
        ("POST /connectors/a/restart", ("owner", "a")),
        ("POST /connectors/a/tasks/0/restart", ("owner", "a")),
        ("POST /connectors/a/tasks/12/restart", ("owner", "a", 12)),
        ("POST /connectors/tasks/tasks/x/restart", ("owner", "tasks")),
        ("GET /connectors/a/snapshot", ("owner", "a")),
        ("PUT /connector-plugins/x/config/validate", (None, "")),
        ("GET /", (None, "")),
        ("GET /metrics", (None, "")),
    ],
)
def test_where_a_request_belongs(request_line: str, place: tuple[Any, ...]) -> None:
    kind, *task = place
    assert place_of(*request_line.split()) == (kind, TaskId(*task))
