"""Which id a document has."""

from typing import Any

import pytest
from bson import Binary, ObjectId
from mongo_parts import PARTIAL, UUID, Documents, both_servers, id_strategy


@both_servers
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
