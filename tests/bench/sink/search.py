"""Documents into OpenSearch: our sink's task beside `helpers.bulk` of opensearch-py, which is no dependency of ours.

Both get the same decoded rows and write them with external versions, in requests of 2,000. Ours also reads the schema, makes ids
from keys, and dates and decimals from Connect's values; opensearch-py is given documents that are ready. What is counted is the
processor time of the client's process; the server's is its own.
"""

import importlib.util
import random
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_envelope.decimals import CONNECT_DECIMAL
from tidings_envelope.schema import ConnectSchema, ConnectType, Field
from tidings_jvm import PlainProgress
from tidings_sinks.search.settings import read_settings
from tidings_sinks.search.task import SearchSinkTask
from tidings_stack.opensearch import OpenSearchServer
from tidings_stack.stack import Stack

REQUEST: Final = 2000
ROUNDS: Final = 3
KEY_SCHEMA: Final = ConnectSchema(
    ConnectType.STRUCT, name="Key", fields=(Field("id", ConnectSchema(ConnectType.INT64)),)
)
ROW_SCHEMA: Final = ConnectSchema(
    ConnectType.STRUCT,
    name="Row",
    fields=(
        Field("id", ConnectSchema(ConnectType.INT64)),
        Field("customer", ConnectSchema(ConnectType.STRING)),
        Field("quantity", ConnectSchema(ConnectType.INT32)),
        Field("amount", ConnectSchema(ConnectType.BYTES, name=CONNECT_DECIMAL, parameters={"scale": "2"})),
        Field("placed_at", ConnectSchema(ConnectType.INT64, name="io.debezium.time.MicroTimestamp")),
        Field("day", ConnectSchema(ConnectType.INT32, name="io.debezium.time.Date")),
        Field("ratio", ConnectSchema(ConnectType.FLOAT64)),
        Field("yes", ConnectSchema(ConnectType.BOOLEAN)),
        Field("note", ConnectSchema(ConnectType.STRING, optional=True)),
        Field("status", ConnectSchema(ConnectType.STRING)),
    ),
)


def rows(count: int) -> list[dict[str, Any]]:
    """Rows of ten columns, as a converter makes them."""
    source = random.Random(1)
    return [
        {
            "id": number,
            "customer": f"customer {source.random()}",
            "quantity": source.randrange(1000),
            "amount": Decimal(source.randrange(10**8)).scaleb(-2),
            "placed_at": 1_767_323_045_678_901 + number * 1_000_003,
            "day": 20_455 + number % 300,
            "ratio": source.random(),
            "yes": number % 2 == 0,
            "note": None if number % 3 else "a note of some words",
            "status": ("new", "paid", "sent")[number % 3],
        }
        for number in range(count)
    ]


def ours(url: str, index: str, found: list[dict[str, Any]]) -> None:
    task = SearchSinkTask(read_settings({"connection.url": url}), SinkContext("bench", 0, refused))
    at = TopicPartition(index, 0)
    for first in range(0, len(found), REQUEST):
        task.put(
            [
                SinkRecord(
                    index, 0, KEY_SCHEMA, {"id": row["id"]}, ROW_SCHEMA, row, None, [], first + place, at
                )
                for place, row in enumerate(found[first : first + REQUEST])
            ]
        )
    task.stop()


def refused(_: SinkRecord, error: Exception) -> None:
    """A record that cannot be written ends the benchmark."""
    raise error


def theirs(url: str, index: str, found: list[dict[str, Any]]) -> None:
    import opensearchpy
    from opensearchpy import helpers

    client = opensearchpy.OpenSearch(url)

    def actions() -> Iterator[dict[str, Any]]:
        for place, row in enumerate(found):
            yield {
                "_index": index,
                "_id": str(row["id"]),
                "version": place,
                "version_type": "external",
                "_source": row,
            }

    done, _ = helpers.bulk(client, actions(), chunk_size=REQUEST)
    assert done == len(found)
    client.close()


def run(count: int) -> None:
    """Print what both do with so many rows."""
    if importlib.util.find_spec("opensearchpy") is None:
        sys.exit(
            "opensearch-py is not here: pip install --target DIRECTORY opensearch-py, and PYTHONPATH=DIRECTORY"
        )
    found = rows(count)
    plain = [
        {**row, "amount": str(row["amount"]), "placed_at": "2026-01-02T03:04:05.678901", "day": "2026-01-02"}
        for row in found
    ]
    with Stack(members=(), progress=PlainProgress(print)) as stack:
        server = stack.add(OpenSearchServer)
        sides: tuple[
            tuple[str, Callable[[str, str, list[dict[str, Any]]], None], list[dict[str, Any]]], ...
        ] = (
            ("opensearch-py", theirs, plain),
            ("our task", ours, found),
        )
        for number in range(ROUNDS + 1):  # the first warms the server
            for name, write, given in sides:
                wall, processor = time.monotonic(), time.process_time()
                write(server.url, f"bench-{name.replace(' ', '-')}-{number}", given)
                wall, processor = time.monotonic() - wall, time.process_time() - processor
                if number:
                    print(
                        f"{name:14} {count / wall:9,.0f} documents/s {count / processor:9,.0f} documents per CPU second"
                    )
