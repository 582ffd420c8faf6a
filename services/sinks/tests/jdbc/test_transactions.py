"""Whole transactions of the source in PostgreSQL, MariaDB, MySQL and SQLite: foreign keys, kills, rows that are refused, offsets."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sink_targets import Sink
from table_records import LETTERS, UPSERT
from transaction_parts import MARKERS, PREFIX, TABLES, History, Row, random_history

from tidings_connect.errors import RecordError
from tidings_envelope.gtid import Gtid
from tidings_sinks.errors import LostError, TransactionError
from tidings_sinks.jdbc import transactions_task
from tidings_sinks.jdbc.connector import JdbcSinkConnector
from tidings_sinks.jdbc.databases.postgres import PostgresDatabase
from tidings_sinks.jdbc.writer import Writer

Rows = Callable[..., list[tuple[Any, ...]]]
WHOLE = {**UPSERT, "tidings_transactions": "source", "collection_name_format": "${source.table}"}
TOPICS = ",".join([*(f"{PREFIX}.public.{table}" for table in TABLES), MARKERS.topic])
FOREIGN_KEYS = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, n bigint)",
    "CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint NOT NULL REFERENCES orders (id), n bigint)",
    "CREATE TABLE accounts (id bigint PRIMARY KEY, n bigint UNIQUE)",
)


@pytest.fixture(params=["postgres", "mariadb", "mysql", "sqlite"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Sink, Rows]:
    """A sink, and what runs statements on its target."""
    if request.param == "postgres":
        return request.getfixturevalue("sink"), request.getfixturevalue("target")
    if request.param == "mysql":
        found: tuple[Sink, Rows] = request.getfixturevalue("mysql_pair")
        return found
    if request.param == "mariadb":
        return request.getfixturevalue("mariadb_sink"), request.getfixturevalue("in_mariadb")
    sink, file = request.getfixturevalue("sqlite_sink")

    def run(statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as connection:
            return connection.execute(statement).fetchall()

    return sink, run


class Sent:
    """A history whose records are sent to the topics as they are made."""

    def __init__(self, sink: Sink, history: History) -> None:
        self.sink, self.history = sink, history
        self.upto = dict.fromkeys(history.logs, 0)
        for at in history.logs:
            sink.worker.kafka.inputs.create(at.topic, at.partition + 1)

    def send(self, *only: str, but: int = 0) -> None:
        """What is new, of some topics; all but so many records of each."""
        for at, log in self.history.logs.items():
            if not only or at.topic.rpartition(".")[2] in only:
                end = max(self.upto[at], len(log) - but)
                for key, value in log[self.upto[at] : end]:
                    self.sink.send(at.topic, key, value, partition=at.partition)
                self.upto[at] = end


def order_with_items(number: int) -> list[Row]:
    return [
        Row("orders", number, values={"n": 0}),
        *(Row("items", 10 * number + place, values={"order_id": number, "n": place}) for place in range(3)),
    ]


def without_order(number: int) -> list[Row]:
    return [*(Row("items", 10 * number + place, "d") for place in range(3)), Row("orders", number, "d")]


def test_rows_are_written_in_the_order_of_the_source(
    pair: tuple[Sink, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_writer: Writer, changes: Any) -> Any:
        raise AssertionError(f"one of {len(changes)} changes was refused, so their order was wrong")

    monkeypatch.setattr(Writer, "write_what_can_be", refused)
    sink, ask = pair
    for statement in FOREIGN_KEYS:
        ask(statement)
    history = History()
    history.commit(
        *order_with_items(1), Row("accounts", 1, values={"n": 1}), Row("accounts", 2, values={"n": 2})
    )
    # Each of these would break a constraint in another order.
    history.commit(*without_order(1), *order_with_items(2), *order_with_items(3), *without_order(2))
    history.commit(
        Row("accounts", 1, "u", values={"n": 9}),
        Row("accounts", 2, "u", values={"n": 1}),
        Row("accounts", 1, "u", values={"n": 2}),
        Row("accounts", 3, values={"n": 9}),
        Row("accounts", 3, "d"),
        Row("accounts", 4, values={"n": 9}),
    )
    sent = Sent(sink, history)
    sent.send()
    sink.start(TOPICS, **WHOLE)
    sink.wait()
    assert ask("SELECT id FROM orders") == [(3,)]
    assert ask("SELECT id, order_id FROM items ORDER BY id") == [(30, 3), (31, 3), (32, 3)]
    assert ask("SELECT id, n FROM accounts ORDER BY id") == [(1, 2), (2, 1), (4, 9)]


def test_nothing_is_seen_of_a_transaction_before_all_of_it_is_there(sink: Sink, target: Rows) -> None:
    for statement in FOREIGN_KEYS:
        target(statement)
    history = History()
    history.commit(*order_with_items(1))
    sent = Sent(sink, history)
    sink.start(TOPICS, **WHOLE)
    sent.send()
    sink.wait()
    history.commit(*order_with_items(2))
    sent.send("orders", "transaction")
    sent.send("items", but=1)
    committed = sink.worker.kafka.inputs.offsets[f"connect-{sink.worker.name}"]
    sink.worker.wait_for(lambda: sink.worker.taken >= 11, "the rows to be read")
    assert target("SELECT count(*) FROM orders") == [(1,)]
    assert committed[MARKERS] < sent.upto[MARKERS]
    sent.send()
    sink.wait()
    assert target("SELECT count(*) FROM items") == [(6,)]


@pytest.mark.parametrize("seed", range(2))
def test_random_transactions_are_written_once_and_whole_under_kills(
    pair: tuple[Sink, Rows], seed: int
) -> None:
    sink, ask = pair
    r = random.Random(seed)
    history = random_history(r, 60)
    for table in TABLES:
        ask(f"CREATE TABLE {table} (id bigint PRIMARY KEY, n bigint)")
    states = all_states(history)
    watched = Watched(ask, states)
    sent = Sent(sink, history)
    worker = sink.worker
    sink.start(
        TOPICS, **WHOLE, consumer_override_max_poll_records="7", tidings_transactions_buffer_bytes="40000"
    )
    for number, point in enumerate(["sink.put", "sink.flush", "sink.put"]):
        with worker.crash_at(point, number * 3) as crashed:
            for at, log in history.logs.items():
                part = len(log) * (number + 1) // 3
                for key, value in log[sent.upto[at] : part]:
                    sink.send(at.topic, key, value, partition=at.partition)
                sent.upto[at] = part
            worker.wait_for(lambda: watched.look() and crashed.is_set(), point)
        worker.restart()
    worker.wait_for(lambda: watched.look() and watched.at == len(states) - 1, "the last state")
    sink.wait()
    assert watched.look()


class Watched:
    """A reader: it never sees a state that the source did not have between two transactions, nor an older one than before."""

    def __init__(self, ask: Rows, states: list[dict[str, dict[int, Any]]]) -> None:
        self._ask, self._states = ask, states
        self.at = -1
        """-1 while the first snapshot is being written."""

    def look(self) -> bool:
        """Look once; always true."""
        one = " UNION ALL ".join(f"SELECT '{table}', id, n FROM {table}" for table in TABLES)
        seen: dict[str, dict[int, Any]] = {table: {} for table in TABLES}
        for table, number, n in self._ask(one):
            seen[table][number] = n
        first = max(self.at, 0)
        found = next(
            (place for place, state in enumerate(self._states[first:], first) if state == seen), None
        )
        assert found is not None or self.at < 0, f"a state that the source never had, after number {self.at}"
        self.at = self.at if found is None else found
        return True


def all_states(history: History) -> list[dict[str, dict[int, Any]]]:
    """What the tables hold after the first snapshot, and after each transaction."""
    state: dict[str, dict[int, Any]] = {table: {} for table in TABLES}
    for at, log in history.logs.items():
        for key, value in log:
            if value and value.get("op") == "r":
                state[at.topic.rpartition(".")[2]][key["id"]] = value["after"].get("n")
    found = [{table: dict(rows) for table, rows in state.items()}]
    for _, rows in history.committed:
        for row in rows:
            if row.op == "d":
                state[row.table].pop(row.key, None)
            else:
                state[row.table][row.key] = row.values.get("n")
        found.append({table: dict(held) for table, held in state.items()})
    return found


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_row_that_is_refused(sink: Sink, target: Rows, tolerance: str) -> None:
    target("CREATE TABLE orders (id bigint PRIMARY KEY, n int)")
    target("CREATE TABLE items (id bigint PRIMARY KEY, n smallint)")
    history = History()
    history.commit(Row("orders", 1), Row("items", 7, values={"n": 99_999}), Row("items", 8, values={"n": 1}))
    sent = Sent(sink, history)
    more = LETTERS if tolerance == "all" else {}
    sink.start(TOPICS, **WHOLE, **more)
    sent.send("items")
    sink.worker.wait_for(lambda: sink.worker.taken >= 2, "the items to be read")
    sent.send()
    if tolerance == "none":
        sink.worker.wait_for(lambda: sink.worker.state == "FAILED", "the failure")
        assert isinstance(sink.worker.error, RecordError)
        assert "topic shop.public.items, partition 0, offset 0" in str(sink.worker.error)
        assert target("SELECT id FROM orders") == []
        return
    sink.wait()
    assert target("SELECT id FROM orders UNION ALL SELECT id FROM items") == [(1,), (8,)]
    ((_, letter, headers),) = sink.worker.kafka.topics["letters"]
    assert json.loads(letter)["after"] == {"id": 7, "n": 99_999}, (
        "whole, although it was read in an earlier batch"
    )
    assert dict(headers)["__connect.errors.offset"] == b"0"


@pytest.mark.parametrize("memory", ["100000000", "20000"])
def test_a_large_transaction_is_written_at_once(
    sink: Sink, target: Rows, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    monkeypatch.setattr(transactions_task, "_MOST_ROWS", 20)
    target("CREATE TABLE items (id bigint PRIMARY KEY, n bigint, late text)")
    history = History()
    history.commit(Row("items", 999))
    history.commit(*(Row("items", n, values={"n": n}) for n in range(200)), Row("accounts", 1))
    history.commit(Row("items", 1, "u", values={"n": -1}))
    sent = Sent(sink, history)
    sent.send()
    seen = set()
    sink.start(TOPICS, **WHOLE, tidings_transactions_buffer_bytes=memory)

    def all_there() -> bool:
        ((count,),) = target("SELECT count(*) FROM items")
        seen.add(count)
        return count == 201

    sink.worker.wait_for(all_there, "the rows")
    sink.wait()
    assert seen <= {0, 1, 201}
    assert target("SELECT n FROM items WHERE id IN (1, 199) ORDER BY id") == [(-1,), (199,)]
    assert target("SELECT id FROM accounts") == [(1,)]


@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_nobody_has_answered(
    sink: Sink, target: Rows, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    target("CREATE TABLE orders (place bigserial, id bigint, n int)")
    commit, failures = PostgresDatabase.commit, [1]

    def unanswered(database: PostgresDatabase) -> None:
        if failures and database._rows("SELECT count(*) FROM orders", None) != [(0,)]:
            failures.pop()
            if done:
                commit(database)
            database._connection.close()
            raise LostError("the connection is gone")
        commit(database)

    monkeypatch.setattr(PostgresDatabase, "commit", unanswered)
    history = History()
    history.commit(Row("orders", 1), Row("orders", 2))
    history.commit(Row("orders", 3))
    sent = Sent(sink, history)
    sent.send()
    options = {**WHOLE, "insert_mode": "insert", "primary_key_mode": "none", "delete_enabled": "false"}
    sink.start(TOPICS, **options)
    sink.wait()
    assert not failures
    assert target("SELECT id FROM orders ORDER BY place") == [(1,), (2,), (3,)]


def test_a_transaction_of_mariadb_whose_number_goes_back_ends_the_task(pair: tuple[Sink, Rows]) -> None:
    sink, ask = pair
    history = History(mariadb=True)
    for number, (server, sequence) in enumerate([(1, 7), (2, 8), (2, 9), (1, 10), (3, 11)], 1):
        history.commit(Row("orders", number), gtid=Gtid(0, server, sequence))
    history.repeat(5)
    sent = Sent(sink, history)
    sent.send()
    sink.start(TOPICS, **WHOLE)
    sink.wait()
    sink.worker.stop()
    history.repeat(5)
    history.commit(Row("orders", 6), gtid=Gtid(0, 2, 10))
    sent.send()
    sink.worker.resume()
    sink.worker.wait_for(lambda: sink.worker.state == "FAILED", "the failure")
    assert isinstance(sink.worker.error, TransactionError)
    assert (
        "topic shop.transaction, partition 0, offset 31: transaction 0-2-10 follows sequence number 11"
        in str(sink.worker.error)
    )
    assert "of its server 0-2-9 as the last one was read" in str(sink.worker.error)
    assert ask("SELECT id FROM orders ORDER BY id") == [(number,) for number in range(1, 6)]


@pytest.mark.parametrize("mariadb", [False, True])
def test_offsets_that_are_altered_are_read_again(sink: Sink, target: Rows, mariadb: bool) -> None:
    history = History(mariadb=mariadb)
    history.commit(Row("orders", 2, values={"n": 1}))
    history.commit(Row("orders", 2, "u", values={"n": 2}), Row("items", 1))
    sent = Sent(sink, history)
    sent.send()
    sink.start(TOPICS, **WHOLE)
    sink.wait()
    sink.worker.stop()
    target("DELETE FROM orders")
    target("DELETE FROM items")
    sink.worker.alter_offsets(
        [
            {
                "partition": {"kafka_topic": at.topic, "kafka_partition": at.partition},
                "offset": {"kafka_offset": 0},
            }
            for at in history.logs
        ]
    )
    sink.worker.resume()
    sink.worker.wait_for(lambda: target("SELECT n FROM orders") == [(2,)], "the rows again")
    assert target("SELECT id FROM items") == [(1,)]
    sink.worker.stop()
    target("DELETE FROM orders")
    sink.worker.reset_offsets()
    sink.worker.resume()
    sink.worker.wait_for(lambda: target("SELECT n FROM orders") == [(2,)], "the rows after a reset")


def test_a_truncate_has_its_place(sink: Sink, target: Rows) -> None:
    history = History()
    history.commit(Row("orders", 1), Row("orders", 2))
    history.commit(Row("orders", 3), Row("orders", 4, "t"), Row("orders", 5))
    sent = Sent(sink, history)
    sent.send()
    sink.start(TOPICS, **WHOLE, truncate_enabled="true")
    sink.wait()
    assert target("SELECT id FROM orders ORDER BY id") == [(5,)]


def test_a_truncate_of_a_table_that_is_not_there_yet_empties_nothing(sink: Sink, target: Rows) -> None:
    history = History()
    history.commit(Row("orders", 1, "t"))
    sent = Sent(sink, history)
    sent.send()
    sink.start(TOPICS, **WHOLE, truncate_enabled="true")
    sink.wait()
    history.commit(Row("orders", 2))
    sent.send()
    sink.wait()
    assert target("SELECT id FROM orders") == [(2,)]


def test_an_incomplete_transaction_ends_the_task_with_its_name(sink: Sink, target: Rows) -> None:
    history = History()
    lost = history.commit(Row("orders", 1))
    history.commit(Row("orders", 2))
    del history.logs[MARKERS][:2]
    sent = Sent(sink, history)
    sent.send()
    sink.start(TOPICS, **WHOLE)
    sink.worker.wait_for(lambda: sink.worker.state == "FAILED", "the failure")
    assert isinstance(sink.worker.error, TransactionError)
    assert f"transaction {lost}:" in str(sink.worker.error)
    sink.start(TOPICS, **WHOLE, tidings_transactions_incomplete="write")
    sink.wait()
    assert target("SELECT id FROM orders ORDER BY id") == [(1,), (2,)]


def test_options_are_checked() -> None:
    connector = JdbcSinkConnector()
    source = {
        "connector.class": connector.class_name,
        "connection.url": "jdbc:sqlite:/x",
        "tidings.transactions": "source",
    }
    for config, option, words in (
        ({"topics": "a.b.c"}, "tidings.transactions.topic", "name the transaction topic"),
        ({"topics": "a.b.c", "tidings.transactions.topic": "a.transaction"}, "tidings.transactions.topic", "to topics"),
        ({"topics.regex": r"a\\.b\\..*", "tidings.transactions.topic": "a.transaction"}, "tidings.transactions.topic", "topics.regex"),
        ({"topics": "a.b.c,txs", "tidings.transactions.topic": "txs"}, "tidings.transactions.collections", "needed"),
        ({"topics": "a.b.c,a.transaction", "use.reduction.buffer": "true"}, "use.reduction.buffer", "change by change"),
        ({"topics": "a.b.c,a.transaction", "tidings.transactions.buffer.bytes": "0"}, "tidings.transactions.buffer.bytes", ""),
    ):  # fmt: skip
        found = connector.problems(source | config)
        assert words in found[option][0], (config, found)
    right = source | {"topics.regex": r"a\..*", "tidings.transactions.topic": "a.transaction"}
    assert connector.problems(right) == {}
    assert len(connector.task_configs(right, 5)) == 1
    settings = connector.read("s", right).transactions
    assert settings is not None
    assert settings.counts("odd name.t")
    assert settings.carries("a.odd_name.t", "odd name.t")
    assert not settings.carries("a.b.c", "odd name.t")
    named = connector.read("s", source | {"topics": "all,txs", "tidings.transactions.topic": "txs", "tidings.transactions.collections": "b.c"}).transactions  # fmt: skip
    assert named is not None
    assert named.counts("b.c")
    assert not named.counts("b.d")
    assert named.carries("all", "b.c")
