"""``/admin/loggers``: the levels of the worker's loggers, read and set while it runs."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from tidings_connect.errors import NotFoundError
from tidings_connect.log_levels import LEVELS, MOST_CHARACTERS, MOST_LOGGERS, LogLevels
from tidings_connect.rest.answers import json_answer
from tidings_connect.rest.errors import BadRequestError
from tidings_connect.rest.routing import read_json, string_map
from tidings_service import get_logger

_log = get_logger(__name__)


class LoggersApi:
    """The handlers.

    Args:
        levels: of this process.
        set_in_cluster: tells every worker of the group, this one included.
    """

    def __init__(self, levels: LogLevels, set_in_cluster: Callable[[str, str], Awaitable[None]]) -> None:
        self._levels = levels
        self._set_in_cluster = set_in_cluster

    async def list(self, _request: web.Request) -> web.Response:
        """Every logger whose level was set."""
        return json_answer(self._levels.all())

    async def get(self, request: web.Request) -> web.Response:
        """One logger's level."""
        name = request.match_info["logger"]
        level = self._levels.level(name)
        if level is None:
            raise NotFoundError(f"Logger {name} not found.")
        return json_answer(level)

    async def put(self, request: web.Request) -> web.Response:
        """Set a level; the names of the loggers it was set for, or nothing where all workers were told."""
        name = request.match_info["logger"]
        given = string_map(await read_json(request), "the body").get("level")
        if given is None:
            raise BadRequestError("Desired 'level' parameter was not specified in request.")
        level = given.upper()
        if level not in LEVELS:
            raise NotFoundError(f"invalid log level '{given}'.")
        if not self._levels.may_set(name):
            raise BadRequestError(
                f"no further logger can be set: {MOST_LOGGERS} have been, or the name has more than "
                f"{MOST_CHARACTERS} characters"
            )
        scope = request.query.get("scope", "worker").lower()
        if scope == "cluster":
            await self._set_in_cluster(name, level)
            return web.Response(status=204)
        if scope != "worker":
            _log.warning("unknown scope of a log level: taken for worker", scope=scope)
        _log.info("log level set", logger_name=name, level=level)
        return json_answer(self._levels.set(name, level))
