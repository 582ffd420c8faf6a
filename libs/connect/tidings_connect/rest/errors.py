"""Kafka Connect's error answers: ``{"error_code": 404, "message": "Connector x not found"}``.

Kafka Connect answers 500 to a body that is not JSON or of another shape, with the name of a Java class in the message;
here the status is the same and the message says what is wrong with the body.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from tidings_connect.errors import (
    ConflictError,
    NotFoundError,
    NotStoppedError,
    OptionError,
    TooManyConnectorsError,
)
from tidings_connect.rest.answers import json_answer
from tidings_service import TidingsError, get_logger

_log = get_logger(__name__)


class BadRequestError(TidingsError):
    """What was asked for cannot be done as things are."""

    code = "bad_request"


class MalformedBodyError(TidingsError):
    """The request's body is not what the endpoint takes."""

    code = "malformed_body"


class StartingError(TidingsError):
    """The worker did not get ready in time."""

    code = "starting"


class ForbiddenError(TidingsError):
    """The worker's properties do not allow it."""

    code = "forbidden"


class HttpError(Exception):
    """An answer of the HTTP server itself, in its words.

    Args:
        status: the HTTP status.
        headers: of the answer.
    """

    def __init__(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status} {HTTPStatus(status).phrase}")
        self.status = status
        self.headers = headers


_STATUS: dict[type[TidingsError], int] = {
    NotFoundError: 404,
    ConflictError: 409,
    NotStoppedError: 400,
    OptionError: 400,
    BadRequestError: 400,
    ForbiddenError: 403,
    TooManyConnectorsError: 403,
    MalformedBodyError: 500,
}


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as Kafka Connect words it."""
    return json_answer({"error_code": status, "message": message}, status=status, headers=headers)


@web.middleware
async def connect_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turns every error of a handler into an error body."""
    try:
        return await handler(request)
    except HttpError as error:
        return error_response(error.status, f"{error}", error.headers)
    except web.HTTPException as error:
        return error_response(error.status, f"HTTP {error.status} {error.reason}")
    except TidingsError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return error_response(_STATUS.get(type(error), 500), f"{error}{hint}")
    except Exception:  # noqa: BLE001 - answered, and logged with its traceback
        _log.exception("a request failed", method=request.method, path=request.path)
        return error_response(500, "Internal Server Error")
