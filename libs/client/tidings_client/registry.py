"""Schemas from a Confluent-compatible registry, over plain HTTP.

Its answers are not trusted: they have a greatest size and depth, and a login goes to the server that it is meant for.
"""

import base64
import json
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Final
from urllib.parse import quote, unquote, urlsplit

import fastavro

from tidings_client.bounds import check_bounded
from tidings_client.errors import ClientError

_LARGEST_BYTES: Final = 10 << 20
_DEEPEST: Final = 200
"""How deep a schema's JSON may be nested."""
_PORTS: Final = {"http": 80, "https": 443}
_LOGIN: Final = "Authorization"


class Registry:
    """Asks for each schema once.

    Args:
        url: such as ``http://localhost:8080/apis/ccompat/v7``, with ``user:password@`` where one is needed.
    """

    def __init__(self, url: str, *, timeout_seconds: float = 10.0) -> None:
        try:
            parts = urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError as error:
            raise ClientError("registry is not an http(s) URL") from error
        host = parts.hostname or ""
        if parts.scheme not in _PORTS or not host or not url.isprintable():
            raise ClientError("registry is not given, or is not an http(s) URL")
        self.url = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path.rstrip('/')}"
        self._opener = urllib.request.build_opener(_Redirects())
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers[_LOGIN] = f"Basic {base64.b64encode(login).decode()}"
        self._timeout_seconds = timeout_seconds
        self._schemas: dict[int, Any] = {}

    def schema(self, schema_id: int) -> Any:
        """The parsed Avro schema of an id.

        Raises:
            ClientError: the registry is away or does not know it.
        """
        found = self._schemas.get(schema_id)
        if found is None:
            path = f"/schemas/ids/{schema_id}"
            try:
                found = fastavro.parse_schema(self._schema(path))
                check_bounded(found)
            except (
                fastavro.schema.SchemaParseException,
                ValueError,
                TypeError,
                LookupError,
                ArithmeticError,
                AttributeError,
            ) as error:
                raise self._no_schema(path) from error
            self._schemas[schema_id] = found
        return found

    def latest(self, topic: str) -> dict[str, Any]:
        """The latest schema of a topic's values, as it was written.

        Raises:
            ClientError: the registry is away or has none.
        """
        path = f"/subjects/{quote(f'{topic}-value', safe='')}/versions/latest"
        found = self._schema(path)
        if not isinstance(found, dict):
            raise self._no_schema(path)
        return found

    def _schema(self, path: str) -> Any:
        """The JSON of a schema that an answer holds as text."""
        try:
            answer = json.loads(self._get(path))
            if not isinstance(answer, dict) or answer.get("schemaType", "AVRO") != "AVRO":
                raise self._no_schema(path)
            found = json.loads(answer["schema"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._no_schema(path) from error
        if _too_deep(found):
            raise self._no_schema(path)
        return found

    def _no_schema(self, path: str) -> ClientError:
        return ClientError(f"registry: what {self.url}{path} answers is not a schema of Avro's")

    def _sent_on(self, url: str) -> str:
        """Words on a refusal by another server than ours."""
        scheme, host, port = _server(url)
        if (scheme, host, port) == _server(self.url) or _LOGIN not in self._headers:
            return ""
        return f" (sent on to {scheme}://{ascii(host)[1:-1]}:{port}, which is not given the login: name it as registry)"

    def _get(self, path: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers=self._headers)  # noqa: S310 - checked above
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as answer:
                found: bytes = answer.read(_LARGEST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise ClientError(
                    f"registry: {self.url}{path} answers {error.code}{self._sent_on(error.url)}"
                ) from error
        except (OSError, ValueError, HTTPException) as error:
            raise ClientError(f"registry: {self.url} is not reachable ({type(error).__name__})") from error
        if len(found) > _LARGEST_BYTES:
            raise self._no_schema(path)
        return found


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to other servers without the login."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """The next request; none to what is not HTTP, which makes the redirection an error."""
        if urlsplit(newurl).scheme not in _PORTS:
            return None
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and _server(newurl) != _server(req.full_url):
            request.remove_header(_LOGIN)
        return request


def _server(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
