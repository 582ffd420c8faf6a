"""MariaDB's signal `repair-rows` on a worker in memory and a real server: rows and deletes of exactly the keys that it names."""

import json
from typing import Any

from mariadb_cases import KEYS, READ_ONLY, Case, running
from mariadb_parts import Database
from mariadb_worker import Config

from tidings_envelope.fault_points import watched
from tidings_envelope.headers.as_of import HEADER as AS_OF
from tidings_envelope.headers.repair import HEADER


def repaired(case: Case, table: str, id_: str) -> list[Any]:
    """Key, operation and row of the records that a signal brought; None: a tombstone."""
    found = []
    for key, value, headers in list(case.worker.kafka.topics.get(f"p.{case.database.name}.{table}", [])):
        if (HEADER, id_.encode()) in (headers or ()):
            told = None if value is None else json.loads(value)
            assert told is None or told["source"]["snapshot"] == "incremental"
            found.append((json.loads(key), told and told["op"], told and told["after"]))
    return found


def repair(case: Case, table: str, keys: list[dict[str, str]]) -> str:
    return case.signal("repair-rows", **{"data-collection": f"{case.database.name}.{table}", "keys": keys})


def test_what_changes_within_the_window_is_left_to_the_stream(database: Database, config: Config) -> None:
    """A row that is inserted after its key was looked up is not deleted, one that is deleted does not come back."""
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY, t VARCHAR(9) NOT NULL, g POINT NOT NULL)",
        "INSERT INTO a SELECT seq, 'x', POINT(1, 2) FROM seq_1_to_6",
    )
    changes = [
        "INSERT INTO a VALUES (7, 'new', POINT(0, 0))",
        "DELETE FROM a WHERE id = 2",
        "UPDATE a SET t = 'y' WHERE id = 3",
    ]

    def change(point: str) -> None:
        if point == "window.read" and changes:
            database.run(*changes)
            changes.clear()

    more = READ_ONLY | {"incremental.snapshot.chunk.size": "9"}
    with running(config | more, database) as case, watched(change):
        id_ = repair(case, "a", [{"id": str(key)} for key in (7, 2, 3, 1, 8)])
        case.worker.wait_for(
            lambda: ({"id": 8}, None, None) in repaired(case, "a", id_), "the last key's tombstone"
        )
        told = [(key["id"], op, after and after["t"]) for key, op, after in repaired(case, "a", id_)]
        stream = {(v["after"] or v["before"])["id"] for v in case.values("a") if v["op"] in {"c", "u", "d"}}
        records = list(case.worker.kafka.topics[f"p.{database.name}.a"])
    assert told == [(1, "r", "x"), (8, "d", None), (8, None, None)]
    assert stream == {2, 3, 7, 8}
    (headers,) = [dict(one) for key, value, one in records if value and json.loads(value)["op"] == "r"]
    assert int(headers[AS_OF]) % (1 << 24) == 0


def test_every_kind_of_key(database: Database, config: Config) -> None:
    """A delete has the key that the row's own records had."""
    tables = {f"k{number}": kind for number, kind in enumerate(KEYS)}
    for name, kind in tables.items():
        rows = ", ".join(f"({value}, {number})" for number, value in enumerate(KEYS[kind]))
        database.run(
            f"CREATE TABLE {name} (k {kind} NOT NULL, id INT NOT NULL, note VARCHAR(9) NOT NULL DEFAULT 'x', PRIMARY KEY (k, id))",
            f"INSERT INTO {name} (k, id) VALUES {rows}",
        )
    with running(config | {"snapshot.mode": "initial"}, database) as case:
        case.worker.wait_for(
            lambda: all(len(case.read(name)) == len(KEYS[kind]) for name, kind in tables.items()),
            "the snapshot",
        )
        asked = {}
        for name, kind in tables.items():
            shown = {"BIT": "k + 0", "VARB": "HEX(k)", "BINA": "HEX(k)", "FLOA": "CAST(k AS DOUBLE)"}
            keys = database.run(f"SELECT {shown.get(kind[:4].rstrip('('), 'k')}, id FROM {name} ORDER BY id")
            database.run("SET sql_log_bin = 0", f"DELETE FROM {name} WHERE id > 0", "SET sql_log_bin = 1")
            texts = [{"k": str(key), "id": str(id_)} for key, id_ in keys]
            asked[name] = repair(case, name, texts)
        for name, kind in tables.items():
            topic = f"p.{database.name}.{name}"
            wanted = 1 + 2 * (len(KEYS[kind]) - 1)
            case.worker.wait_for(
                lambda name=name, wanted=wanted: len(repaired(case, name, asked[name])) == wanted,
                kind,  # type: ignore[misc]
            )
            read = [json.loads(key) for key, *_ in case.worker.kafka.topics[topic]][: len(KEYS[kind])]
            read.sort(key=lambda key: key["id"])
            told = [(key, op) for key, op, _ in repaired(case, name, asked[name])]
            assert told == [
                (read[0], "r"),
                *((key, op) for key in read[1:] for op in ("d", None)),
            ], kind


def test_a_key_that_only_compares_as_equal_is_gone_and_a_wrong_one_is_refused(
    database: Database, config: Config
) -> None:
    database.run(
        "CREATE TABLE a (k VARCHAR(9) PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO a VALUES ('a', 1)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "INSERT INTO b VALUES (1)",
    )
    with running(config, database) as case:
        id_ = repair(case, "a", [{"k": "A"}, {"k": "a"}, {"k": "a' OR '1"}])
        case.wait_told("COMPLETED")
        repair(case, "b", [{"id": "1 OR 1"}])
        repair(case, "b", [{"other": "1"}])
        case.wait_told("COMPLETED", 3)
        told = [(key["k"], op) for key, op, _ in repaired(case, "a", id_)]
        statuses = [note["additional_data"]["status"] for note in case.told("TABLE_SCAN_COMPLETED")]
    assert told == [("A", "d"), ("A", None), ("a", "r"), ("a' OR '1", "d"), ("a' OR '1", None)]
    assert statuses == ["SUCCEEDED", "SQL_EXCEPTION", "SQL_EXCEPTION"]
