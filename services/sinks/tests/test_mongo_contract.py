"""The MongoDB sink keeps the contract of sinks; and with ids that follow from the records, nothing is there twice."""

from collections.abc import Iterator

import pytest
from mongo_parts import id_strategy
from pymongo import MongoClient

from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.mongo.connector import MongoSink
from tidings_stack.mongo import MongoServer


class TestDocuments(SinkContract):
    """By their default, ids are ObjectIds, which are made of the record's place here."""

    strategy = "BsonOid"

    @pytest.fixture
    def case(self, mongo: MongoServer) -> Iterator[SinkCase]:
        with MongoClient[dict[str, int]](mongo.url) as client:
            collection = client["contract"][self.topic]
            yield SinkCase(
                connector=MongoSink(),
                config={
                    "connection.uri": mongo.url,
                    "database": "contract",
                    "document.id.strategy": id_strategy(self.strategy),
                },
                numbers=lambda: [each["number"] for each in collection.find()],
                repeats=False,
                changed={"max.batch.size": "2"},
                wrong=("bulk.write.ordered", "maybe"),
            )
            client.drop_database("contract")

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


class TestDocumentsWithPositions(TestDocuments):
    """Ids by place, and positions although the ids need none: the contract for the collection that keeps them."""

    strategy = "KafkaMetaData"

    @pytest.fixture
    def case(self, mongo: MongoServer) -> Iterator[SinkCase]:
        for case in super().case.__wrapped__(self, mongo):  # type: ignore[attr-defined]
            case.config = {**case.config, "tidings.positions": "true"}
            yield case
