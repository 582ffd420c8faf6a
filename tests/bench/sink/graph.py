"""Rows into Neo4j: our sink's task beside the driver's own `UNWIND $rows MERGE`, which is given rows that are ready, and rows whose
values it has to make by hand as the task does by their schema.

Both write the same nodes by key under a constraint, a transaction for each 2,000, on the same server; then the same again with a
foreign key that is a relationship. Ours also reads the schema, makes decimals, dates and times of Connect's values, keeps placeholders and
its positions. What is counted is the processor time of the client's process; the server's is its own.
"""

import time
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Final

import neo4j
from tests.bench.sink.search import KEY_SCHEMA, ROW_SCHEMA, refused, rows

from tidings_connect.task.sink import SinkContext, SinkRecord, TopicPartition
from tidings_jvm import PlainProgress
from tidings_sinks.graph.settings import read_settings
from tidings_sinks.graph.task import GraphSinkTask
from tidings_stack.neo4j import Neo4jServer
from tidings_stack.stack import Stack

BATCH: Final = 2000
ROUNDS: Final = 3
_EPOCH: Final = datetime.fromisoformat("1970-01-01")
_LINK: Final = ", -[:SENT]->(:Status {!name: status})"
_NODE: Final = "UNWIND $rows AS e MERGE (n:Theirs {id: e.id}) SET n += e"
_NODE_AND_LINK: Final = f"{_NODE} MERGE (s:TheirStatus {{name: e.status}}) MERGE (n)-[:SENT]->(s)"


def ours(url: str, round_: int, found: list[dict[str, Any]], *, link: bool) -> None:
    config = {
        "neo4j.uri": url,
        "neo4j.authentication.type": "NONE",
        "neo4j.batch-size": str(BATCH),
        "tidings.row.topic.t": f"(:Ours {{!id, *}}){_LINK if link else ''}",
    }
    task = GraphSinkTask(read_settings(f"bench-{round_}-{link}", config), SinkContext("bench", 0, refused))
    at = TopicPartition("t", 0)
    task.open([at])
    for first in range(0, len(found), BATCH):
        task.put(
            [
                SinkRecord(
                    "t", 0, KEY_SCHEMA, {"id": row["id"]}, ROW_SCHEMA, row, None, [], first + place, at
                )
                for place, row in enumerate(found[first : first + BATCH])
            ]
        )
    task.stop()


def made(row: dict[str, Any]) -> dict[str, Any]:
    """A row as Neo4j has its values, by hand."""
    moment = _EPOCH + timedelta(microseconds=row["placed_at"])
    day = date.fromordinal(_EPOCH.toordinal() + row["day"])
    return {**row, "amount": format(row["amount"], "f"), "placed_at": moment, "day": day}


def theirs_made(url: str, _: int, found: list[dict[str, Any]], *, link: bool) -> None:
    """As `theirs`, of rows as a sink is given them."""
    theirs(url, _, [made(row) for row in found], link=link)


def theirs(url: str, _: int, found: list[dict[str, Any]], *, link: bool) -> None:
    with neo4j.GraphDatabase.driver(url, auth=None) as driver, driver.session() as session:
        for first in range(0, len(found), BATCH):
            with session.begin_transaction() as transaction:
                transaction.run(
                    _NODE_AND_LINK if link else _NODE, rows=found[first : first + BATCH]
                ).consume()
                transaction.commit()


def run(count: int) -> None:
    """Print what both do with so many rows, which are new in the first round and updates in the others."""
    found = rows(count)
    plain = [made(row) for row in found]
    sides: tuple[tuple[str, Callable[..., None], list[dict[str, Any]]], ...] = (
        ("the driver", theirs, plain),
        ("the driver, and values", theirs_made, found),
        ("our task", ours, found),
    )
    with Stack(members=(), progress=PlainProgress(print)) as stack:
        server = stack.add(Neo4jServer)
        with neo4j.GraphDatabase.driver(server.url, auth=None) as driver:
            driver.execute_query("CREATE CONSTRAINT FOR (n:Theirs) REQUIRE n.id IS UNIQUE")
            driver.execute_query("CREATE CONSTRAINT FOR (n:TheirStatus) REQUIRE n.name IS UNIQUE")
        for link in (False, True):
            for number in range(ROUNDS + 1):  # the first warms the server
                for name, write, given in sides:
                    wall, processor = time.monotonic(), time.process_time()
                    write(server.url, number, given, link=link)
                    wall, processor = time.monotonic() - wall, time.process_time() - processor
                    if number:
                        print(
                            f"{name:22} {'with a relationship' if link else 'nodes':20} {count / wall:9,.0f} rows/s"
                            f" {count / processor:9,.0f} rows per CPU second"
                        )
