"""Which document a record becomes: ids, write models, positions and replays, deletes, envelopes, values not sent, events."""

from collections.abc import Mapping
from typing import Any

import pytest
from bson import Binary, Int64, ObjectId
from mongo_parts import BY_KEY, POSITIONS, POSTGRES, TOLERANT, Documents, id_strategy, write_strategy
from pymongo import ReplaceOne
from pymongo.errors import DuplicateKeyError
from structlog.testing import capture_logs

from tidings_connect.errors import RecordError
from tidings_sinks.errors import RowError

PLACEHOLDER = "__debezium_unavailable_value"
LETTERS = TOLERANT | {"errors.deadletterqueue.context.headers.enable": "true"}
ONE_BY_ONE = {"consumer.override.max.poll.records": "1"}


def envelope(op: str, after: Mapping[str, Any] | None, before: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"table": "orders", "lsn": 7}}


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


@pytest.mark.parametrize("name", ["BsonOid", "Uuid", "KafkaMetaData"])
def test_ids_of_the_place_are_the_same_when_a_record_comes_again(documents: Documents, name: str) -> None:
    documents.config |= {"document.id.strategy": id_strategy(name)}
    documents.run()
    documents.put(None, {"n": 1})
    documents.put(None, {"n": 2})
    documents.wait()
    before = documents.raw()
    assert sorted(each["n"] for each in before) == [1, 2]
    assert all("_tidings" not in each for each in before)
    kind = {"BsonOid": ObjectId, "Uuid": str, "KafkaMetaData": str}[name]
    assert all(isinstance(each["_id"], kind) for each in before)
    documents.replay()
    assert documents.raw() == before


PARTIAL = {
    "document.id.strategy.partial.{side}.projection.type": "AllowList",
    "document.id.strategy.partial.{side}.projection.list": "id",
}
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"


@pytest.mark.parametrize(
    ("name", "options", "key", "value", "wanted"),
    [
        ("FullKey", {}, {"id": 1, "x": 2}, {"n": 1}, {"id": 1, "x": 2}),
        ("FullKey", {}, "order-1", {"n": 1}, "order-1"),
        ("FullKey", {}, 7, {"n": 1}, 7),
        ("PartialKey", {k.format(side="key"): v for k, v in PARTIAL.items()}, {"id": 1, "x": 2}, {"n": 1}, {"id": 1}),
        ("PartialValue", {k.format(side="value"): v for k, v in PARTIAL.items()}, None, {"id": 1, "n": 1}, {"id": 1}),
        ("ProvidedInKey", {}, {"_id": "k"}, {"n": 1}, "k"),
        ("ProvidedInValue", {}, None, {"_id": "v", "n": 1}, "v"),
        ("UuidProvidedInKey", {}, {"_id": UUID}, {"n": 1}, Binary(bytes.fromhex(UUID.replace("-", "")), 4)),
        ("UuidProvidedInValue", {"document.id.strategy.overwrite.existing": "true"}, None, {"_id": UUID.replace("-", "")},
         Binary(bytes.fromhex(UUID.replace("-", "")), 4)),
    ],
)  # fmt: skip
def test_ids(
    documents: Documents, name: str, options: dict[str, str], key: Any, value: Any, wanted: Any
) -> None:
    documents.config |= {"document.id.strategy": id_strategy(name), **options}
    documents.run()
    documents.put(key, value)
    documents.put(key, value)
    documents.wait()
    (found,) = documents.found()
    assert found == {**value, "_id": wanted}


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("FullKey", None, {"n": 1}, "no key"),
        ("ProvidedInKey", {"id": 1}, {"n": 1}, "no _id"),
        ("ProvidedInValue", {"id": 1}, {"n": 1}, "no _id"),
        ("UuidProvidedInKey", {"_id": "secret"}, {"n": 1}, "not a UUID"),
        ("FullKey", [1], {"n": 1}, "InvalidIdField"),
        ("FullKey", {"id": 1}, "secret", "value is not a struct"),
        ("FullKey", {"id": 1}, None, "delete.on.null.values"),
    ],
)
def test_a_bad_record_is_a_letter_and_the_others_are_written(
    documents: Documents, name: str, key: Any, value: Any, reason: str
) -> None:
    documents.config |= {"document.id.strategy": id_strategy(name), **LETTERS}
    good: Any = {"_id": UUID}
    documents.run()
    documents.put(good, {"n": 0, "_id": UUID})
    documents.put(key, value)
    documents.put(good, {"n": 2, "_id": UUID})
    documents.wait()
    assert [each["n"] for each in documents.raw()] == [2]
    (said,) = documents.reasons()
    assert reason in said
    assert "secret" not in said


def test_what_the_server_refuses_is_a_letter_and_the_others_are_written(documents: Documents) -> None:
    """In order and not; of a request of several the first, one in the middle and the last."""
    documents.database[documents.topic].create_index("n", unique=True)
    for ordered in ("true", "false"):
        documents.config |= BY_KEY | LETTERS | {"bulk.write.ordered": ordered}
        documents.run()
        for key, value in ((1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (1, 1)):
            documents.put({"id": key}, {"n": value})
        documents.wait()
    assert [each["n"] for each in documents.raw()] == [1, 3, 5]
    assert len(documents.letters()) == 4
    assert all("index n_1" in said for said in documents.reasons())


def test_a_document_that_cannot_be_sent_is_a_letter(documents: Documents) -> None:
    documents.config |= BY_KEY | LETTERS
    documents.run()
    for number, value in enumerate(({"n": 1}, {"a\0secret": 1}, {"secret": "x" * (16 << 20)}, {"n": 2})):
        documents.put({"id": number}, value)
    documents.wait()
    assert [each["n"] for each in documents.raw()] == [1, 2]
    form, size = documents.reasons()
    assert "has no form in BSON" in form
    assert "larger than" in size
    assert "secret" not in form + size


def test_by_default_a_bad_record_ends_the_task(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run()
    documents.put({"id": 1}, "secret")
    error = documents.failure()
    assert isinstance(error, RecordError)
    assert "partition 0, offset 0" in str(error)
    assert "secret" not in str(error)


def test_its_own_tolerance_counts_more_than_the_frameworks(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run(mongo_errors_tolerance="all")
    documents.put({"id": 1}, "text")
    documents.put({"id": 1}, {"n": 1})
    with capture_logs() as logs:
        documents.wait()
    assert len(documents.raw()) == 1
    assert [line["offset"] for line in logs if "left out" in line["event"]] == [0]
    documents.run(mongo_errors_tolerance="none", errors_tolerance="all")
    documents.put({"id": 1}, "text")
    error = documents.failure()
    assert isinstance(error, RowError)
    assert "partition 0, offset 2" in str(error)


def test_updates_put_fields_over_those_of_the_document(documents: Documents) -> None:
    documents.config |= BY_KEY | ONE_BY_ONE
    documents.run(writemodel_strategy=write_strategy("UpdateOneDefault"))
    documents.put({"id": 1}, {"n": 1, "inner": {"x": 1, "y": 1}})
    documents.put({"id": 1}, {"more": "text", "inner": {"y": 2}})
    documents.put({"id": 1}, {"n": 3})
    documents.put({"id": 2}, {"n": 1, "old": 1})
    documents.put({"id": 2}, None)
    documents.put({"id": 2}, {"n": 2})
    documents.wait()
    wanted = [
        {"_id": {"id": 1}, "n": 3, "inner": {"y": 2}, "more": "text"},
        {"_id": {"id": 2}, "n": 2},
    ]
    assert documents.found() == wanted
    documents.replay()
    assert documents.found() == wanted


def test_updates_with_their_times(documents: Documents) -> None:
    documents.config |= BY_KEY
    documents.run(writemodel_strategy=write_strategy("UpdateOneTimestamps"))
    documents.put({"id": 1}, {"n": 1})
    documents.wait()
    (first,) = documents.found()
    documents.put({"id": 1}, {"n": 2})
    documents.wait()
    (second,) = documents.found()
    assert second["_insertedTS"] == first["_insertedTS"]
    assert int(second["_modifiedTS"]) >= int(first["_modifiedTS"])
    assert (second["_id"], second["n"]) == ({"id": 1}, 2)


def test_business_keys(documents: Documents) -> None:
    documents.config |= {
        "document.id.strategy": id_strategy("PartialValue"),
        "document.id.strategy.partial.value.projection.type": "AllowList",
        "document.id.strategy.partial.value.projection.list": "order.id",
        "document.id.strategy.overwrite.existing": "true",
    }
    for name in ("ReplaceOneBusinessKey", "UpdateOneBusinessKeyTimestamp"):
        documents.run(writemodel_strategy=write_strategy(name))
        documents.put(None, {"order": {"id": 1}, "n": name})
        documents.put(None, {"order": {"id": 1}, "n": f"{name} again"})
        documents.wait()
        (found,) = documents.raw()
        assert isinstance(found["_id"], ObjectId)
        assert (found["order"], found["n"]) == ({"id": 1}, f"{name} again")
    documents.run(writemodel_strategy=write_strategy("DeleteOneBusinessKey"))
    documents.put(None, {"order": {"id": 1}})
    documents.wait()
    assert documents.raw() == []


def test_tombstones_by_a_business_key(documents: Documents) -> None:
    options = {k.format(side="key"): v for k, v in PARTIAL.items()}
    documents.config |= {
        "document.id.strategy": id_strategy("PartialKey"), **options, "delete.on.null.values": "true",
        "writemodel.strategy": write_strategy("ReplaceOneBusinessKey"),
        "delete.writemodel.strategy": write_strategy("DeleteOneTombstoneBusinessKey"),
    }  # fmt: skip
    documents.run()
    documents.put({"id": 1}, {"n": 1})
    documents.put({"id": 2}, {"n": 2})
    documents.wait()
    documents.database[documents.topic].update_many({}, {"$set": {"id": 1}})
    documents.put({"id": 1}, None)
    documents.wait()
    assert len(documents.raw()) == 1


def test_inserts_and_deletes_as_write_models(documents: Documents) -> None:
    documents.config |= {"document.id.strategy": id_strategy("FullKey"), **LETTERS}
    documents.run(writemodel_strategy=write_strategy("InsertOneDefault"))
    documents.put({"id": 1}, {"n": 1})
    documents.put({"id": 2}, {"n": 1})
    documents.wait()
    documents.replay()
    assert documents.letters() == [], "a record that comes again is the document that is there"
    documents.database[documents.topic].insert_one({"_id": {"id": 3}})
    documents.put({"id": 3}, {"n": 1})
    documents.wait()
    assert len(documents.letters()) == 1, "another document of its id"
    documents.run(writemodel_strategy=write_strategy("DeleteOneDefault"))
    documents.put({"id": 1}, {"any": 1})
    documents.wait()
    assert [each["_id"] for each in documents.raw()] == [{"id": 2}, {"id": 3}]


def test_inserts_of_values_ids_are_no_conflict_when_they_come_again(documents: Documents) -> None:
    documents.config |= {"document.id.strategy": id_strategy("ProvidedInValue"), **LETTERS}
    documents.run(writemodel_strategy=write_strategy("InsertOneDefault"))
    documents.put(None, {"_id": 1, "n": 1})
    documents.wait()
    documents.replay()
    assert documents.letters() == []
    documents.put(None, {"_id": 1, "n": 2})
    documents.wait()
    assert len(documents.letters()) == 1
    assert documents.found() == [{"_id": 1, "n": 1}]


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
