"""The same connector JSON for mongo-kafka's sink on Kafka Connect and for ours, each with a database of its own.

Both read the same bytes, and write to the same server. What is compared: the documents of every collection, with the types of
their values. Ours is told to make of Debezium's types what mongo-kafka does; the places that it keeps are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import CodecOptions
from bson.codec_options import DatetimeConversion
from jdbc_sinks.sides import SCHEMAS, Debezium
from jdbc_sinks.stream import Sent
from pymongo import MongoClient
from random_streams import run_in_memory

from tidings_sinks.mongo.connector import MongoSink

OURS_ONLY = {"tidings.values": "connect"}
_OWN_FIELDS = ("_tidings", "_modifiedTS", "_insertedTS", "CREATE_TIME")
"""Of documents: ours, and the times at which each side wrote, or its records were made."""


@dataclass
class Outcome:
    """How a sink has ended, and what it has left."""

    error: str | None = None
    """Why its task FAILED."""
    documents: dict[str, list[str]] = field(default_factory=dict)
    """Of each collection, as text with types, sorted."""


def contents(server: str, database: str, *, ids: bool) -> dict[str, list[str]]:
    """All documents of a database, which is dropped.

    Args:
        ids: whether ``_id`` counts, or is random on one side.
    """
    codec: CodecOptions[dict[str, Any]] = CodecOptions(
        document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
    )
    with MongoClient[dict[str, Any]](server) as client:
        found = {}
        own = client.get_database(database, codec_options=codec)
        for name in own.list_collection_names():
            if name != "tidings_sink_positions":
                found[name] = sorted(shown(document, ids=ids) for document in own[name].find())
        client.drop_database(database)
    return {name: documents for name, documents in found.items() if documents}


def shown(document: Mapping[str, Any], *, ids: bool) -> str:
    """A document as text with the types of its values, whatever the order of its fields."""
    left_out = _OWN_FIELDS if ids else (*_OWN_FIELDS, "_id")
    return _shown({name: value for name, value in document.items() if name not in left_out})


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {_shown(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return repr(value)


def differences(theirs: Mapping[str, Sequence[str]], ours: Mapping[str, Sequence[str]]) -> list[str]:
    """Where the documents differ, in words."""
    found = []
    for name in sorted(theirs.keys() | ours.keys()):
        its, own = list(theirs.get(name, ())), list(ours.get(name, ()))
        if its != own:
            found.append(f"{name}: {len(its)} documents and ours {len(own)}")
            found += [f"  only theirs: {each[:400]}" for each in its if each not in own][:5]
            found += [f"  only ours:   {each[:400]}" for each in own if each not in its][:5]
    return found


class MongoKafka:
    """MongoDB's sink.

    Args:
        url: of Kafka Connect's REST API.
        bootstrap: Kafka's.
    """

    def __init__(self, url: str, bootstrap: str) -> None:
        self._connect = Debezium(url, bootstrap)

    def run(
        self, name: str, server: str, options: Mapping[str, str], records: Sequence[Sent], *, ids: bool = True
    ) -> Outcome:
        """Everything, from the topics to what is left in the database."""
        ends = self._connect.produce(records)
        config = _config(server, f"{name}_theirs", ends, options) | {"tasks.max": "1"}
        with self._connect.running(name, config):
            error = self._connect.wait(name, ends)
        return Outcome(error, contents(server, f"{name}_theirs", ids=ids))


def _config(
    server: str, database: str, ends: Mapping[str, int], options: Mapping[str, str]
) -> dict[str, str]:
    return {
        "connector.class": MongoSink.class_name,
        "topics": ",".join(ends),
        **SCHEMAS,
        "connection.uri": server,
        "database": database,
        **options,
    }


def run_ours(
    name: str, server: str, options: Mapping[str, str], records: Sequence[Sent], *, ids: bool = True
) -> Outcome:
    """The same on a worker in memory."""
    error = run_in_memory(
        MongoSink(),
        name,
        records,
        lambda ends: _config(server, f"{name}_ours", ends, options) | OURS_ONLY,
    )
    return Outcome(error, contents(server, f"{name}_ours", ids=ids))
