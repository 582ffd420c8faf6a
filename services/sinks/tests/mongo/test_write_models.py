"""How a record is written to its document: updates, business keys, inserts and deletes."""

from bson import ObjectId
from mongo_parts import (
    BY_KEY,
    LETTERS,
    ONE_BY_ONE,
    PARTIAL,
    Documents,
    both_servers,
    id_strategy,
    write_strategy,
)


@both_servers
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


@both_servers
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


@both_servers
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


@both_servers
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
