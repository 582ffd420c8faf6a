"""The signal `repair-rows`: what the database has for given keys, rows and deletes, at its place in the stream."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from snapshots.test_deleted_rows import MANY_KEYS, ROW

from tidings_capture.cdc.incremental.requests import wanted_keys
from tidings_capture.cdc.incremental.state import Collection, IncrementalState, restored_state
from tidings_capture.cdc.signals.channels import Signal
from tidings_connect.errors import ConnectError
from tidings_envelope.headers.repair import HEADER, MOST_KEYS
from tidings_stack.capture import CaptureWorker as Worker


def repair(table: Any, keys: Any, id_: str = "r1") -> dict[str, Any]:
    return {
        "id": id_,
        "type": "repair-rows",
        "data": {"data-collection": f"public.{table}", "keys": [{"id": str(key)} for key in keys]},
    }


def told(records: Any) -> list[Any]:
    """Key, operation and value of what the signal brought; None: a tombstone."""
    marked = [r for r in records if HEADER in r.headers]
    assert all(r.value is None or r.value["source"]["snapshot"] == "incremental" for r in marked)
    return [
        (r.key["id"], r.value and r.value["op"], r.value and r.value["after"] and r.value["after"]["t"])
        for r in marked
    ]


@pytest.fixture
def table(
    create: Callable[..., str], connector_config: dict[str, str], sql: Callable[..., list[tuple[Any, ...]]]
) -> str:
    """`a`, with rows 1 to 6; signals come by a table, and so come again after a crash."""
    sql(
        "CREATE TABLE a (id int PRIMARY KEY, t text)",
        "INSERT INTO a SELECT i, 'x' FROM generate_series(1, 6) i",
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    )
    return create(
        connector_config
        | {
            "snapshot.mode": "no_data",
            "table.include.list": "public.a",
            "signal.data.collection": "public.signals",
            "incremental.snapshot.chunk.size": "3",
        }
    )


def test_what_changes_within_the_window_is_left_to_the_stream(
    worker: Worker,
    sql: Callable[..., list[tuple[Any, ...]]],
    arm: Callable[..., Callable[[], bool]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
    table: str,
) -> None:
    """A row that is inserted after its key was looked up is not deleted, one that is deleted does not come back."""
    topic = f"{table}.public.a"
    sql("UPDATE a SET t = t WHERE id = 1")  # the stream announces the table
    wait_until("the stream", lambda: read_topic(topic))
    frozen = arm("window.read", action="freeze")
    assert worker.request("POST", f"/connectors/{table}/signals", repair("a", (7, 2, 3, 1, 8)))[0] == 202
    wait_until("the keys are looked up", frozen)
    sql(
        "INSERT INTO a VALUES (7, 'meanwhile')",
        "DELETE FROM a WHERE id = 2",
        "UPDATE a SET t = 'y' WHERE id = 3",
    )
    os.kill(worker.task_pid(), signal.SIGCONT)
    wait_until("the last key", lambda: any(r.key["id"] == 8 for r in read_topic(topic)))
    wait_until("its tombstone", lambda: told(read_topic(topic))[-1][1] is None)
    records = read_topic(topic)
    assert {r.headers[HEADER] for r in records if HEADER in r.headers} == {b"r1"}
    newest = {r.key["id"]: r.value and (r.value["after"] or {}).get("t") for r in records}
    assert newest == {1: "x", 2: None, 3: "y", 7: "meanwhile", 8: None}
    assert not [one for one in told(records) if one[:2] in {(7, "d"), (2, "d")}], (
        "the stream's own delete is enough"
    )


def test_a_task_that_dies_amid_it_goes_on(
    sql: Callable[..., list[tuple[Any, ...]]],
    arm: Callable[..., Callable[[], bool]],
    wait_until: Callable[..., Any],
    read_topic: Callable[[str], list[Any]],
    table: str,
) -> None:
    topic = f"{table}.public.a"
    died = arm("window.sent", 1)  # of the second chunk
    data = json.dumps(repair("a", (1, 2, 3, 9, 4, 8, 5))["data"])
    sql(f"INSERT INTO signals VALUES ('again', 'repair-rows', '{data}')")
    wait_until("the task died", died)
    wait_until("the last key", lambda: (5, "r", "x") in told(read_topic(topic)))
    found = set(told(read_topic(topic)))
    assert found == {
        *((key, "r", "x") for key in range(1, 6)), *((key, "d", None) for key in (8, 9)), (8, None, None), (9, None, None)
    }  # fmt: skip


def test_keys_of_many_types(
    worker: Worker,
    create: Callable[..., str],
    connector_config: dict[str, str],
    sql: Callable[..., list[tuple[Any, ...]]],
    topics: Any,
    wait_until: Callable[..., Any],
) -> None:
    """A delete has the key that the row's own records had, also where the signal writes its values in another way."""
    sql(MANY_KEYS, *(ROW.format(i) for i in (1, 2)))
    name = create(connector_config | {"read.only": "true"})
    topic = f"{name}.public.m"
    wait_until("the snapshot", lambda: len(topics.messages(topic)) == 2)
    rows = sql("SELECT n, v, d, at AT TIME ZONE 'UTC', ts, s, u, b, raw FROM m ORDER BY n")
    names = ("n", "v", "d", "at", "ts", "s", "u", "b", "raw")
    keys = [dict(zip(names, map(str, row), strict=True)) for row in rows]
    for key, row in zip(keys, rows, strict=True):
        key |= {"n": str(float(row[0])), "at": f"{row[3].isoformat()}Z", "raw": "\\x" + row[8].hex()}
    # Nobody hears of it: the publication has no deletes while it goes.
    sql(
        f"ALTER PUBLICATION {name} SET (publish = 'insert, update')",
        "DELETE FROM m WHERE n = 2.5",
        f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')",
    )
    asked = {"id": "k", "type": "repair-rows", "data": {"data-collection": "public.m", "keys": keys}}
    assert worker.request("POST", f"/connectors/{name}/signals", asked)[0] == 202
    wait_until("row, delete and tombstone", lambda: len(topics.messages(topic)) == 5)
    records = [(m.key(), m.value() and json.loads(m.value())["op"]) for m in topics.messages(topic)]
    (first, _), (second, _) = records[:2]
    assert sorted(records[2:], key=str) == sorted([(first, "r"), (second, "d"), (second, None)], key=str)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"keys": [{"id": "1"}]}, "data-collection of signal s is missing"),
        ({"data-collection": "public.a"}, "keys of signal s is missing"),
        ({"data-collection": "public.a", "keys": [{"id": 1}]}, "objects whose values are strings"),
        ({"data-collection": "public.a", "keys": [{}]}, "objects whose values are strings"),
        (
            {"data-collection": "public.a", "keys": [{"id": "1"}] * (MOST_KEYS + 1)},
            f"{MOST_KEYS} is the most",
        ),
    ],
)
def test_a_signal_that_is_not_of_its_form_is_refused(data: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConnectError, match=reason):
        wanted_keys(Signal("s", "repair-rows", data))


def test_what_is_left_of_it_survives_the_offset() -> None:
    state = IncrementalState(
        [Collection("public.a", correlation_id="s", keys=({"id": "1"},))], "s", ["3"], [], ["6"]
    )
    found = restored_state(json.loads(json.dumps(state.stored())))
    assert found == IncrementalState(state.collections, "s", ["3"], [], ["3"])
