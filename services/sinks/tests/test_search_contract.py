"""The search sink keeps the contract of sinks; and with ids that follow from the records, nothing is there twice."""

from collections.abc import Iterator

import pytest
from search_parts import asking

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.testing.sink_contract import SinkCase, SinkContract
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


class TestDocumentsByPlace(TestDocuments):
    strategy = "topic.partition.offset"

    def test_what_was_put_is_durable_before_partitions_go_to_another_task(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        """A record that comes again is there once, also where the group repeats it."""
        case.repeats = True
        super().test_what_was_put_is_durable_before_partitions_go_to_another_task(case, worker)
        numbers = case.numbers()
        assert len(numbers) == len(set(numbers))

    def test_offsets_are_altered_and_reset_while_it_is_stopped(
        self, case: SinkCase, worker: MemoryWorker
    ) -> None:
        """Records that are read again are the documents that are there."""
        self._produce(worker, 1, 4)
        self._start(case, worker)
        self._await(case, worker, 4)
        worker.stop()
        stored = worker.offsets()
        worker.reset_offsets()
        worker.resume()
        worker.wait_for(lambda: worker.offsets() == stored, "everything once more")
        assert sorted(case.numbers()) == [1, 2, 3, 4]
