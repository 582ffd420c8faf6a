"""Whole transactions from rows and markers that come in any order: each once, complete, in commit order."""

import random
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from transaction_parts import MARKERS, PREFIX, TABLES, History, Row, random_history

from tidings_connect.data.subscription import Consumed, Reach, TopicPartition
from tidings_connect.task.sink import LeftOut, SinkRecord
from tidings_connect.transforms.record import Header
from tidings_envelope.gtid import Gtid
from tidings_envelope.headers.left_out import HEADER
from tidings_envelope.server_numbers import ServerNumbers
from tidings_sinks.errors import TransactionError
from tidings_sinks.transactions.assembly import Assembly
from tidings_sinks.transactions.options import TransactionSettings, read_transaction_settings
from tidings_sinks.transactions.units import Loose, Transaction, Unit

TOPICS = [f"{PREFIX}.public.{table}" for table in TABLES]


def settings(**more: str) -> TransactionSettings:
    config = {"tidings.transactions": "source", "topics": ",".join([*TOPICS, MARKERS.topic])}
    options = {f"tidings.transactions.{name.replace('_', '.')}": value for name, value in more.items()}
    found = read_transaction_settings(config | options)
    assert found is not None
    return found


class Target:
    """What a target holds: rows that came out, and where a reader goes on."""

    def __init__(self) -> None:
        self.transactions: list[tuple[int, list[Any]]] = []
        self.snapshot: list[Any] = []
        self.offsets: dict[TopicPartition, int] = {}
        self.position: int | None = None
        self.numbers = ServerNumbers()

    def write(self, assembly: Assembly, units: list[Unit]) -> None:
        for unit in units:
            rows = [held.record.value["after"] or held.record.value["before"] for held in unit.rows]
            if isinstance(unit, Transaction):
                self.transactions.append((unit.txid, rows))
            else:
                assert isinstance(unit, Loose)
                self.snapshot += [(len(self.transactions), row) for row in rows]
        self.offsets |= assembly.offsets(units)
        self.position, self.numbers = assembly.position_after(units), assembly.numbers_after(units)
        assembly.done(units)


class Reader:
    """Reads a history into an assembly, as the loop of a sink does."""

    def __init__(self, history: History, target: Target, found: TransactionSettings) -> None:
        self.history, self.target, self.settings = history, target, found
        self.now = 0.0
        self.assembly = Assembly(found)
        self.start()

    def start(self) -> None:
        """Begin where the target says."""
        self.assembly.forget()
        self.assembly = Assembly(self.settings)
        self.assembly.begin_behind(self.target.position, self.target.numbers.copy())
        self.at = {at: self.target.offsets.get(at, 0) for at in self.history.logs}
        self.assembly.open({at: self.target.offsets.get(at, -1) for at in self.at}, self.now)

    def reaches(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, Reach]:
        return {at: Reach(len(self.history.logs[at]), self.at[at]) for at in partitions}

    def read(self, at: TopicPartition, count: int) -> None:
        """Up to so many records of a partition; none of one that is paused."""
        if at in self.assembly.paused():
            return
        for offset in range(self.at[at], min(self.at[at] + count, len(self.history.logs[at]))):
            record, consumed = sink_record(self.history, at, offset)
            self.assembly.take(record, consumed, self.now)
            self.at[at] = offset + 1

    def ready(self) -> list[Unit]:
        self.now += 1
        return self.assembly.ready(self.now, self.reaches, 50)

    def write(self) -> None:
        while units := self.ready():
            self.target.write(self.assembly, units)

    def finish(self) -> None:
        """Read everything."""
        for _ in range(10_000):
            for at in self.at:
                self.read(at, 20)
            self.write()
            if all(self.at[at] == len(log) for at, log in self.history.logs.items()) and not self.ready():
                return
        raise AssertionError(f"stuck at {self.at}, paused {self.assembly.paused()}")


def sink_record(history: History, at: TopicPartition, offset: int) -> tuple[SinkRecord, Consumed]:
    key, value = history.logs[at][offset]
    record = SinkRecord(at.topic, at.partition, None, key, None, value, 1, [], offset, at)
    return record, Consumed(*at, offset, b"k" * 10, b"v" * 100, [], 1)


def expected(history: History) -> list[tuple[int, list[Any]]]:
    return [(txid, [{"id": row.key} | row.values for row in rows]) for txid, rows in history.committed]


@pytest.mark.parametrize("mariadb", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_random_histories_come_out_whole(seed: int, mariadb: bool) -> None:
    r = random.Random(seed)
    history = random_history(r, 120, mariadb=mariadb)
    target = Target()
    reader = Reader(history, target, settings(buffer_bytes=str(r.choice([10_000, 200_000, 10**8]))))
    for _ in range(400):
        match r.random():
            case x if x < 0.8:
                reader.read(r.choice(list(reader.at)), r.randrange(30))
            case x if x < 0.96:
                reader.write()
            case x if x < 0.98 and (units := reader.ready()):
                before = [
                    len(unit.rows) for unit in units
                ]  # its writing failed: it is the same when it is written at last
                for at in reader.at:
                    reader.read(at, r.randrange(20))
                assert [len(unit.rows) for unit in units] == before
                target.write(reader.assembly, units)
            case _:
                reader.start()
    reader.finish()
    reader.assembly.forget()
    wanted = expected(history)
    assert target.transactions == wanted
    snapshot = [row for log in history.logs.values() for _, row in log if row and row.get("op") == "r"]
    assert len(target.snapshot) == len(snapshot)
    assert all(written == 0 for written, _ in target.snapshot), (
        "a row of the first snapshot behind a transaction"
    )
    assert reader.assembly.offsets() == {at: len(log) for at, log in history.logs.items() if log}
    assert not reader.assembly._memory
    assert not reader.assembly._disk.used_bytes


def test_a_partition_that_runs_ahead_is_paused_until_its_transactions_come() -> None:
    history = History()
    for number in range(100):
        history.commit(Row("items", number), Row("orders", number))
    reader = Reader(history, Target(), settings(buffer_bytes="60000"))
    items = TopicPartition(f"{PREFIX}.public.items", 0)
    for _ in range(20):
        reader.read(items, 5)
    assert reader.at[items] < 20
    assert reader.assembly.paused() == {items}
    reader.finish()
    assert reader.target.transactions == expected(history)


def test_a_row_of_an_incremental_snapshot_comes_behind_what_stands_before_it() -> None:
    history = History()
    history.commit(Row("accounts", 1, values={"n": 1}), Row("orders", 1))
    history.snapshot(Row("accounts", 1, values={"n": 1}), "incremental")
    history.commit(Row("accounts", 1, "u", values={"n": 2}))
    target = Target()
    reader = Reader(history, target, settings())
    reader.read(TopicPartition(f"{PREFIX}.public.accounts", 0), 10)
    reader.write()
    assert not target.snapshot
    reader.finish()
    assert target.snapshot == [(1, {"id": 1, "n": 1})]
    assert target.transactions == expected(history)


def test_a_transaction_without_an_end_is_named() -> None:
    history = History()
    lost = history.commit(Row("orders", 1), Row("items", 1))
    history.commit(Row("orders", 2))
    del history.logs[MARKERS][:2]  # retention
    reader = Reader(history, Target(), settings())
    with pytest.raises(TransactionError, match=f"transaction {lost}:.* no end in shop.transaction"):
        reader.finish()
    target = Target()
    Reader(history, target, settings(incomplete="write")).finish()
    assert target.transactions == expected(history)


def test_a_transaction_that_lacks_rows_is_named() -> None:
    history = History()
    history.commit(Row("orders", 1), Row("items", 1))
    lacking = history.commit(Row("orders", 2), Row("items", 2), Row("items", 3))
    del history.logs[TopicPartition(f"{PREFIX}.public.items", 0)][1]  # compaction
    reader = Reader(history, Target(), settings())
    reader.finish()
    reader.now += 100
    with pytest.raises(TransactionError, match=f"transaction {lacking}:.* lacks 1 rows of public.items"):
        reader.finish()
    assert len(reader.target.transactions) == 1
    target = Target()
    reader = Reader(history, target, settings(incomplete="write"))
    reader.finish()
    reader.now += 100
    reader.finish()
    assert [len(rows) for _, rows in target.transactions] == [2, 2]


def test_later_rows_show_at_once_that_rows_are_gone() -> None:
    history = History()
    history.commit(Row("items", 2), Row("items", 3))
    del history.logs[TopicPartition(f"{PREFIX}.public.items", 0)][0]
    history.commit(Row("items", 4))
    reader = Reader(history, Target(), settings(wait_ms="3600000"))
    with pytest.raises(TransactionError, match="lacks 1 rows"):
        reader.finish()


def test_rows_that_capture_or_a_transform_have_dropped_are_not_waited_for() -> None:
    history = History()
    history.commit(Row("orders", 1), Row("items", 1), Row("items", 2))
    items = TopicPartition(f"{PREFIX}.public.items", 0)
    target = Target()
    reader = Reader(history, target, settings())
    dropped, _ = sink_record(history, items, 0)
    reader.assembly.left_out(LeftOut(items, 0, dropped), 0.0)
    reader.at[items] = 1
    reader.finish()
    assert [rows for _, rows in target.transactions] == [[{"id": 1}, {"id": 2}]]

    target = Target()
    reader = Reader(history, target, settings())
    del history.logs[items][0]
    reader.read(MARKERS, 1)
    end, consumed = sink_record(history, MARKERS, 1)
    header = Header(HEADER, None, None, b'{"filtered": {"public.items": 1}}')
    reader.assembly.take(end._replace(headers=[header]), consumed, 0.0)
    reader.at[MARKERS] = 2
    reader.finish()
    assert [rows for _, rows in target.transactions] == [[{"id": 1}, {"id": 2}]]


def test_records_that_cannot_be_placed_are_named() -> None:
    history = History()
    history.commit(Row("orders", 2))
    orders = TopicPartition(f"{PREFIX}.public.orders", 0)
    record, consumed = sink_record(history, orders, 0)
    for value, words in (
        (record.value | {"transaction": None}, "has no transaction"),
        ({"id": 1}, "not an envelope"),
        (record.value | {"transaction": {"id": "x", "total_order": 1}}, "txid:lsn"),
        (record.value | {"source": {}}, "names no table"),
    ):
        reader = Reader(history, Target(), settings())
        with pytest.raises(
            TransactionError, match=f"topic shop.public.orders, partition 0, offset 0: .*{words}"
        ):
            reader.assembly.take(record._replace(value=value), consumed, 0.0)
    named = replace(settings(), counts=lambda _: False)
    with pytest.raises(TransactionError, match=r"public\.orders come by this topic"):
        Reader(history, Target(), named).finish()
    with pytest.raises(TransactionError, match="several partitions"):
        reader.assembly.open({TopicPartition(MARKERS.topic, 1): 0}, 0.0)


def test_a_history_that_moved_back_is_told() -> None:
    history = History()
    for number in range(3):
        history.commit(Row("orders", number))
    reader = Reader(history, Target(), settings())
    reader.finish()
    history.logs[MARKERS].append((None, history.logs[MARKERS][-1][1] | {"id": "9:1030"}))
    with pytest.raises(TransactionError, match=r"transaction 9:1030 .*history has"):
        reader.finish()


@pytest.mark.parametrize("number", [3, 9], ids=["long ago", "remembered"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_sequence_number_of_another_mariadb_server_that_goes_back_is_no_repeat(
    number: int, restarts: bool
) -> None:
    """A second primary, or one that was promoted without the last transactions: nothing of it was written."""
    history = History(mariadb=True)
    for sequence in range(1, 11):
        history.commit(Row("orders", sequence), gtid=Gtid(0, 1, sequence))
    reader = Reader(history, Target(), settings())
    reader.finish()
    history.commit(Row("orders", 11), gtid=Gtid(0, 9, number))
    if restarts:
        reader.start()
    with pytest.raises(TransactionError, match=f"transaction 0-9-{number} follows sequence number 10"):
        reader.finish()


def test_commits_of_several_mariadb_servers_that_come_again_are_repeats() -> None:
    history = History(mariadb=True)
    reader = Reader(history, Target(), settings())
    for number, (server, sequence) in enumerate([(1, 7), (1, 8), (2, 9), (2, 10), (1, 11), (2, 12)], 1):
        history.commit(Row("orders", number), gtid=Gtid(0, server, sequence))
        history.repeat(number)
        reader.finish()
        reader.start()
    assert reader.target.transactions == expected(history)


def test_transactions_of_a_domain_that_does_not_count_say_nothing() -> None:
    """Its markers are told without an event, also before those of the source (`gtid.source.excludes`)."""
    history = History(mariadb=True)
    reader = Reader(history, Target(), settings())
    for number in range(1, 4):
        local = f"91-1-{100 * number}"
        history.logs[MARKERS].append((None, {"status": "BEGIN", "id": local, "ts_ms": 1}))
        end = {"status": "END", "id": local, "ts_ms": 1, "event_count": 0, "data_collections": None}
        history.logs[MARKERS].append((None, end))
        reader.finish()
        history.commit(Row("orders", number), gtid=Gtid(0, 1, number))
        reader.finish()
        reader.start()
    assert reader.target.transactions == expected(history)


def test_what_does_not_fit_on_disk_is_refused() -> None:
    history = History()
    history.commit(*(Row("items", number) for number in range(200)))
    reader = Reader(history, Target(), settings(buffer_bytes="10000", disk_bytes="5000"))
    with pytest.raises(TransactionError, match=r"tidings\.transactions\.disk\.bytes allows 5000"):
        reader.finish()
    reader.assembly.forget()
