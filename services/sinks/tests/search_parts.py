"""What the tests of the search sink share: a sink on a worker in memory, and what its server holds."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest
from sink_targets import Sink

from tidings_connect.testing.memory_worker import MemoryWorker

Ask = Callable[..., Any]
ON_BOTH = pytest.mark.parametrize("search", ["opensearch", "elasticsearch"], indirect=True)
"""Of a test that Elasticsearch runs in the suite, too; by hand it runs all: `TIDINGS_SEARCH=elasticsearch`."""


def asking(url: str) -> Ask:
    """Asks a server: `ask("GET", "/index/_mapping")`; gives the body of its answer, `missing` where there is no such
    index."""

    client = httpx.Client(base_url=url, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))

    def ask(method: str, path: str, body: Any = None, missing: Any = None) -> Any:
        answer = client.request(method, path, json=body)
        if answer.status_code in {404, 503} and missing is not None:  # 503: an index that is being created
            return missing
        assert answer.status_code < 400, answer.text
        return answer.json()

    return ask


class Search(Sink):
    """A running sink, and its index."""

    def __init__(self, worker: MemoryWorker, url: str, topic: str) -> None:
        retries = {
            "retry.backoff.ms": "20",
            "errors.retry.delay.initial.ms": "20",
            "errors.retry.delay.max.ms": "100",
        }
        super().__init__(worker, {"connection.url": url, **retries})
        self.ask, self.topic = asking(url), topic

    def run(self, **more: str) -> None:
        """Start it on its topic; underscores of names are dots."""
        self.start(self.topic, **more)

    def put(self, key: Any, value: Any, *, partition: int = 0, headers: Any = ()) -> None:
        """A record of its topic, as JSON."""
        self.send(self.topic, key, value, partition=partition, headers=headers)

    def documents(self, index: str = "") -> dict[str, dict[str, Any]]:
        """All documents by id, after a refresh."""
        return {hit["_id"]: hit["_source"] for hit in self.hits(index)}

    def versions(self) -> dict[str, int]:
        """The version of each document by id."""
        return {hit["_id"]: hit["_version"] for hit in self.hits()}

    def hits(self, index: str = "", query: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What a query finds; all documents otherwise."""
        index = index or self.topic
        self.ask("POST", f"/{index}/_refresh", missing={})
        body = {
            "size": 1000,
            "version": True,
            "sort": [{"_seq_no": "asc"}],
            "query": query or {"match_all": {}},
        }
        found = self.ask("POST", f"/{index}/_search", body, missing={"hits": {"hits": []}})
        return found["hits"]["hits"]  # type: ignore[no-any-return]

    def hits_text(self) -> str:
        """All documents, as the server has their text."""
        self.ask("POST", f"/{self.topic}/_refresh")
        return httpx.get(f"{self.config['connection.url']}/{self.topic}/_search").text

    def mapping(self, index: str = "") -> dict[str, Any]:
        """The properties of the index's mapping."""
        (found,) = self.ask("GET", f"/{index or self.topic}/_mapping").values()
        return found["mappings"].get("properties", {})  # type: ignore[no-any-return]

    def letters(self) -> list[bytes | None]:
        """The values of the dead letters."""
        return [value for _, value, _ in self.worker.kafka.topics.get("letters", [])]


TOLERANT = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "letters",
}


def with_schema(schema: Mapping[str, Any], payload: Any) -> dict[str, Any]:
    """A value in the JsonConverter's form."""
    return {"schema": schema, "payload": payload}


def bulk(url: str, body: list[Any]) -> list[dict[str, Any]]:
    """Send a bulk request; gives what became of each operation."""
    text = "".join(json.dumps(line) + "\n" for line in body)
    answer = httpx.post(f"{url}/_bulk", content=text, headers={"content-type": "application/x-ndjson"})
    return [next(iter(item.values())) for item in answer.json()["items"]]
