"""What servers do to their clients: they are away, busy, cut off, encrypted; and tasks that lose their partitions write late."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from mongo_parts import BY_KEY, POSITIONS, TOLERANT, Documents
from mongo_proxy import Proxy
from search_proxy import issued
from structlog.testing import capture_logs

from tidings_connect.errors import WorkerConfigError
from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, TopicPartition
from tidings_sinks.errors import TargetError
from tidings_sinks.mongo.settings import read_settings
from tidings_sinks.mongo.task import MongoSinkTask
from tidings_stack.mongo import FerretServer, MongoServer
from tidings_stack.waiting import wait_for

QUICK = "serverSelectionTimeoutMS=300"


@pytest.fixture
def proxy(mongo: MongoServer, documents: Documents) -> Iterator[Proxy]:
    with Proxy(mongo.port, own=POSITIONS) as proxy:
        documents.config |= BY_KEY | {"connection.uri": f"{proxy.url}/?{QUICK}"}
        yield proxy


def task_of(documents: Documents, **more: str) -> MongoSinkTask:
    """A task by itself: what one does whose partitions went elsewhere, and who has not heard of it."""
    config = (
        documents.config | {"topics": documents.topic} | {k.replace("_", "."): v for k, v in more.items()}
    )
    return MongoSinkTask(read_settings("sink", config), SinkContext("sink", 0, _refused), tolerates=False)


def _refused(_: SinkRecord, error: Exception) -> None:
    raise error


def record(topic: str, offset: int, key: Any, value: Any, partition: int = 0) -> SinkRecord:
    at = TopicPartition(topic, partition)
    return SinkRecord(topic, partition, None, key, None, value, None, [], offset, at)


def test_a_server_that_is_busy_is_asked_again(documents: Documents, proxy: Proxy) -> None:
    proxy.busy = 3
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.wait()
    assert len(proxy.writes) == 4
    assert documents.found() == [{"_id": {"id": 1}, "n": 1}]


def test_an_answer_that_is_lost_does_nothing_twice(documents: Documents, proxy: Proxy) -> None:
    proxy.cut = 1
    documents.config |= TOLERANT
    for key, value in ((1, {"n": 1}), (2, {"n": 1}), (1, {"n": 2}), (2, None), (3, "bad")):
        documents.put({"id": key}, value)
    documents.run()
    documents.wait()
    assert len(proxy.writes) >= 2
    assert documents.found() == [{"_id": {"id": 1}, "n": 2}]
    assert len(documents.letters()) == 1, "also a bad record is reported once"


@pytest.mark.parametrize("write", ["InsertOneDefault", "UpdateOneTimestamps", "ReplaceOneDefault"])
def test_an_answer_that_is_lost_makes_no_second_document(
    documents: Documents, proxy: Proxy, write: str
) -> None:
    proxy.cut = 1
    documents.config |= {
        "document.id.strategy": "", "delete.on.null.values": "false",
        "writemodel.strategy": f"com.mongodb.kafka.connect.sink.writemodel.strategy.{write}Strategy",
    }  # fmt: skip
    for number in range(3):
        documents.put(None, {"n": number})
    documents.run()
    documents.wait()
    assert sorted(each["n"] for each in documents.raw()) == [0, 1, 2]


def test_a_server_that_is_away_is_waited_for(documents: Documents, proxy: Proxy) -> None:
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.wait()
    proxy.away = True
    proxy.drop()
    documents.put({"id": 1}, {"n": 2})
    documents.put({"id": 2}, {"n": 1})
    documents.worker.wait_for(lambda: proxy.refused > 1, "an attempt")
    assert documents.worker.error is None
    proxy.away = False
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 2}, {"_id": {"id": 2}, "n": 1}]


def test_a_connector_starts_before_its_server(documents: Documents, proxy: Proxy) -> None:
    proxy.away = True
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.worker.wait_for(lambda: proxy.refused > 1, "an attempt")
    proxy.away = False
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 1}]


def test_requests_have_as_many_records_as_the_options_say(documents: Documents, proxy: Proxy) -> None:
    for number in range(5):
        documents.put({"id": number}, {"n": number})
    documents.run(max_batch_size="2", rate_limiting_every_n="2", rate_limiting_timeout="10")
    documents.wait()
    assert len(proxy.writes) == 3


def test_an_authority_and_a_wrong_one(mongo: MongoServer, documents: Documents, tmp_path: Path) -> None:
    key, trusted = issued(tmp_path)
    with Proxy(mongo.port, own=POSITIONS, key=key) as proxy:
        documents.config |= BY_KEY | {
            "connection.uri": f"{proxy.url}&{QUICK}",
            "connection.ssl.truststore": str(trusted),
        }
        documents.run()
        documents.put({"id": 1}, {"n": 1})
        documents.wait()
        documents.run(connection_ssl_truststore=str(tmp_path / "none.p12"))
        wait_for("a failure", lambda: documents.worker.error is not None)
        error = documents.worker.error
        assert isinstance(error, WorkerConfigError)
        assert "connection.ssl.truststore: " in str(error)
    assert documents.found() == [{"_id": {"id": 1}, "n": 1}]


def test_a_login_that_is_refused_ends_the_task(documents: Documents, mongo: MongoServer) -> None:
    documents.config |= BY_KEY | {"connection.uri": mongo.url.replace("//", "//me:secret@")}
    documents.put({"id": 1}, {"n": 1})
    documents.run()
    wait_for("a failure", lambda: documents.worker.error is not None)
    assert isinstance(documents.worker.error, TargetError)
    assert "secret" not in str(documents.worker.error)


# Tasks that write late


def test_a_task_that_lost_its_partition_writes_nothing(
    mongo: MongoServer, documents: Documents, proxy: Proxy
) -> None:
    late, owner = task_of(documents), task_of(documents, connection_uri=mongo.url)
    at = TopicPartition(documents.topic, 0)
    late.open([at])
    late.put([record(documents.topic, 0, {"id": 1}, {"n": 0})])
    owner.open([at])
    owner.put([record(documents.topic, 1, {"id": 1}, None)])
    with pytest.raises(RetriableError, match="another task"):
        late.put([record(documents.topic, 0, {"id": 1}, {"n": 0})])
    assert len(proxy.writes) == 1, "also not for a moment"
    assert documents.raw() == []
    for task in (late, owner):
        task.stop()


@pytest.mark.parametrize("answered", [True, False], ids=["in time", "whose answer was lost"])
def test_what_is_written_while_the_partition_goes_is_taken_back(
    documents: Documents, proxy: Proxy, answered: bool
) -> None:
    """Between its look and its write, another task takes the partition, and deletes the document by a later record."""
    at = TopicPartition(documents.topic, 0)
    late = task_of(documents)
    owner = task_of(
        documents, connection_uri=str(documents.client.address and f"mongodb://127.0.0.1:{proxy.port}")
    )
    late.open([at])

    def another() -> None:
        owner.open([at])
        owner.put(
            [
                record(documents.topic, 0, {"id": 1}, {"n": 0}),
                record(documents.topic, 1, {"id": 1}, None),
                record(documents.topic, 2, {"id": 2}, {"n": 2}),
            ]
        )

    proxy.before_write = another
    if not answered:
        proxy.cut = 1
    batch = [record(documents.topic, 0, {"id": 1}, {"n": 0}), record(documents.topic, 2, {"id": 2}, {"n": 2})]
    with pytest.raises(RetriableError):
        late.put(batch)
    if not answered:
        assert len(documents.raw()) == 2, "it could not look"
        late.close([at])
    for task in (late, owner):
        task.stop()
    assert documents.found() == [{"_id": {"id": 2}, "n": 2}]


@pytest.mark.parametrize("by", ["the next batch", "the stop"])
def test_what_was_written_while_the_partition_went_is_taken_back_when_the_server_is_there_again(
    documents: Documents, proxy: Proxy, mongo: MongoServer, by: str
) -> None:
    at, other = TopicPartition(documents.topic, 0), TopicPartition(documents.topic, 1)
    late = task_of(documents, connection_uri=f"{proxy.url}/?serverSelectionTimeoutMS=2000")
    owner = task_of(documents, connection_uri=mongo.url)
    late.open([at, other])

    def another() -> None:
        owner.open([at])
        owner.put([record(documents.topic, 1, {"id": 1}, None)])

    proxy.before_write = another
    proxy.cut = 1
    with pytest.raises(RetriableError):
        late.put([record(documents.topic, 0, {"id": 1}, {"n": 0})])
    proxy.away = True
    proxy.drop()
    late.close([at])
    assert [document["_id"] for document in documents.raw()] == [{"id": 1}]
    proxy.away = False
    if by == "the next batch":
        late.put([record(documents.topic, 0, {"id": 2}, {"n": 2}, partition=1)])
        assert documents.found() == [{"_id": {"id": 2}, "n": 2}]
    late.stop()
    assert [each["_id"] for each in documents.found()] == ([{"id": 2}] if by == "the next batch" else [])
    owner.stop()


def test_a_task_goes_on_when_another_had_its_partition_for_a_while(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.wait()
    at = TopicPartition(documents.topic, 0)
    other = task_of(documents)
    other.open([at])
    other.stop()
    documents.put({"id": 1}, {"n": 2})
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 2}]
    (kept,) = (each for each in documents.database[POSITIONS].find() if "epoch" in each)
    assert kept["epoch"] == 3


def test_a_delete_that_comes_late_is_not_remembered_in_place_of_a_newer_one(documents: Documents) -> None:
    documents.config |= BY_KEY
    first, second = task_of(documents), task_of(documents)
    at = TopicPartition(documents.topic, 0)
    first.open([at])
    first.put([record(documents.topic, 5, {"id": 1}, None)])
    second.open([at])
    second.put([record(documents.topic, 3, {"id": 1}, None), record(documents.topic, 4, {"id": 1}, {"n": 4})])
    assert documents.raw() == []
    (mark,) = (each for each in documents.database[POSITIONS].find() if "epoch" not in each)
    assert mark["offset"] == Int64(5)
    for task in (first, second):
        task.stop()


@pytest.mark.parametrize("documents", ["ferretdb"], indirect=True)
def test_a_server_that_is_killed_keeps_what_was_committed(
    ferretdb: FerretServer, documents: Documents
) -> None:
    """FerretDB's data outlive it."""
    documents.config |= BY_KEY | {"connection.uri": f"{ferretdb.url}/?{QUICK}"}
    documents.run()
    for number in range(20):
        documents.put({"id": number}, {"n": number})
    documents.wait()
    ferretdb.kill()
    try:
        with capture_logs() as logs:
            documents.put({"id": 99}, {"n": 0})
            documents.put({"id": 0}, {"n": 100})
            documents.worker.wait_for(lambda: any("busy" in line["event"] for line in logs), "an attempt")
    finally:
        ferretdb.start()  # for the tests that follow, also where this one fails
    documents.wait()
    found = {each["_id"]["id"]: each["n"] for each in documents.raw()}
    assert len(found) == 21
    assert (found[0], found[19], found[99]) == (100, 19, 0)
