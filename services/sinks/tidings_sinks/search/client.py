"""The client: the few calls of the API that the sink needs, on one connection.

It is httpx, which the worker has for the registry: the clients of OpenSearch and Elasticsearch bring twenty packages, and the
latter refuses OpenSearch. What the server says of a value is never repeated; only the kind of its errors, and names.
"""

import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

import httpx
import msgspec
import orjson

from tidings_connect.kafka.tls import client_context
from tidings_connect.task.sink import RetriableError
from tidings_service import get_logger
from tidings_sinks.errors import TargetError
from tidings_sinks.search.options import TLS
from tidings_sinks.search.settings import Settings

_JSON: Final = {"content-type": "application/json"}
_LINES: Final = {"content-type": "application/x-ndjson"}
_BULK: Final = "/_bulk?filter_path=errors,items.*.status,items.*.error"
_BUSY: Final = frozenset((408, 429, 502, 503, 504))
_FIELD: Final = re.compile(r"field \[([^\]]{1,200})\] of type \[(\w{1,40})\]")
_NAMED: Final = re.compile(r"(?:introduction of|mapper|object mapping|object mapping for) \[([^\]]{1,200})\]")
_TOO_LARGE: Final = 413
_OLDEST_ELASTICSEARCH: Final = 7
"""Also the only one that it was run on."""

_log = get_logger(__name__)


class TooLargeError(Exception):
    """A request is larger than the server takes."""


class Cause(msgspec.Struct):
    """What the server says is wrong; `reason` may hold values."""

    type: str = ""
    reason: str | None = None
    caused_by: "Cause | None" = None


class Result(msgspec.Struct):
    """What became of one operation."""

    status: int
    error: Cause | None = None


class _Bulk(msgspec.Struct):
    errors: bool
    items: list[dict[str, Result]] = []


class Present(msgspec.Struct, rename={"source": "_source", "version": "_version"}):
    """A document that is there, or not."""

    found: bool = False
    version: int = -1
    source: msgspec.Raw = msgspec.Raw(b"{}")
    error: Cause | None = None


class _Documents(msgspec.Struct):
    docs: list[Present]


class _Failure(msgspec.Struct):
    error: Cause | str = ""


_decode_bulk = msgspec.json.Decoder(_Bulk).decode
_decode_documents = msgspec.json.Decoder(_Documents).decode
_decode_failure = msgspec.json.Decoder(_Failure).decode


def said(cause: Cause) -> str:
    """The server's words without values: the kind of the error, and the field's name."""
    for each in (cause, cause.caused_by):
        if each is not None and each.reason:
            match = _FIELD.search(each.reason)
            if match:
                return f"{cause.type}: field {match[1]} of type {match[2]}"
            match = _NAMED.search(each.reason)
            if match:
                return f"{cause.type}: field {match[1]}"
    return cause.type


class Client:
    """Asks the cluster. Of several URLs another one is taken after each that is away."""

    def __init__(self, settings: Settings) -> None:
        self._urls, self._at = settings.urls, 0
        verify: bool | ssl.SSLContext = True
        if any(url.startswith("https:") for url in settings.urls):
            verify = _context(settings)
        self._http = httpx.Client(
            auth=(settings.user, settings.password) if settings.user else None,
            verify=verify,
            timeout=httpx.Timeout(settings.read_seconds, connect=settings.connect_seconds),
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def check(self) -> None:
        """See whether a server is there that this sink can speak to.

        Raises:
            RetriableError: it is away.
            TargetError: it is another, or refuses the login.
        """
        status, data = self._ask("GET", "/")
        if status >= 400:
            raise self._refused(status, data, "to say what it is")
        try:
            version = orjson.loads(data)["version"]
            number, kind = str(version["number"]), str(version.get("distribution", "elasticsearch"))
            major = int(number.partition(".")[0])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TargetError(f"{self._urls[self._at]} is neither OpenSearch nor Elasticsearch") from None
        if kind != "opensearch":
            if major < _OLDEST_ELASTICSEARCH:
                raise TargetError(f"the server is Elasticsearch {number}; 7 is the oldest whose API this is")
            if major > _OLDEST_ELASTICSEARCH:
                _log.warning("the server is Elasticsearch", version=number)

    def bulk(self, body: bytes) -> list[Result] | None:
        """Run operations.

        Returns:
            What became of each; None: all were done.

        Raises:
            TooLargeError: the server takes no request of this size.
            RetriableError: the server is away or busy, and may have done it or not.
            TargetError: it refuses the whole request.
        """
        status, data = self._ask("POST", _BULK, body, _LINES)
        if status == _TOO_LARGE:
            raise TooLargeError
        if status >= 400:
            raise self._refused(status, data, "a bulk request")
        answer = _decode_bulk(data)
        return [next(iter(item.values())) for item in answer.items] if answer.errors else None

    def documents(self, wanted: Sequence[dict[str, Any]]) -> list[Present]:
        """Documents by ``_index``, ``_id`` and ``routing``, in the order in which they are asked for."""
        status, data = self._ask("POST", "/_mget", orjson.dumps({"docs": wanted}))
        if status >= 400:
            raise self._refused(status, data, "to read documents")
        return _decode_documents(data).docs

    def mapping(self, target: str) -> list[dict[str, Any]] | None:
        """The mappings of the indexes behind a name; None: there is nothing of that name."""
        status, data = self._ask("GET", f"/{target}/_mapping")
        if status == 404:
            return None
        if status >= 400:
            raise self._refused(status, data, f"to read the mapping of {target}")
        return [each.get("mappings", {}) for each in orjson.loads(data).values()]

    def exists(self, path: str) -> bool:
        """Whether there is something at a path."""
        status, data = self._ask("HEAD", path)
        if status >= 400 and status != 404:
            raise self._refused(status, data, f"to look for {path}")
        return status != 404

    def put(self, path: str, body: Any, what: str) -> None:
        """Create or change something; that it is there already is no error.

        Args:
            what: what is asked for, for messages: ``to create index orders``.
        """
        status, data = self._ask("PUT", path, orjson.dumps(body))
        if status >= 400 and _cause(data).type != "resource_already_exists_exception":
            raise self._refused(status, data, what)

    def call(self, method: str, path: str, what: str, body: Any = None) -> Any:
        """The body of any answer; None: there is nothing at the path.

        Args:
            what: what is asked for, for messages.
        """
        status, data = self._ask(method, path, None if body is None else orjson.dumps(body))
        if status == 404:
            return None
        if status >= 400:
            raise self._refused(status, data, what)
        return orjson.loads(data) if data else {}

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] = _JSON
    ) -> tuple[int, bytes]:
        url = self._urls[self._at]
        try:
            answer = self._http.request(method, url + path, content=body, headers=headers if body else None)
        except httpx.TransportError as error:
            self._at = (self._at + 1) % len(self._urls)
            raise RetriableError(f"{url} does not answer: {type(error).__name__}") from None
        if answer.status_code in _BUSY:
            self._at = (self._at + 1) % len(self._urls)
            raise RetriableError(f"{url} is busy: it answers {answer.status_code}")
        return answer.status_code, answer.content

    def _refused(self, status: int, data: bytes, what: str) -> TargetError:
        url = self._urls[self._at]
        if status == 401:
            return TargetError(
                f"{url} refuses the login", hint="see connection.username and connection.password"
            )
        cause = _cause(data)
        if status == 403:
            return TargetError(f"{url} refuses {what}: the user has no right to it ({cause.type})")
        return TargetError(f"{url} refuses {what}: {status} {said(cause)}")


def _cause(data: bytes) -> Cause:
    try:
        found = _decode_failure(data).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Cause()
    return found if isinstance(found, Cause) else Cause()


def _context(settings: Settings) -> ssl.SSLContext:
    context = client_context(settings.tls, TLS)
    if settings.trusts_all:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
