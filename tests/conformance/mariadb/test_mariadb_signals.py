"""MariaDB's signals beside Debezium's, on the same server: every record and notification that they lead to.

Each side has a signal table of its own. Masked beside what `binlog.sides` masks: ids of windows and notifications, the moments that
windows tell, and the positions and times of rows that a snapshot has read in the midst of the log, where each side stood
elsewhere, and of the signal tables' own.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from binlog.sides import OURS, Sides, configured, differences, shown
from confluent_kafka import Producer
from mariadb_parts import Database
from side_by_side import Side

from tidings_capture.mysql.connector import MariaDbConnector
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_stack.connect import ConnectServer
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for

TABLES = (
    "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(9))",
    "INSERT INTO a SELECT seq, CONCAT('x', seq) FROM seq_1_to_5",
    "CREATE TABLE b (x VARCHAR(20), n BIGINT, v DECIMAL(8,2), PRIMARY KEY (x, n))",
    "INSERT INTO b SELECT CONCAT('k''\\\\', seq % 3), seq, seq FROM seq_1_to_7",
    "CREATE TABLE empty (id INT PRIMARY KEY)",
    "CREATE TABLE nokey (n INT, s VARCHAR(9))",
    "INSERT INTO nokey VALUES (3, 'c'), (1, 'a')",
    "CREATE TABLE theirs (id VARCHAR(100) PRIMARY KEY, type VARCHAR(100), data TEXT)",
    "CREATE TABLE mine__ LIKE theirs",
    "INSERT INTO theirs VALUES ('old', 'log', '{}')",
    "INSERT INTO mine__ VALUES ('old', 'log', '{}')",
)
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")


@pytest.fixture
def database(mariadb: MariaDbServer, unique_name: str) -> Iterator[Database]:
    made = Database(mariadb, unique_name)
    made.run("SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'", *TABLES)
    yield made
    made.close()


def masked(key: bytes | None, value: bytes | None, headers: Any) -> Any:
    """A record without what differs by its nature."""
    texts = [None if one is None else _TIME.sub("time", _ID.sub("id", one.decode())) for one in (key, value)]
    own = [one if one is None else one.replace("mine__", "theirs").encode() for one in texts]
    found: Any = shown(own[0], own[1], [header for header in headers or () if header[0] != "tidings.as.of"])
    payload = (found[1] or {}).get("payload") or {}
    if "additional_data" in payload:
        payload["additional_data"] = dict(sorted(payload["additional_data"].items()))
        del payload["timestamp"]
    source = payload.get("source", {})
    if source.get("table") == "theirs" or source.get("snapshot", "false") != "false":
        source["pos"] = 0
        source["gtid"] = None if source["gtid"] is None else "gtid"
        for name in (
            "ts_ms",
            "ts_us",
            "ts_ns",
        ):  # each side writes its own watermarks, maybe in another second
            source[name] = None if source.get(name) is None else 0
        if payload.get("transaction"):
            payload["transaction"]["id"] = "gtid"
    return found


@pytest.mark.turns
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.timeout(300)
def test_signals_do_what_debeziums_do(
    database: Database,
    mariadb: MariaDbServer,
    plugins: ConnectServer,
    kafka_bootstrap: str,
    unique_name: str,
    read_only: bool,
) -> None:
    name, signals = unique_name, f"{unique_name}-signals"
    config = configured(mariadb, kafka_bootstrap, name) | {
        "table.include.list": rf"{name}\.(a|b|empty|nokey)",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": f"{name}.notes",
        "incremental.snapshot.chunk.size": "2",
        "provide.transaction.metadata": "true",
        "signal.enabled.channels": "source,kafka",
        "signal.poll.interval.ms": "200",
        "signal.kafka.topic": signals,
        "signal.kafka.bootstrap.servers": kafka_bootstrap,
        "read.only": str(read_only).lower(),
        "schema.history.internal.kafka.topic": f"history-of-{name[1:]}-{read_only}",
    }
    if not read_only:
        config["signal.data.collection"] = f"{name}.theirs"
    own = OURS | {
        "signal.kafka.groupId": f"{name}-mine",
        "schema.history.internal.kafka.topic": f"history-of-{name[1:]}-{read_only}-mine",
    }
    if not read_only:
        own["signal.data.collection"] = f"{name}.mine__"
    producer = Producer({"bootstrap.servers": kafka_bootstrap})

    def by_topic(id_: str, type_: str, **data: Any) -> None:
        value = json.dumps({"id": id_, "type": type_, "data": data})
        producer.produce(signals, key=name, value=value)
        producer.flush(30)

    by_topic("s0", "log", message="the topic is there")
    side = Side(plugins.url, name, kafka_bootstrap)
    with MemoryWorker(MariaDbConnector(), name, exactly_once=True) as worker, side.deleted_at_last():
        # Where nothing is written, Debezium without watermarks goes on by the server's heartbeats, four fifths of this apart; where one is
        # late by the last fifth, it connects anew.
        side.create(config | {"connect.keep.alive.interval.ms": "10000"})
        worker.put({**config, **own})

        def notes(type_: str, count: int) -> bool:
            side.check()
            side.read()
            theirs = [
                json.loads(v or b"{}")["payload"]["type"] for _, v, _ in side.records[f"{name}.notes", 0]
            ]
            mine = [note["payload"]["type"] for note in worker.values(f"{name}.notes")]
            return theirs.count(type_) >= count and mine.count(type_) >= count

        def signal(id_: str, type_: str, **data: Any) -> None:
            if read_only:
                by_topic(id_, type_, **data)
                return
            for table in ("theirs", "mine__"):
                database.session.rows(
                    f"INSERT INTO {table} VALUES (%s, %s, %s)", (id_, type_, json.dumps(data))
                )

        def await_both(table: str, count: int) -> None:
            Sides(side, worker).await_both(f"{name}.{name}.{table}", count)

        wait_for("the first snapshots", lambda: notes("COMPLETED", 1), 120)
        database.run("INSERT INTO a VALUES (100, 'later')")
        await_both("a", 6)
        listed = [f"{name}.{table}" for table in ("a", "empty", "nothere", "b")]
        signal("s1", "execute-snapshot", **{"data-collections": listed, "type": "INCREMENTAL"})
        wait_for("an incremental snapshot", lambda: notes("COMPLETED", 2), 60)
        conditions = [{"data-collection": f"{name}.a", "filter": "id > 3"}]
        signal(
            "s2",
            "execute-snapshot",
            **{"data-collections": [f"{name}.a", f"{name}.[b]"], "additional-conditions": conditions},
        )
        wait_for("one with a condition", lambda: notes("COMPLETED", 3), 60)
        signal("s3", "execute-snapshot", **{"data-collections": [f"{name}.a"], "surrogate-key": "t"})
        wait_for("one by another key", lambda: notes("COMPLETED", 4), 60)
        select = f"SELECT * FROM {name}.a WHERE id > 3"
        conditions = [{"data-collection": f"{name}.a", "filter": select}]
        signal(
            "s4",
            "execute-snapshot",
            **{"data-collections": listed, "type": "blocking", "additional-conditions": conditions},
        )
        wait_for("a blocking snapshot", lambda: notes("COMPLETED", 5), 60)
        database.run("UPDATE a SET t = 'end' WHERE id = 100")
        await_both("a", 6 + 6 + 3 + 6 + 3 + 1)
        mine = {topic: list(records) for topic, records in worker.kafka.topics.items()}
        await_both("b", 7 * 4)
    parts = ["notes", *(f"{name}.{table}" for table in ("a", "b", "empty", "nokey", "theirs"))]
    differing: list[str] = []
    for topic in [name, *(f"{name}.{part}" for part in parts)]:
        theirs = [masked(*record) for record in side.records[topic, 0]]
        ours = [masked(*record) for record in mine.get(topic.replace("theirs", "mine__"), ())]
        if len(theirs) != len(ours):
            differing.append(f"{topic}: {len(theirs)} and {len(ours)} records")
        for number, (its, own_record) in enumerate(zip(theirs, ours, strict=False)):
            differing += differences(its, own_record, f"{topic}#{number}")
    assert not differing, "\n".join(differing[:40])
