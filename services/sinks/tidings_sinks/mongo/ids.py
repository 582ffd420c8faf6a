"""``document.id.strategy``: what a document's ``_id`` is made of. Pure.

Where MongoDB's connector makes a random one (ObjectId, UUID), it is made of the record's place here, so that a record that comes
again is the document that is there.
"""

from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from tidings_connect.task.sink import SinkRecord
from tidings_sinks.errors import RowError
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.bson_types import UUIDS, Binary, ObjectId, object_id_of, uuid_of
from tidings_sinks.mongo.documents import Document
from tidings_sinks.mongo.processors import copied, projected
from tidings_sinks.mongo.settings import Id, Topic

_KEYS: Final = frozenset((Id.KEY, Id.PARTIAL_KEY))


def place_of(record: SinkRecord, epoch: int = 0) -> str:
    """The name of a record's partition; with an epoch that is not the first, another one."""
    at = record.original
    return f"{at.topic}-{at.partition}@{epoch}" if epoch else f"{at.topic}-{at.partition}"


def random_id(record: SinkRecord) -> ObjectId:
    """An ObjectId that no other record has, and that this one always has."""
    return object_id_of(record.timestamp, f"{place_of(record)}-{record.offset}")


def id_of(topic: Topic, record: SinkRecord, key: Any, value: Document | None) -> Any:
    """A document's ``_id``.

    Args:
        key: the key's document, or a single value; None: the record has none.
        value: the value's document; None: a tombstone.

    Raises:
        RowError: the record has not what it is made of.
    """
    kind = topic.id
    if kind in _KEYS:
        if key is None:
            raise RowError(f"the record has no key, of which {names.ID} makes the _id")
        if kind is Id.KEY or not isinstance(key, dict):
            return copied(key)
        return _projected(topic, key)
    if kind is Id.OBJECT_ID:
        return random_id(record)
    if kind is Id.UUID:
        found = uuid5(NAMESPACE_OID, f"{place_of(record)}-{record.offset}-{record.timestamp}")
        return uuid_of(found) if topic.id_binary else str(found)
    if kind is Id.PLACE:
        return f"{record.topic}#{record.original.partition}#{record.offset}"
    if kind is Id.HEADER:
        return _header(topic, record)
    if kind is Id.PARTIAL_VALUE:
        return _projected(topic, value or {})
    return _provided(kind, key if kind in {Id.IN_KEY, Id.UUID_IN_KEY} else value)


def _projected(topic: Topic, document: Document) -> Document:
    assert topic.id_projection is not None
    found: Document = copied(document)
    projected(found, topic.id_projection)
    return found


def _header(topic: Topic, record: SinkRecord) -> Any:
    found = next((header.value for header in record.headers if header.key == topic.id_header), None)
    if found is None:
        raise RowError(f"the record has no header {topic.id_header}, which {names.ID_HEADER} names")
    return found


def _provided(kind: Id, document: Any) -> Any:
    found = document.get("_id") if isinstance(document, dict) else None
    if found is None:
        raise RowError(f"the record has no _id, which {names.ID} takes")
    if kind in {Id.IN_KEY, Id.IN_VALUE} or (isinstance(found, Binary) and found.subtype in UUIDS):
        return copied(found)
    if isinstance(found, str) and len(found) in {32, 36}:
        try:
            return uuid_of(UUID(found))
        except ValueError:
            pass
    raise RowError("the _id of the record is not a UUID")
