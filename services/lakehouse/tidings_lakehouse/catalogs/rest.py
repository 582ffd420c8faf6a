"""Where each table's metadata are, by a server of Iceberg's REST catalog protocol: no JVM, no Spark.

The protocol: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from tidings_lakehouse.catalogs.conf import RestLogin
from tidings_lakehouse.errors import CatalogError

_SECONDS: Final = 20
_NOT_FOUND: Final = 404
_PAGES: Final = 10_000


class RestLocations(Mapping[str, str]):
    """Table (``technical.orders``) to the URI of its newest metadata file, which is asked for when it is looked up.

    Raises:
        CatalogError: the server does not answer, or refuses the login.
    """

    def __init__(self, login: RestLogin, namespaces: Iterable[str]) -> None:
        self._server = _Server(login)
        self._known: dict[str, str] = {}
        self._names = [
            f"{namespace}.{table}" for namespace in namespaces for table in self._server.tables(namespace)
        ]

    def __getitem__(self, name: str) -> str:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._server.location(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Server:
    def __init__(self, login: RestLogin) -> None:
        self._login = login
        self._token = login.token or (self._exchanged() if login.credential else "")
        query = f"?{urlencode({'warehouse': login.warehouse})}" if login.warehouse else ""
        said = self._get(f"v1/config{query}")
        settings = {**said.get("defaults", {}), **said.get("overrides", {})}
        prefix = str(settings.get("prefix") or "").strip("/")
        self._base = f"v1/{prefix}" if prefix else "v1"

    def tables(self, namespace: str) -> list[str]:
        """Names of the tables of a namespace, none when there is no such namespace."""
        found: list[str] = []
        token = ""
        for _ in range(_PAGES):
            query = f"?{urlencode({'pageToken': token})}" if token else ""
            said = self._look_up(f"namespaces/{quote(namespace, safe='')}/tables{query}")
            if said is None:
                return []
            found += [str(one["name"]) for one in said.get("identifiers", [])]
            token = str(said.get("next-page-token") or "")
            if not token:
                break
        return found

    def location(self, name: str) -> str:
        """URI of a table's newest metadata file."""
        namespace, _, table = name.partition(".")
        # The newest snapshot is enough of the answer; the metadata file itself has all of them.
        said = self._look_up(
            f"namespaces/{quote(namespace, safe='')}/tables/{quote(table, safe='')}?snapshots=refs"
        )
        if said is None:
            raise CatalogError(f"the table {name} is not in the catalog any more", hint="try again")
        return str(said["metadata-location"])

    def _exchanged(self) -> str:
        """A token for the credential (OAuth 2, client credentials)."""
        client, _, secret = self._login.credential.rpartition(":")
        form = {"grant_type": "client_credentials", "client_secret": secret, "scope": self._login.scope}
        if client:
            form["client_id"] = client
        url = self._login.token_uri or f"{self._login.uri}/v1/oauth/tokens"
        return str(_answer(url, {}, urlencode(form).encode())["access_token"])

    def _look_up(self, path: str) -> dict[str, Any] | None:
        """What the server says of something; None when there is no such thing."""
        try:
            return self._get(f"{self._base}/{path}")
        except CatalogError as error:
            cause = error.__cause__
            if isinstance(cause, urllib.error.HTTPError) and cause.code == _NOT_FOUND:
                return None
            raise

    def _get(self, path: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return _answer(f"{self._login.uri}/{path}", headers)


def _answer(url: str, headers: Mapping[str, str], form: bytes | None = None) -> dict[str, Any]:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise CatalogError(
            "the catalog's address is not one of HTTP", hint="TIDINGS_LAKEHOUSE_CATALOG names it"
        )
    request = urllib.request.Request(url, form, {"Accept": "application/json", **headers})  # noqa: S310 - seen above
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - seen above
            return dict(json.load(answer))
    except urllib.error.HTTPError as error:
        error.close()
        raise CatalogError(
            f"the catalog refuses: HTTP {error.code}",
            hint="see TIDINGS_LAKEHOUSE_CATALOG and the login beside it",
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CatalogError(
            f"the catalog at {urlsplit(url).netloc.rpartition('@')[2]} does not answer as one: {type(error).__name__}",
            hint="see TIDINGS_LAKEHOUSE_CATALOG, and that the server runs",
        ) from error
