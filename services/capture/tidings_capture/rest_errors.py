"""Kafka Connect's error answers: ``{"error_code": 404, "message": "Connector x not found"}``."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from tidings_capture.errors import OptionError
from tidings_capture.supervisor import ConflictError, NotFoundError
from tidings_service import TidingsError, get_logger

_log = get_logger(__name__)


class BadRequestError(TidingsError):
    """The request's body is not what the endpoint takes."""

    code = "bad_request"


_STATUS: dict[type[TidingsError], int] = {
    NotFoundError: 404,
    ConflictError: 409,
    OptionError: 400,
    BadRequestError: 400,
}


def error_response(status: int, message: str) -> web.Response:
    """An error as Kafka Connect words it."""
    return web.json_response({"error_code": status, "message": message}, status=status)


@web.middleware
async def connect_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turns every error of a handler into an error body."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return error_response(error.status, f"HTTP {error.status} {error.reason}")
    except TidingsError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return error_response(_STATUS.get(type(error), 500), f"{error}{hint}")
    except Exception:  # noqa: BLE001 - answered, and logged with its traceback
        _log.exception("a request failed", method=request.method, path=request.path)
        return error_response(500, "Internal Server Error")
