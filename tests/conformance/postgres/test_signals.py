"""Snapshots, signals and notifications, side by side: the same signals to both, each in a signal table of its own.

Positions and times of rows that a snapshot reads differ, as do the ids of chunks, so these are masked; everything else
of every record is compared in order: initial, incremental and blocking rows, watermarks, and notifications.
"""

import json
import re
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from side_by_side import Pair, Side, until

from tidings_envelope.headers.as_of import HEADER as AS_OF

SETUP = """
    CREATE TABLE a (id int PRIMARY KEY, t text);
    INSERT INTO a SELECT i, 'x' || i FROM generate_series(1, 5) i;
    CREATE TABLE b (x text, n bigint, v numeric(8, 2), PRIMARY KEY (x, n));
    INSERT INTO b SELECT 'k''\\' || i % 3, i, i FROM generate_series(1, 7) i;
    CREATE TABLE empty (id int PRIMARY KEY);
    CREATE TABLE no_key (n int, s text);
    INSERT INTO no_key VALUES (3, 'c'), (1, 'a'), (2, 'b');
"""
SIGNAL_TABLES = tuple(
    f"CREATE TABLE signals_{{{name}}} (id text PRIMARY KEY, type text, data text)"
    for name in ("mine", "theirs")
)
OPTIONS = {
    "snapshot.mode": "initial",
    "table.include.list": r"public\.a,public\.b,public\.empty,public\.no_key",
    "signal.data.collection": "public.signals_{base}",
    "notification.enabled.channels": "sink",
    "notification.sink.topic.name": "{base}.notes",
    "incremental.snapshot.chunk.size": "2",
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")
_LAST_SNAPSHOT_FIELDS = ("ts_ms", "ts_us", "ts_ns", "txId", "lsn", "sequence")


def start(pair: Any, *more: str, **options: str) -> Pair:
    """Both connectors, with a signal table each."""

    made: Pair = pair({**OPTIONS, **options}, SETUP, *SIGNAL_TABLES, *more)
    return made


def signal(made: Pair, id_: str, type_: str, data: Any = None) -> None:
    """The same signal to both."""
    signals(made, (id_, type_, data))


def signals(made: Pair, *several: tuple[str, str, Any]) -> None:
    """The same signals (id, type, data) to both, in one transaction each: none waits for what the one before does."""
    for side in (made.mine, made.theirs):
        with made.connection.transaction():
            for id_, type_, data in several:
                made.connection.execute(
                    f"INSERT INTO signals_{side.base} VALUES (%s, %s, %s)",  # type: ignore[arg-type]
                    [id_, type_, json.dumps(data or {})],
                )


def notes(side: Side) -> list[dict[str, Any]]:
    side.read()
    side.check()
    found = [r for (topic, _), records in side.records.items() if topic.endswith(".notes") for r in records]
    return [payload(value) for _, value, _ in found if value is not None]


def payload(value: bytes) -> Any:
    found = json.loads(value)
    return found["payload"] if "payload" in found and "schema" in found else found


def completed(made: Pair, number: int, type_: str = "COMPLETED") -> None:
    """Wait until both have told so many times that a snapshot is over."""
    for side in (made.mine, made.theirs):
        until(
            f"{side.base}: {number} {type_}",
            lambda side=side: len([n for n in notes(side) if n["type"] == type_]) >= number,
        )


def masked(side: Side, value: bytes | None, base: str) -> Any:
    if value is None:
        return None
    text = _TIME.sub("time", _UUID.sub("uuid", value.decode().replace(side.base, base)))
    found = json.loads(text)
    body = found["payload"] if isinstance(found, dict) and "schema" in found else found
    if isinstance(body, dict):
        for name in ("ts_ms", "ts_us", "ts_ns", "timestamp"):
            if name in body:
                body[name] = 0
        if isinstance(body.get("additional_data"), dict):
            # Java's Map.of is walked in an order that differs from run to run.
            body["additional_data"] = dict(sorted(body["additional_data"].items()))
        source = body.get("source")
        if isinstance(source, dict):
            for name in _LAST_SNAPSHOT_FIELDS:
                source[name] = None if source[name] is None else 0
    return json.dumps(found)


def shown(record: Any) -> str:
    return "none" if record is None else f"{record[0]} {record[1]} {record[2]}"[-900:]


def compare(made: Pair) -> dict[str, list[Any]]:
    """Every record but the sentinel's, masked; ours by topic."""
    made.catch_up()
    found = []
    for side in (made.mine, made.theirs):
        topics: dict[str, list[Any]] = {}
        for (topic, _), records in side.records.items():
            if "heartbeat" in topic:
                continue
            topics[topic.replace(side.base, made.mine.base)] = [
                (
                    masked(side, key, made.mine.base),
                    masked(side, value, made.mine.base),
                    sorted(name for name, _ in headers if name != AS_OF),
                )
                for key, value, headers in records
            ]
        found.append(topics)
    mine, theirs = found
    differences = []
    for topic in sorted(mine.keys() | theirs.keys()):
        pairs = zip_longest(mine.get(topic, []), theirs.get(topic, []))
        differences += [
            f"{topic} {number}:\n  mine   {shown(my)}\n  theirs {shown(their)}"
            for number, (my, their) in enumerate(pairs)
            if my != their
        ]
    assert not differences, "\n".join(differences[:20])
    return mine


@pytest.mark.timeout(200)
def test_incremental_and_blocking_snapshots(pair: Any) -> None:
    made = start(pair)
    completed(made, 1)
    # In one transaction: the second finds the first under way, however long the first one's windows take.
    again = {
        "data-collections": ["public.[ab]"],
        "type": "INCREMENTAL",
        "additional-conditions": [{"data-collection": "public.a", "filter": "id > 2"}],
    }
    signals(
        made,
        ("s1", "execute-snapshot", {"data-collections": ["public.a", "public.empty", "public.b"]}),
        ("s2", "execute-snapshot", again),
    )
    completed(made, 2)
    signal(made, "s3", "execute-snapshot", {"data-collections": ["public.no_key"]})
    completed(made, 3)
    signal(made, "s4", "execute-snapshot", {"data-collections": ["public.b"], "surrogate-key": "n"})
    completed(made, 4)
    made.connection.execute("UPDATE a SET t = 'new' WHERE id = 2")
    signal(made, "s5", "execute-snapshot", {
        "data-collections": ["public.a", "public.b"], "type": "blocking",
        "additional-conditions": [
            {"data-collection": "public.a", "filter": "SELECT * FROM public.a WHERE id > 3"}
        ],
    })  # fmt: skip
    completed(made, 5)
    for kind in ("nonsense", "log", "pause-snapshot", "resume-snapshot", "stop-snapshot"):
        signal(made, kind, kind, {"message": "hello"})
    records = compare(made)
    rows = [json.loads(value)["payload"] for _, value, _ in records[f"{made.mine.base}.public.a"]]
    assert [r["source"]["snapshot"] for r in rows].count("incremental") == 8


def of(*names: str, **more: Any) -> dict[str, Any]:
    """A signal's data: tables, and what is said of them."""
    return {"data-collections": [f"public.{name}" for name in names], **more}


@pytest.mark.timeout(200)
def test_signals_that_follow_one_another_at_once(pair: Any) -> None:
    dotted = """CREATE TABLE "Odd.name" (id int PRIMARY KEY); INSERT INTO "Odd.name" VALUES (1), (2), (3)"""
    made = start(pair, dotted, **{"table.include.list": r"public\.(?!signals).*", "snapshot.mode": "no_data"})
    # Pause and resume find a chunk whose rows wait for their watermark.
    signals(
        made,
        ("no-regex", "execute-snapshot", of("(")),
        ("first", "execute-snapshot", of("a", "b")),
        ("p1", "pause-snapshot", None),
        ("p2", "stop-snapshot", of("b")),
        ("p3", "resume-snapshot", None),
    )
    completed(made, 1)
    signals(made, ("second", "execute-snapshot", of("a", "b", "no_key")), ("all", "stop-snapshot", None))
    completed(made, 2)
    signals(
        made,
        ("dotted", "execute-snapshot", of('"Odd.name"')),
        ("number", "execute-snapshot", of("a", **{"surrogate-key": 5, "type": 5})),
    )
    completed(made, 3)
    where = {"data-collection": "public.b", "filter": "SELECT * FROM public.b WHERE n > 2; "}
    signals(
        made,
        ("none", "execute-snapshot", {"type": "blocking"}),
        ("any-case", "execute-snapshot", of("A", type="blocking")),
        ("next", "execute-snapshot", of("b", type="blocking", **{"additional-conditions": [where]})),
    )
    completed(made, 5)
    records = compare(made)
    rows = [json.loads(value)["payload"] for _, value, _ in records[f"{made.mine.base}.public.a"]]
    ids = [row["after"]["id"] for row in rows if row["op"] == "r"]
    assert ids == [1, 2, 3, 4, 5, 1, 2, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


@pytest.mark.timeout(200)
def test_windows_that_end_with_a_deletion(pair: Any) -> None:
    made = start(pair, **{"incremental.snapshot.watermarking.strategy": "insert_delete"})
    completed(made, 1)
    signal(made, "s1", "execute-snapshot", {"data-collections": ["public.a", "public.empty", "public.b"]})
    completed(made, 2)
    records = compare(made)
    assert len(records[f"{made.mine.base}.public.signals_{made.mine.base}"]) > 10


@pytest.mark.timeout(200)
def test_signals_are_obeyed_where_inserts_are_skipped(pair: Any) -> None:
    """The publication is there already: one that a connector makes would leave the signals out."""
    publications = [f"CREATE PUBLICATION {{{name}}} FOR ALL TABLES" for name in ("mine", "theirs")]
    made = start(pair, *publications, **{"skipped.operations": "c,d", "provide.transaction.metadata": "true"})
    completed(made, 1)
    signal(made, "s1", "execute-snapshot", {"data-collections": ["public.a", "public.empty", "public.b"]})
    completed(made, 2)
    records = compare(made)
    assert f"{made.mine.base}.public.signals_{made.mine.base}" not in records
    assert len(records[f"{made.mine.base}.public.a"]) == 10


@pytest.mark.timeout(200)
def test_read_only_by_file_after_a_chosen_snapshot(pair: Any, tmp_path: Path) -> None:
    made = pair(
        {
            "snapshot.mode": "initial",
            "snapshot.include.collection.list": r"public\.a,public\.b",
            "snapshot.select.statement.overrides": "public.a,public.b",
            "snapshot.select.statement.overrides.public.a": "SELECT * FROM public.a WHERE id % 2 = 0 ORDER BY id DESC",
            "snapshot.select.statement.overrides.public.b": "SELECT * FROM public.b WHERE v > 3 ORDER BY n",
            "read.only": "true",
            "signal.enabled.channels": "file",
            "signal.file": str(tmp_path / "{base}.txt"),
            "signal.poll.interval.ms": "100",
            "incremental.snapshot.chunk.size": "3",
            "heartbeat.interval.ms": "200",
        },
        SETUP,
    )
    for side in (made.mine, made.theirs):
        asked = {
            "id": "1",
            "type": "execute-snapshot",
            "data": {"data-collections": ["public.a", "public.b"]},
        }
        (tmp_path / f"{side.base}.txt").write_text(json.dumps(asked) + "\n")

    def read(side: Side) -> bool:
        made.connection.execute("INSERT INTO empty SELECT coalesce(max(id), 0) + 1 FROM empty")
        side.read()
        side.check()
        found = [v for (topic, _), rs in side.records.items() if topic.endswith(".b") for _, v, _ in rs]
        return sum(b'"incremental"' in (value or b"") for value in found) >= 7

    for side in (made.mine, made.theirs):
        until(f"{side.base} has read both", lambda side=side: read(side))
    records = compare(made)
    rows = [json.loads(value)["payload"] for _, value, _ in records[f"{made.mine.base}.public.a"]]
    assert [r["after"]["id"] for r in rows] == [4, 2, 1, 2, 3, 4, 5]
