"""Schemas from a Confluent-compatible registry, over plain HTTP."""

import base64
import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import fastavro

from tidings_client.errors import ClientError


class Registry:
    """Asks for each schema once.

    Args:
        url: such as ``http://localhost:8080/apis/ccompat/v7``, with ``user:password@`` where one is needed.
    """

    def __init__(self, url: str, *, timeout_seconds: float = 10.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError("registry is not given, or is no http(s) URL")
        port = f":{parts.port}" if parts.port else ""
        self.url = f"{parts.scheme}://{parts.hostname}{port}{parts.path.rstrip('/')}"
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        self._timeout_seconds = timeout_seconds
        self._schemas: dict[int, Any] = {}

    def schema(self, schema_id: int) -> Any:
        """The parsed Avro schema of an id.

        Raises:
            ClientError: the registry is away or does not know it.
        """
        found = self._schemas.get(schema_id)
        if found is None:
            text = self._get(f"/schemas/ids/{schema_id}")["schema"]
            found = self._schemas[schema_id] = fastavro.parse_schema(json.loads(text))
        return found

    def latest(self, topic: str) -> dict[str, Any]:
        """The latest schema of a topic's values, as it was written.

        Raises:
            ClientError: the registry is away or has none.
        """
        found: dict[str, Any] = json.loads(
            self._get(f"/subjects/{quote(f'{topic}-value', safe='')}/versions/latest")["schema"]
        )
        return found

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, headers=self._headers)  # noqa: S310 - checked above
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_seconds) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise ClientError(f"registry: {self.url}{path} answers {error.code}") from error
        except (OSError, ValueError) as error:
            raise ClientError(f"registry: {self.url} is not reachable ({type(error).__name__})") from error
        return found
