"""Which document a record becomes: positions and replays, deletes, envelopes, values not sent, collections, events."""

from collections.abc import Mapping
from typing import Any

import pytest
from bson import Int64
from mongo_parts import (
    BY_KEY,
    LETTERS,
    ONE_BY_ONE,
    POSITIONS,
    POSTGRES,
    Documents,
    both_servers,
    id_strategy,
)
from pymongo import ReplaceOne
from pymongo.errors import DuplicateKeyError
from structlog.testing import capture_logs

PLACEHOLDER = "__debezium_unavailable_value"


def envelope(op: str, after: Mapping[str, Any] | None, before: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"table": "orders", "lsn": 7}}


@both_servers
@pytest.mark.parametrize("polled", ["500", "1"], ids=["in one batch", "one by one"])
@pytest.mark.parametrize("ordered", ["true", "false"])
def test_the_last_record_of_a_key_counts_however_often_records_come(
    documents: Documents, ordered: str, polled: str
) -> None:
    documents.config |= {
        **BY_KEY, "bulk.write.ordered": ordered, "consumer.override.max.poll.records": polled,
    }  # fmt: skip
    documents.run()
    for number in range(3):
        documents.put({"id": "a"}, {"n": number})
    documents.put({"id": "b"}, {"n": 1})
    documents.put({"id": "b"}, None)
    documents.put({"id": "c"}, {"n": 1})
    documents.put({"id": "c"}, None)
    documents.put({"id": "c"}, {"n": 2})
    documents.wait()
    place = f"{documents.topic}-0"
    wanted = [
        {"_id": {"id": "a"}, "n": 2, "_tidings": {"place": place, "offset": 2}},
        {"_id": {"id": "c"}, "n": 2, "_tidings": {"place": place, "offset": 7}},
    ]
    assert documents.raw() == wanted
    written: list[Any] = []
    with capture_logs() as logs:
        documents.replay()
        written += documents.raw()
    assert written == wanted
    assert not [line for line in logs if "newer than records" in line["event"]], "a replay is no conflict"


@both_servers
def test_a_replay_brings_nothing_back_meanwhile(documents: Documents) -> None:
    """Also not for a moment: what is replaced or deleted by a later record is not written again."""
    documents.config |= BY_KEY | ONE_BY_ONE
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.put({"id": 1}, {"n": 2})
    documents.put({"id": 2}, {"n": 1})
    documents.put({"id": 2}, None)
    documents.wait()
    documents.worker.stop()
    documents.database[documents.topic].create_index("n", unique=True, name="told")
    documents.database[documents.topic].insert_one({"_id": "guard", "n": 1})  # a write of n=1 would fail
    documents.worker.reset_offsets()
    documents.worker.resume()
    documents.wait()
    assert [each["_id"] for each in documents.raw()] == ["guard", {"id": 1}]


@both_servers
def test_a_late_record_of_another_task_changes_nothing(documents: Documents) -> None:
    """What a task that has lost its partitions sends late: after a newer document, and after a delete."""
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, {"n": 0})
    documents.put({"id": 1}, {"n": 1})
    documents.wait()
    late = {"place": f"{documents.topic}-0", "offset": Int64(0)}
    found = {
        "_id": {"id": 1},
        "$or": [{"_tidings.place": {"$ne": late["place"]}}, {"_tidings.offset": {"$lt": 0}}],
    }
    with pytest.raises(DuplicateKeyError):
        documents.database[documents.topic].replace_one(found, {"n": 0, "_tidings": late}, upsert=True)
    assert documents.found() == [{"_id": {"id": 1}, "n": 1}]


def test_deletes_are_remembered_for_a_while(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, {"n": 0})
    documents.put({"id": 1}, None)
    documents.wait()
    kept = {str(each["_id"]): each for each in documents.database[POSITIONS].find()}
    mark = kept[str({"of": f"{documents.topic}.{documents.topic}", "id": {"id": 1}})]
    assert (mark["place"], mark["offset"]) == (f"{documents.topic}-0", 1)
    (of_partition,) = (each for each in kept.values() if "epoch" in each)
    assert (of_partition["epoch"], of_partition["to"]) == (1, 2)
    assert any("at" in str(index["key"]) for index in documents.database[POSITIONS].list_indexes())


@both_servers
def test_a_record_of_another_partition_counts(documents: Documents) -> None:
    """A topic that got more partitions has keys in others, whose offsets are lower."""
    documents.worker.kafka.inputs.create(documents.topic, 2)
    documents.config |= BY_KEY
    documents.run()
    for number in range(3):
        documents.put({"id": 1}, {"n": number})
    documents.wait()
    documents.put({"id": 1}, {"n": 9}, partition=1)
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 9}]


@both_servers
def test_a_topic_that_was_created_anew(documents: Documents) -> None:
    """Its records are older than the documents, until the epoch is raised."""
    documents.config |= BY_KEY
    documents.run()
    for number in range(3):
        documents.put({"id": 1}, {"n": number})
    documents.wait()
    documents.worker.stop()
    field = "_tidings.offset"
    documents.database[documents.topic].update_one({}, {"$set": {field: Int64(100)}})
    documents.worker.resume()
    with capture_logs() as logs:
        documents.put({"id": 1}, {"n": 7})
        documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 2}]
    assert sum("newer than records" in line["event"] for line in logs) == 1
    documents.run(tidings_positions_epoch="1")
    documents.put({"id": 1}, {"n": 8})
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 8}]


@both_servers
def test_envelopes_by_the_handler(documents: Documents) -> None:
    documents.config |= {"change.data.capture.handler": POSTGRES, **LETTERS}
    documents.run()
    documents.put({"id": 1}, envelope("r", {"id": 1, "city": "Oslo", "none": None}))
    documents.put({"id": 2}, envelope("c", {"id": 2, "city": "Bonn"}))
    documents.put({"id": 1}, envelope("u", {"id": 1, "city": "Rome", "none": None}))
    documents.put({"id": 2}, envelope("d", None))
    documents.put({"id": 2}, None)
    documents.put({"id": 3}, envelope("t", None))
    documents.put({"id": 3}, {**envelope("m", None), "message": {}})
    documents.put({"id": 3}, {"ddl": "CREATE"})
    documents.put({"id": 3}, {"id": 3})
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "city": "Rome", "none": None}]
    said = documents.reasons()
    assert len(said) == 2
    assert "TRUNCATE" in said[0]
    assert "not an envelope" in said[1]
    documents.run(change_data_capture_handler_remove_null_values="true")
    documents.put({"id": 1}, envelope("u", {"id": 1, "city": "Rome", "none": None, "in": [{"x": None}]}))
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "city": "Rome", "in": [{}]}]


def test_rows_without_a_key(documents: Documents) -> None:
    documents.config |= {"change.data.capture.handler": POSTGRES}
    documents.run()
    documents.put(None, envelope("c", {"n": 1}))
    documents.put(None, envelope("c", {"n": 2}))
    documents.put(None, envelope("u", {"n": 3}, before={"n": 1}))
    documents.put(None, envelope("d", None, before={"n": 2}))
    documents.wait()
    assert [each["n"] for each in documents.raw()] == [3]


def test_an_envelope_is_the_document_without_a_handler(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, envelope("c", {"id": 1}))
    documents.wait()
    (found,) = documents.found()
    assert found["after"] == {"id": 1}


@both_servers
@pytest.mark.parametrize("handler", [True, False], ids=["envelopes", "flat"])
def test_values_that_were_not_sent_stay_as_they_are(documents: Documents, handler: bool) -> None:
    documents.config |= {"change.data.capture.handler": POSTGRES} if handler else BY_KEY

    def put(key: int, op: str, row: dict[str, Any]) -> None:
        documents.put({"id": key}, envelope(op, {"id": key, **row}) if handler else row)

    documents.run()
    put(1, "c", {"n": 1, "text": "long", "tags": ["a"]})
    put(1, "u", {"n": 2, "text": PLACEHOLDER, "tags": [PLACEHOLDER]})
    put(2, "u", {"n": 2, "text": PLACEHOLDER})
    documents.wait()
    wanted = [{"_id": {"id": 1}, "n": 2, "text": "long", "tags": ["a"]}, {"_id": {"id": 2}, "n": 2}]
    assert documents.found() == wanted
    documents.replay()
    assert documents.found() == wanted


def test_collections_by_fields(documents: Documents) -> None:
    documents.config |= {
        **BY_KEY, **LETTERS,
        "namespace.mapper": "com.mongodb.kafka.connect.sink.namespace.mapping.FieldPathNamespaceMapper",
        "namespace.mapper.value.collection.field": "where.table",
    }  # fmt: skip
    documents.run()
    documents.put({"id": 1}, {"where": {"table": "one"}})
    documents.put({"id": 2}, {"where": {"table": "two"}})
    documents.put({"id": 3}, {"n": 1})
    documents.put({"id": 4}, {"where": {"table": "$odd"}})
    documents.wait()
    assert [len(documents.raw(name)) for name in ("one", "two", documents.topic)] == [1, 1, 1]
    assert len(documents.letters()) == 1
    documents.run(namespace_mapper_error_if_invalid="true")
    documents.put({"id": 5}, {"n": 1})
    documents.wait()
    assert len(documents.letters()) == 2


def test_topics_with_options_of_their_own(documents: Documents) -> None:
    other = f"{documents.topic}.public.other"
    documents.config |= {
        **BY_KEY, "collection": "all",
        f"topic.override.{other}.collection": "other",
        f"topic.override.{other}.document.id.strategy": id_strategy("KafkaMetaData"),
        f"topic.override.{other}.delete.on.null.values": "false",
    }  # fmt: skip
    documents.start(f"{documents.topic},{other}")
    documents.put({"id": 1}, {"n": 1})
    documents.send(other, {"id": 1}, {"n": 2})
    documents.wait()
    assert documents.found("all") == [{"_id": {"id": 1}, "n": 1}]
    assert documents.found("other") == [{"_id": f"{other}#0#0", "n": 2}]


def send_event(documents: Documents, number: int, event: str, **more: str) -> None:
    attributes = {"ce_specversion": "1.0", "ce_id": event, "ce_type": "shop.order-placed.v1", **more}
    headers = [(name, text.encode()) for name, text in attributes.items()]
    documents.put(f"order-{number}", {"order_id": number, "total": "12.30"}, headers=headers)


def test_events_by_their_id_and_by_their_subject(documents: Documents) -> None:
    documents.run(tidings_id_header="ce_id", tidings_headers="ce_type,ce_id")
    with capture_logs() as logs:
        for event in ("a", "b", "a"):
            send_event(documents, 1, event, ce_deprecated="true", ce_deprecationsunset="2027-05-01T00:00:00Z")
        documents.wait()
    body = {"order_id": 1, "total": "12.30", "ce_type": "shop.order-placed.v1"}
    assert documents.found() == [{"_id": "a", **body, "ce_id": "a"}, {"_id": "b", **body, "ce_id": "b"}]
    told = [line for line in logs if "deprecated" in line["event"]]
    assert len(told) == 1
    assert "2027-05-01" in str(told[0])
    documents.worker.stop()
    documents.worker.reset_offsets()
    documents.run(
        tidings_id_header="",
        tidings_headers="",
        collection="last",
        document_id_strategy=id_strategy("FullKey"),
    )
    documents.wait()
    assert documents.found("last") == [{"_id": "order-1", "order_id": 1, "total": "12.30"}]


def test_documents_that_another_wrote_are_replaced(documents: Documents) -> None:
    """Without a place, a document counts as older."""
    documents.database[documents.topic].bulk_write([ReplaceOne({"_id": {"id": 1}}, {"n": 0}, upsert=True)])
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.wait()
    assert documents.found() == [{"_id": {"id": 1}, "n": 1}]
