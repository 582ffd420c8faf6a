"""The search sink keeps the contract of sinks; and with ids that follow from the records, nothing is there twice."""

from collections.abc import Iterator

import pytest
from search_parts import asking

from tidings_connect.testing.sink_contract import IdempotentSinkContract, SinkCase, SinkContract
from tidings_sinks.search.connector import OpenSearchSink
from tidings_stack.opensearch import OpenSearchServer


class TestDocuments(SinkContract):
    strategy = "none"

    @pytest.fixture
    def case(self, opensearch: OpenSearchServer) -> Iterator[SinkCase]:
        ask = asking(opensearch.url)

        def numbers() -> list[int]:
            ask("POST", f"/{self.topic}/_refresh", missing={})
            body = {"size": 1000, "sort": [{"_seq_no": "asc"}]}
            found = ask("POST", f"/{self.topic}/_search", body, missing={"hits": {"hits": []}})
            return [hit["_source"]["number"] for hit in found["hits"]["hits"]]

        yield SinkCase(
            connector=OpenSearchSink(),
            config={
                "connection.url": opensearch.url,
                "key.ignore": "true",
                "key.ignore.id.strategy": self.strategy,
            },
            numbers=numbers,
            repeats=self.strategy == "none",
            changed={"batch.size": "2"},
            wrong=("index.write.method", "replace"),
        )
        ask("DELETE", f"/{self.topic}", missing={})


class TestDocumentsByPlace(IdempotentSinkContract, TestDocuments):
    strategy = "topic.partition.offset"
