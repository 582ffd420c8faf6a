"""What the tests of tables that a copy takes the place of in traffic share, on MariaDB and MySQL."""

import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from mariadb_parts import Database
from mariadb_worker import Config, records, running, topic

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import MariaDbError
from tidings_connect.testing.memory_worker import MemoryWorker

LAST = -1
DEADLOCK = 1213
ROWS = 1000
"""Before the traffic."""


EXCHANGED = (
    "CREATE TABLE other LIKE t",
    "ALTER TABLE other REMOVE PARTITIONING",
    "INSERT INTO other (id, v) VALUES (60, 'in')",
    "ALTER TABLE t EXCHANGE PARTITION a WITH TABLE other",
    "UPDATE t SET v = 'seen' WHERE id = 60",
)
"""A row that came into a captured table by a definition is told when it changes only."""


@contextmanager
def traffic(database: Database) -> Iterator[dict[int, int]]:
    """Inserts, updates and deletes in table `a`, for as long as a `with` lasts.

    Yields:
        What they left of each row, by its id; whole behind the `with`.
    """
    stop, chance, failures = threading.Event(), random.Random(5), []
    written = {number: number for number in range(1, ROWS + 1)}

    values = itertools.count(10_000)

    def change(session: Session, statement: str, *given: int) -> int | None:
        """The id that it made, or 0; None where it has changed nothing."""
        try:
            session.rows(statement, given)
        except MariaDbError as error:
            if error.number != DEADLOCK:  # with the copy
                raise
            return None
        ((changed, made),) = session.rows("SELECT ROW_COUNT(), LAST_INSERT_ID()")
        return int(made) if int(changed) else None

    def write() -> None:
        session = Session(database.endpoint)
        try:
            session.rows(f"USE {database.name}")
            while not stop.is_set():
                number, value = chance.randint(1, 1_500), next(values)
                match chance.choice("iuud"):
                    case "i":
                        if made := change(session, "INSERT INTO a (n) VALUES (%s)", value):
                            written[made] = value
                    case "u":
                        if change(session, "UPDATE a SET n = %s WHERE id = %s", value, number) is not None:
                            written[number] = value
                    case _:
                        if change(session, "DELETE FROM a WHERE id = %s", number) is not None:
                            written.pop(number, None)
                stop.wait(0.001)
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)
        finally:
            session.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join(30)
    assert not failures, failures


def follows(worker: MemoryWorker, database: Database, written: dict[int, int], *, exact: bool = True) -> None:
    """Whether the topic's last state is what was written.

    Args:
        exact: the copy that took the table's place has lost nothing.
    """
    name = topic(database, "a")
    database.run(f"INSERT INTO a (n) VALUES ({LAST})")
    worker.wait_for(
        lambda: any(
            value and value["after"] and value["after"]["n"] == LAST
            for _, value, _ in records(worker, name)[-3:]
        ),
        "the last row",
    )
    state = {}
    for key, value, _ in records(worker, name):
        if value is None or value["after"] is None:
            state.pop(key["id"], None)
        else:
            state[key["id"]] = value["after"]["n"]
    rows = {int(number): int(n) for number, n in database.run("SELECT id, n FROM a")}
    wanted = {**written, **{number: n for number, n in rows.items() if n == LAST}}
    expectations = {"was written": wanted}
    if exact:
        expectations["is in the table"] = rows
    for what, expected in expectations.items():
        differing = {
            number: (state.get(number), expected.get(number))
            for number in state.keys() | expected.keys()
            if state.get(number) != expected.get(number)
        }
        assert not differing, f"on the topic, and what {what}: {differing}"
    last = records(worker, name)[-1][1]["after"]
    assert list(last) == ["y", "id", "n"]
    assert set(worker.kafka.topics) == {name}


@contextmanager
def captured(database: Database, config: Config) -> Iterator[MemoryWorker]:
    rows = ", ".join(f"({number})" for number in range(1, ROWS + 1))
    database.run(
        "CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, n INT)", f"INSERT INTO a (n) VALUES {rows}"
    )
    only = {"table.include.list": rf"{database.name}\.a", "provide.transaction.metadata": "false"}
    with running({**config, **only}) as worker:
        worker.wait_for(
            lambda: len(worker.kafka.topics.get(topic(database, "a"), ())) >= ROWS, "the snapshot"
        )
        yield worker


def swap_by_triggers(database: Database, config: Config) -> None:
    """As pt-online-schema-change does it: three triggers, a copy bit by bit, and a RENAME of both."""
    put = "REPLACE INTO _a_new (id, n) VALUES (NEW.id, NEW.n)"
    with captured(database, config) as worker:
        with traffic(database) as written:
            database.run(
                "CREATE TABLE _a_new LIKE a",
                "ALTER TABLE _a_new ADD COLUMN y VARCHAR(9) DEFAULT 'y' FIRST",
                "CREATE TRIGGER t_del AFTER DELETE ON a FOR EACH ROW DELETE IGNORE FROM _a_new WHERE id <=> OLD.id",
                f"CREATE TRIGGER t_upd AFTER UPDATE ON a FOR EACH ROW BEGIN"
                f" DELETE IGNORE FROM _a_new WHERE NOT (OLD.id <=> NEW.id) AND id <=> OLD.id; {put}; END",
                f"CREATE TRIGGER t_ins AFTER INSERT ON a FOR EACH ROW {put}",
            )
            for low in range(1, 3_000, 200):
                database.run(
                    f"INSERT LOW_PRIORITY IGNORE INTO _a_new (id, n) SELECT id, n FROM a WHERE id BETWEEN {low} AND {low + 199} LOCK IN SHARE MODE"
                )
            database.run("RENAME TABLE a TO _a_old, _a_new TO a", "DROP TABLE IF EXISTS _a_old")
        follows(worker, database, written)
