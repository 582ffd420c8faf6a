"""Locations by a REST catalog: what the Iceberg project's own server does not have, by one of answers that are written here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr

from tidings_lakehouse.catalogs.catalog import locations
from tidings_lakehouse.errors import CatalogError
from tidings_lakehouse.settings import WarehouseSettings

SECRET = "canary-4711"


class Catalog(ThreadingHTTPServer):
    """Has a login, a prefix, and lists of one table a page."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []
        self.is_ill = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/catalog"


class Answers(BaseHTTPRequestHandler):
    server: Catalog

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        is_known = (form["client_id"], form["client_secret"]) == (["lake"], [SECRET])
        self.say(
            {"access_token": "ticket"} if is_known and self.path == "/catalog/v1/oauth/tokens" else None, 401
        )

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.headers.get("Authorization") != "Bearer ticket":
            return self.say(None, 403)
        if self.server.is_ill:
            return self.say(None, 503)
        return self.say(
            {
                "/catalog/v1/config?warehouse=s3%3A%2F%2Flake%2Fw": {
                    "defaults": {},
                    "overrides": {"prefix": "main"},
                },
                "/catalog/v1/main/namespaces/technical/tables": {
                    "identifiers": [{"namespace": ["technical"], "name": "orders"}],
                    "next-page-token": "a b",
                },
                "/catalog/v1/main/namespaces/technical/tables?pageToken=a+b": {
                    "identifiers": [{"namespace": ["technical"], "name": "orders_log"}],
                    "next-page-token": None,
                },
                "/catalog/v1/main/namespaces/technical/tables/orders?snapshots=refs": {
                    "metadata-location": "s3://lake/w/orders.json"
                },
            }.get(self.path)
        )

    def say(self, what: Any, otherwise: int = 404) -> None:
        self.send_response(otherwise if what is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(what or {}).encode())


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    with Catalog() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def settings(catalog: Catalog, secret: str = SECRET) -> WarehouseSettings:
    return WarehouseSettings(
        lakehouse_warehouse="s3://lake/w",
        lakehouse_catalog=catalog.url,
        lakehouse_catalog_user="lake",
        lakehouse_catalog_password=SecretStr(secret),
    )


def test_tables_of_all_pages_and_a_location_when_it_is_asked_for(catalog: Catalog) -> None:
    found = locations(settings(catalog))
    assert sorted(found) == ["technical.orders", "technical.orders_log"]
    assert not any("snapshots=refs" in path for path in catalog.asked)
    assert found["technical.orders"] == "s3://lake/w/orders.json"
    with pytest.raises(CatalogError, match=r"the table technical\.orders_log is not in the catalog any more"):
        _ = found["technical.orders_log"]
    assert "technical.other" not in found


def test_a_login_that_is_wrong_and_a_server_that_is_ill_or_away_are_told(catalog: Catalog) -> None:
    for made in (
        settings(catalog, "other"),
        settings(catalog).model_copy(update={"lakehouse_catalog_user": "x"}),
    ):
        with pytest.raises(CatalogError, match="the catalog refuses: HTTP 401") as error:
            locations(made)
        assert SECRET not in f"{error.value} {error.value.hint}"
    catalog.is_ill = True
    with pytest.raises(CatalogError, match="the catalog refuses: HTTP 503"):
        locations(settings(catalog))
    away = settings(catalog).model_copy(update={"lakehouse_catalog": "http://127.0.0.1:1"})
    with pytest.raises(CatalogError, match=r"the catalog at 127\.0\.0\.1:1 does not answer as one: URLError"):
        locations(away)
