"""What the tests of MariaDB's snapshots and signals share: a connector with signals over REST, a writer, and a judge."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from mariadb_parts import Database
from mariadb_worker import Config

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_connect.task.channel import SIGNAL, Command
from tidings_connect.testing.memory_worker import MemoryWorker

NOTES = "notes"
READ_ONLY = {"read.only": "true", "signal.data.collection": ""}


class Case:
    """A connector, and signals to it over REST."""

    def __init__(self, worker: MemoryWorker, database: Database) -> None:
        self.worker, self.database = worker, database
        self._signals = 0

    def signal(self, type_: str, **data: Any) -> str:
        """One over REST; its id."""
        self._signals += 1
        id_ = f"s{self._signals}"
        self.worker.tell(Command(SIGNAL, json.dumps({"id": id_, "type": type_, "data": data})))
        return id_

    def execute(self, *tables: str, **more: Any) -> str:
        names = [f"{self.database.name}.{table}" for table in tables]
        return self.signal("execute-snapshot", **{"data-collections": names}, **more)

    def told(self, type_: str | None = None) -> list[Any]:
        """Notifications."""
        return [n for n in self.worker.values(NOTES) if type_ in {None, n["type"]}]

    def wait_told(self, type_: str, count: int = 1) -> None:
        self.worker.wait_for(lambda: len(self.told(type_)) >= count, f"{count} {type_}")

    def values(self, table: str) -> list[Any]:
        return self.worker.values(f"p.{self.database.name}.{table}")

    def read(self, table: str, column: str = "id") -> list[Any]:
        """A column of the rows that snapshots have read."""
        return [v["after"][column] for v in self.values(table) if v["op"] == "r"]


@contextmanager
def running(config: Config, database: Database) -> Iterator[Case]:
    # Exactly once: the other way a producer in memory sends nothing before the position changes.
    with MemoryWorker(MariaDbConnector(), "c", exactly_once=True) as worker:
        worker.put(config)
        worker.wait_for(lambda: worker.state == "RUNNING" and bool(worker.offsets()), "the start")
        yield Case(worker, database)


class Writer:
    """Writes rows in which a counter grows, in a thread: each version of a row has a greater one than all before."""

    def __init__(self, database: Database, seed: int) -> None:
        self._session = Session(database.endpoint)
        self._name, self._chance = database.name, random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._session.close()

    def _write(self) -> None:
        chance, run = self._chance, self._session.rows
        version, next_id = 1000, 10_000
        run(f"USE {self._name}")
        while not self._stop.is_set():
            run("BEGIN")
            for _ in range(chance.randint(1, 4)):
                version += 1
                low = chance.randint(1, 300)
                match chance.choice(("update", "update", "delete", "insert", "move")):
                    case "update":
                        run(
                            f"UPDATE a SET v = {version} WHERE id BETWEEN {low} AND {low + chance.randint(0, 9)}"
                        )
                    case "delete":
                        run(f"DELETE FROM a WHERE id = {low}")
                    case "insert":
                        next_id += 1
                        run(f"INSERT INTO a (id, v, n) VALUES ({next_id}, {version}, 0)")
                    case _:
                        next_id += 1
                        run(f"UPDATE a SET id = {next_id}, v = {version} WHERE id = {low}")
            run("ROLLBACK" if chance.random() < 0.1 else "COMMIT")


def judged(case: Case, expected: dict[int, int]) -> list[str]:
    """What is wrong with the topic of `a`: no row is missing or wrong at its end, none goes back in time, none comes back."""
    problems: list[str] = []
    state: dict[int, int] = {}
    gone: set[int] = set()
    for number, value in enumerate(case.values("a")):
        row = value["before"] if value["op"] == "d" else value["after"]
        id_, version = row["id"], row["v"]
        if id_ in gone:
            problems.append(f"record {number} ({value['op']}): row {id_} comes back")
        if value["op"] == "d":
            gone.add(id_)
            state.pop(id_, None)
            continue
        if version < state.get(id_, 0):
            problems.append(f"record {number} ({value['op']}): row {id_} goes back")
        state[id_] = version
    if state != expected:
        problems.append(f"{len(state.keys() ^ expected.keys())} rows are missing or too many")
    return problems
