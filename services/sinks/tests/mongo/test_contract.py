"""The MongoDB sink keeps the contract of sinks; and with ids that follow from the records, nothing is there twice."""

from collections.abc import Iterator

import pytest
from mongo_parts import id_strategy
from pymongo import MongoClient

from tidings_connect.testing.sink_contract import IdempotentSinkContract, SinkCase
from tidings_sinks.mongo.connector import MongoSink
from tidings_stack.mongo import MongoServer


class TestDocuments(IdempotentSinkContract):
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


class TestDocumentsWithPositions(TestDocuments):
    """Ids by place, and positions although the ids need none: the contract for the collection that keeps them."""

    strategy = "KafkaMetaData"

    @pytest.fixture
    def case(self, mongo: MongoServer) -> Iterator[SinkCase]:
        for case in super().case.__wrapped__(self, mongo):  # type: ignore[attr-defined]
            case.config = {**case.config, "tidings.positions": "true"}
            yield case
