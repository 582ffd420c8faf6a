"""What a record asks of a collection: write models and the handler of Debezium's envelopes. Pure.

The semantics are those of MongoDB's connector (``com.mongodb.kafka.connect.sink``). An operation that finds its document by
``_id`` can carry the record's place: `guarded` then makes a filter that leaves out a document that is of a newer record.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tidings_connect.data.schemas import PerSchema
from tidings_connect.task.sink import SinkRecord
from tidings_envelope.schema import ConnectSchema
from tidings_envelope.toast import PLACEHOLDERS, is_unavailable
from tidings_sinks.errors import RowError
from tidings_sinks.mongo import options as names
from tidings_sinks.mongo.bson_types import DatetimeMS, Int64
from tidings_sinks.mongo.documents import Document, Documents
from tidings_sinks.mongo.ids import id_of, place_of, random_id
from tidings_sinks.mongo.processors import Process, process_of, without_nulls
from tidings_sinks.mongo.settings import Id, Settings, Topic, Write

PLACE: Final = "place"
OFFSET: Final = "offset"
"""How a document holds a position."""
_PLACEHOLDERS: Final = frozenset((str, bytes, list, dict))
_ODD_DATABASE: Final = frozenset('/\\. "$\0')


class Act(StrEnum):
    """What is done."""

    REPLACE = "replace"
    UPDATE = "update"
    INSERT = "insert"
    DELETE = "delete"


class Namespace(NamedTuple):
    """A collection."""

    database: str
    collection: str


class Position(NamedTuple):
    """Where a record stands."""

    place: str
    offset: int

    @classmethod
    def of(cls, value: Any) -> "Position | None":
        """The position that a document, or the mark of a delete, holds; None where it is none."""
        if not isinstance(value, dict):
            return None
        place, offset = value.get(PLACE), value.get(OFFSET)
        return cls(place, offset) if isinstance(place, str) and isinstance(offset, int) else None

    @property
    def document(self) -> Document:
        """How a document holds it."""
        return {PLACE: self.place, OFFSET: Int64(self.offset)}


@dataclass(slots=True)
class Operation:
    """One operation."""

    record: SinkRecord
    topic: Topic
    namespace: Namespace
    act: Act
    filter: Document = field(repr=False)
    """How the document is found; of an insert empty."""
    document: Document = field(repr=False)
    """The document, or the update; of a delete empty."""
    position: Position | None = None
    """None: it is done whatever is there."""

    @property
    def id(self) -> Any:
        """The document's ``_id``; None where it is not known."""
        return self.document.get("_id") if self.act is Act.INSERT else self.filter.get("_id")


class Operations:
    """Reads records."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topics: dict[str, _Reader] = {}

    def read(self, record: SinkRecord) -> Operation | None:
        """What a record asks for; None: nothing.

        Raises:
            RowError: it is none that a collection can take.
        """
        reader = self._topics.get(record.topic)
        if reader is None:
            reader = self._topics[record.topic] = _Reader(self._settings, record.topic)
        return reader.read(record)


class _Reader:
    """Reads the records of a topic."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings, self._name = settings, name
        self._topic = topic = settings.of(name)
        self._documents = Documents(topic.values)
        self._namespace = _checked(Namespace(topic.database, topic.collection or name))
        self._after = PerSchema(_after_of)
        self._chain: list[Process | str] = []
        for link in topic.chain:
            process = link if link in {"id", "meta"} else process_of(link, topic)
            if process is not None:
                self._chain.append(process)

    def read(self, record: SinkRecord) -> Operation | None:
        if self._topic.envelopes:
            return self._envelope(record)
        if record.value is None and not self._topic.deletes:
            raise RowError(f"the record has no value, and {names.DELETES} is false")
        key = self._key(record)
        value = None
        if record.value is not None:
            value = self._documents(record.value_schema, record.value, "value")
        namespace = self._namespace_of(key, value) if self._topic.by_fields else self._namespace
        for link in self._chain:
            if link == "id":
                self._add_id(record, key, value)
            elif link == "meta":
                _add_place(record, value)
            elif not isinstance(link, str):
                link(key, value)
        if value is None:
            return self._tombstone(record, namespace, key)
        for header in record.headers if self._topic.headers else ():
            if header.key in self._topic.headers:
                value[header.key] = header.value
        return self._write(record, namespace, key, value)

    def _key(self, record: SinkRecord) -> Any:
        """The key's document, or its single value."""
        key = record.key
        if key is None:
            return None
        if type(key) is dict or isinstance(key, Mapping):
            return self._documents(record.key_schema, key, "key")
        if isinstance(key, str) and key[:1] == "{" and self._topic.id is not Id.HEADER:
            try:
                return self._documents(None, key, "key")
            except RowError:
                return key
        return self._documents.single(record.key_schema, key, "key")

    def _add_id(self, record: SinkRecord, key: Any, value: Document | None) -> None:
        if value is not None and ("_id" not in value or self._topic.id_overwrites):
            value["_id"] = id_of(self._topic, record, key, value)

    # Write models

    def _write(self, record: SinkRecord, namespace: Namespace, key: Any, value: Document) -> Operation:
        writes = self._topic.writes
        if writes is Write.DELETE:
            if key is None:
                raise RowError(f"the record has no key, by which {names.WRITES} finds the document")
            found = key if isinstance(key, dict) and "_id" in key else {"_id": key}
            return self._operation(record, namespace, Act.DELETE, found, {})
        if writes is Write.INSERT:
            return self._operation(record, namespace, Act.INSERT, {}, value)
        found = self._business(value) if writes not in _BY_ID else {"_id": value["_id"]}
        if writes is Write.DELETE_BUSINESS:
            return self._operation(record, namespace, Act.DELETE, found, {})
        if writes in {Write.REPLACE, Write.REPLACE_BUSINESS}:
            return self._replace(record, namespace, found, value)
        update = {name: item for name, item in value.items() if name != "_id" and not _is_missing(item)}
        if writes is Write.UPDATE:
            return self._operation(record, namespace, Act.UPDATE, found, {"$set": update})
        now = DatetimeMS(int(time.time() * 1000))
        document = {"$set": {**update, "_modifiedTS": now}, "$setOnInsert": {"_insertedTS": now}}
        return self._operation(record, namespace, Act.UPDATE, found, document)

    def _replace(
        self, record: SinkRecord, namespace: Namespace, found: Document, value: Document
    ) -> Operation:
        """A document in place of another; where values were not sent, the others are set and those stay."""
        missing = [
            name
            for name, item in value.items()
            # Nearly all are texts, and this is the fastest way to see that one is none.
            if (
                item in PLACEHOLDERS
                if type(item) is str
                else type(item) in _PLACEHOLDERS and is_unavailable(item)
            )
        ]
        if not missing:
            return self._operation(record, namespace, Act.REPLACE, found, value)
        update = {name: item for name, item in value.items() if name != "_id" and name not in missing}
        path = next((name for name in update if "." in name or name[:1] in {"", "$"}), None)
        if path is not None:
            raise RowError(
                f"the record lacks values that were not sent, so that its other fields are set one by one, and MongoDB cannot"
                f" set the field {path!r}, whose name it takes for a path or an operator; give the field another name by"
                " a transform"
            )
        return self._operation(record, namespace, Act.UPDATE, found, {"$set": update} if update else {})

    def _business(self, value: Document) -> Document:
        """The filter of a business key: the document that is the ``_id``, which is taken out."""
        found = value.pop("_id")
        if not isinstance(found, dict):
            raise RowError(
                f"the _id is not a document with the fields of the business key; {names.ID_OVERWRITES}=true replaces one"
                " that the value has"
            )
        return _flat(found) if self._topic.id in {Id.PARTIAL_KEY, Id.PARTIAL_VALUE} else found

    def _tombstone(self, record: SinkRecord, namespace: Namespace, key: Any) -> Operation:
        if key is None and self._topic.id is not Id.HEADER:
            raise RowError("the record has neither key nor value")
        found = id_of(self._topic, record, key, None)
        if self._topic.delete_writes is not Write.DELETE_TOMBSTONE_BUSINESS:
            return self._operation(record, namespace, Act.DELETE, {"_id": found}, {})
        if not isinstance(found, dict):
            raise RowError("the key is not a document with the fields of the business key")
        return self._operation(record, namespace, Act.DELETE, _flat(found), {})

    def _operation(
        self, record: SinkRecord, namespace: Namespace, act: Act, found: Document, document: Document
    ) -> Operation:
        position = None
        if self._topic.positions and (act is Act.INSERT or "_id" in found):
            position = Position(place_of(record, self._settings.epoch), record.offset)
            self._check_field(document.get("$set", document) if act is Act.UPDATE else document)
        return Operation(record, self._topic, namespace, act, found, document, position)

    def _check_field(self, written: Document) -> None:
        """A document that this sink has written before may have a position, which the record's replaces."""
        field = self._settings.field
        if field in written and Position.of(written[field]) is None:
            raise RowError(
                f"the record has a field {field}, which is where its document would hold the record's place; set"
                f" {names.POSITIONS_FIELD} to another name"
            )

    # Envelopes

    def _envelope(self, record: SinkRecord) -> Operation | None:
        value = record.value
        if not value and (value is None or isinstance(value, Mapping)):
            return None  # the delete before the tombstone was it
        if type(value) is not dict and not isinstance(value, Mapping):
            value = self._documents(record.value_schema, value, "value")
        op = value.get("op")
        if op == "m" or (op is None and "ddl" in value):
            return None
        if op == "t":
            raise RowError("the envelope is a TRUNCATE, which is not done to a collection")
        if op not in {"c", "r", "u", "d"}:
            raise RowError(
                f"the value is not an envelope with a change of a row, which {names.HANDLER} reads"
            )
        key = self._key(record)
        found = {"_id": key} if key is not None and key != {} else self._keyless(record, value)
        namespace = self._namespace
        if self._topic.by_fields:
            namespace = self._namespace_of(key, self._documents(record.value_schema, value, "value"))
        if op == "d":
            return self._operation(record, namespace, Act.DELETE, found, {})
        row = self._row(record, value, "after")
        of_key = key if isinstance(key, dict) else {}
        document = {"_id": found["_id"]} if "_id" in found else {}
        document |= {name: item for name, item in row.items() if name not in of_key}
        if self._topic.leaves_nulls_out:
            without_nulls(document)
        for header in record.headers if self._topic.headers else ():
            if header.key in self._topic.headers:
                document[header.key] = header.value
        return self._replace(record, namespace, found, document) if document else None

    def _keyless(self, record: SinkRecord, value: Mapping[str, Any]) -> Document:
        """How a row without a key is found: a new one by its record, an old one by all that it was."""
        if value["op"] in {"c", "r"}:
            return {"_id": random_id(record)}
        return self._row(record, value, "before")

    def _row(self, record: SinkRecord, value: Mapping[str, Any], name: str) -> Document:
        row = value.get(name)
        if not isinstance(row, Mapping) or not row:
            raise RowError(f"the envelope has no row {name} the change")
        if record.value_schema is None or record.value_schema.type != "struct":
            return row if value is not record.value else self._documents(None, row, "value")  # type: ignore[return-value]
        schemas = self._after(record.value_schema)
        if name not in schemas:
            raise RowError(f"the envelope's schema has no row {name} the change")
        return self._documents(schemas[name], row, "value")

    # Where it goes

    def _namespace_of(self, key: Any, value: Document | None) -> Namespace:
        topic = self._topic
        database, collection = self._namespace
        if topic.key_database:
            database = self._looked_up(key, topic.key_database, names.KEY_DATABASE, database)
        elif topic.value_database:
            database = self._looked_up(value, topic.value_database, names.VALUE_DATABASE, database)
        if topic.key_collection:
            collection = self._looked_up(key, topic.key_collection, names.KEY_COLLECTION, collection)
        elif topic.value_collection:
            collection = self._looked_up(value, topic.value_collection, names.VALUE_COLLECTION, collection)
        return _checked(Namespace(database, collection))

    def _looked_up(self, document: Any, path: str, option: str, default: str) -> str:
        found = _looked_up(document, path)
        if isinstance(found, str):
            return found
        if self._topic.mapper_fails:
            raise RowError(f"the record has no text in the field that {option} names")
        return default


_BY_ID: Final = frozenset((Write.REPLACE, Write.UPDATE, Write.UPDATE_TIMES))


def _after_of(schema: ConnectSchema) -> Mapping[str, ConnectSchema]:
    return {each.name: each.schema for each in schema.fields if each.name in {"before", "after"}}


def _is_missing(value: Any) -> bool:
    return type(value) in _PLACEHOLDERS and is_unavailable(value)


def _add_place(record: SinkRecord, value: Document | None) -> None:
    """``KafkaMetaAdder``."""
    if value is not None:
        value["topic-partition-offset"] = f"{record.topic}-{record.original.partition}-{record.offset}"
        if record.timestamp is not None:
            value["CREATE_TIME"] = Int64(record.timestamp)


def _flat(document: Document, parent: str = "") -> Document:
    """The fields of documents in it by their paths."""
    found: Document = {}
    for name, value in document.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{parent}{name}.")
        else:
            found[f"{parent}{name}"] = value
    return found


def _looked_up(document: Any, path: str) -> Any:
    if not isinstance(document, dict):
        return None
    if path in document:
        return document[path]
    first, dot, rest = path.partition(".")
    return _looked_up(document.get(first), rest) if dot and rest else None


def _checked(namespace: Namespace) -> Namespace:
    """The namespace, if there can be such a one."""
    database, collection = namespace
    if not database or _ODD_DATABASE.intersection(database) or len(database.encode()) > 63:
        raise RowError("the name of the database is not one that MongoDB takes")
    odd = (
        not collection
        or "$" in collection
        or "\0" in collection
        or collection[0] == "."
        or collection[-1] == "."
    )
    if odd or collection.startswith("system."):
        raise RowError("the name of the collection is not one that MongoDB takes")
    return namespace
