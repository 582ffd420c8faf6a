"""Rows of a snapshot in the middle of the stream: older transactions come after them, and must be told as if they did not."""

import json
import random
from typing import Any

import msgspec
import pytest
from assembling import MARKERS, ORDERS, Reader, Topics
from bikes.history import Change, History, Transaction
from bikes.topics import records_of, snapshot_record

from tidings_domain.errors import RowError
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.decode import EnvelopeDecoder
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.first_records import FirstRecords, look
from tidings_translator.sequencer.assembly.progress import Progress

SECOND = 1_000_000
READ_AT_US = 1_770_000_000 * SECOND


def at(transaction: Transaction, ts_us: int) -> Transaction:
    """The same, committed at another time."""
    return Transaction(
        transaction.txid, transaction.end_lsn, transaction.last_commit_lsn, ts_us, transaction.changes
    )


def midway(table: str, row: dict[str, Any], last_commit_lsn: int) -> bytes:
    """As Debezium's blocking snapshot writes a row: where its stream had stopped, and when it was read."""
    _, _, value = snapshot_record("p", table, row, lsn=last_commit_lsn + 7)
    envelope = json.loads(value or b"")
    envelope["source"] |= {
        "sequence": json.dumps([str(last_commit_lsn), str(last_commit_lsn + 7)]),
        "ts_ms": READ_AT_US // 1000,
    }
    return json.dumps(envelope).encode()


def order(number: int, status: str, op: str = "u") -> Change:
    return Change("public.orders", op, None, {"id": number, "customer_id": 1, "status": status})


def seen(out: list[object]) -> list[tuple[str, int, str]]:
    """What came out of orders: operation, id, status."""
    found = []
    for one in out:
        rows = [one.envelope] if isinstance(one, SnapshotRow) else list(one.rows)  # type: ignore[attr-defined]
        found += [(row.op, row.after["id"], row.after["status"]) for row in rows if row.after]
    return found


@pytest.fixture
def reader() -> Reader:
    """Two orders placed, a snapshot that holds what a third transaction is yet to tell of the first, then others."""
    history = History(1)
    commit = history.commit
    early = at(commit([order(1, "placed", "c"), order(2, "placed", "c")]), READ_AT_US - 60 * SECOND)
    between = at(commit([order(1, "paid")]), READ_AT_US - SECOND)
    close = at(commit([order(2, "paid")]), READ_AT_US + SECOND)
    later = at(commit([order(1, "shipped")]), READ_AT_US + 60 * SECOND)
    topics = Topics(partitions=1)
    topics.write(records_of("p", early))
    for number, status in ((1, "paid"), (2, "placed"), (3, "found")):
        row = {"id": number, "customer_id": 1, "status": status}
        topics.values[ORDERS].append(midway("public.orders", row, early.end_lsn))
    topics.write([r for t in (between, close, later) for r in records_of("p", t)])
    reader = Reader(topics)
    reader.assembler.progress.close_snapshot()
    return reader


TOLD = [
    ("c", 1, "placed"),
    ("c", 2, "placed"),
    ("u", 1, "paid"),
    ("u", 2, "paid"),
    ("r", 3, "found"),
    ("u", 1, "shipped"),
]


def test_what_the_stream_tells_after_a_snapshot_is_told_and_the_rest_of_the_snapshot_before_what_is_newer(
    reader: Reader,
) -> None:
    assert seen(reader.feed_all()) == TOLD
    assert [one.commit_lsn for one in reader.committed if isinstance(one, SnapshotRow)] == [
        reader.committed[2].commit_lsn  # type: ignore[attr-defined]
    ]
    assert reader.assembler.waiting.snapshot_rows == 0
    assert reader.assembler.offsets() == {p: len(v) for p, v in reader.topics.values.items()}


def test_rows_wait_for_a_newer_transaction_and_say_so(reader: Reader) -> None:
    markers = reader.topics.values[MARKERS]
    markers[-2:], held_back = [], markers[-2:]
    last = reader.topics.values[ORDERS].pop()
    assert seen(reader.feed_all()) == TOLD[:4]
    assert reader.assembler.waiting.snapshot_rows == 3
    assert "3 rows of a snapshot wait" in str(reader.assembler.waiting.describe())
    assert reader.assembler.offsets()[ORDERS] == 2, "they are read again after a restart"
    reader.crash()
    markers += held_back
    reader.topics.values[ORDERS].append(last)
    assert seen(reader.feed_all()) == TOLD


@pytest.mark.parametrize("seed", range(10))
def test_any_arrival_and_restarts_give_the_same(reader: Reader, seed: int) -> None:
    chance = random.Random(seed)
    while unread := reader.unread():
        reader.feed(chance.choice(unread), chance.randint(1, 3))
        if chance.random() < 0.4:
            reader.commit()
        if chance.random() < 0.3:
            reader.crash()
    assert seen(reader.feed_all()) == TOLD


def test_many_rows_wait_on_disk_and_come_out_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings_translator.sequencer.assembly.snapshot_barrier._RELEASED_AT_ONCE", 400)
    history = History(1)
    early = at(history.commit([order(1, "placed", "c")]), READ_AT_US - 60 * SECOND)
    told = at(history.commit([order(7, "paid"), order(1_200, "paid")]), READ_AT_US)
    later = at(history.commit([order(1, "shipped")]), READ_AT_US + 60 * SECOND)
    topics = Topics(partitions=1)
    topics.write(records_of("p", early))
    for number in range(1_300):
        row = {"id": number, "customer_id": 1, "status": "read"}
        topics.values[ORDERS].append(midway("public.orders", row, early.end_lsn))
    topics.write([r for t in (told, later) for r in records_of("p", t)])
    reader = Reader(topics)
    reader.assembler.progress.close_snapshot()
    reader.ends_known = False
    for partition in topics.values:
        reader.feed(partition, 5_000)
    sizes: list[int] = []
    while reader.assembler.wants_ends or not sizes or sizes[-1]:
        if reader.assembler.wants_ends:
            reader.assembler.set_ends({p: len(values) for p, values in topics.values.items()})
        out = list(reader.assembler.take(0))
        sizes.append(len(out))
        reader.pending += out
        reader.commit()
    assert sum(sizes) > 1_200
    assert max(sizes) <= 400
    ids = [
        row.envelope.after["id"]
        for row in reader.committed
        if isinstance(row, SnapshotRow) and row.envelope.after
    ]
    assert ids == [number for number in range(1_300) if number not in {7, 1_200}]
    assert reader.assembler.offsets()[ORDERS] == len(topics.values[ORDERS])


def test_the_first_snapshot_and_an_incremental_one_wait_for_nothing() -> None:
    topics = Topics(partitions=1)
    row = {"id": 1, "customer_id": 1, "status": "placed"}
    topics.write([snapshot_record("p", "public.orders", row, lsn=500)])
    envelope = json.loads(midway("public.orders", row, 500))
    envelope["source"] |= {"snapshot": "incremental"}
    topics.values[ORDERS].append(msgspec.json.encode(envelope))
    reader = Reader(topics)
    assert len(reader.feed_all()) == 2


def anew(table: str, row: dict[str, Any], lsn: int, read_at_us: int = READ_AT_US) -> bytes:
    """As Debezium writes a row of a snapshot at a restart: it knows of no commit, and is read after the snapshot's time."""
    _, _, value = snapshot_record("p", table, row, lsn=lsn)
    envelope = json.loads(value or b"")
    envelope["source"] |= {"ts_ms": READ_AT_US // 1000}
    return json.dumps(envelope | {"ts_ms": read_at_us // 1000}).encode()


def restarted() -> tuple[Topics, list[Transaction]]:
    """Transactions before a restart, while the snapshot is read (of each table as it is by then), and after it."""
    history = History(1)
    commit = history.commit
    early = at(commit([order(1, "placed", "c")]), READ_AT_US - 60 * SECOND)
    untold = at(commit([order(1, "paid"), order(2, "placed", "c")]), READ_AT_US - SECOND)
    meanwhile = at(commit([order(1, "shipped")]), READ_AT_US + 3 * SECOND)
    later = at(commit([order(1, "cancelled")]), READ_AT_US + 60 * SECOND)
    topics = Topics(partitions=1)
    topics.write(records_of("p", early))
    rows = [
        ("public.order_items", {"order_id": 1, "line_no": 1, "price": "1.00", "x": 1}),
        ("public.orders", {"id": 1, "customer_id": 1, "status": "shipped"}),
        ("public.orders", {"id": 2, "customer_id": 1, "status": "placed"}),
    ]
    for table, row in rows:
        value = anew(table, row, untold.end_lsn + 1, READ_AT_US + 4 * SECOND)
        topics.values[Partition(f"p.{table}", 0)].append(value)
    topics.write([r for t in (meanwhile, later) for r in records_of("p", t)])
    return topics, [early, untold, meanwhile, later]


def test_a_row_of_a_snapshot_that_says_no_position_is_refused_behind_the_stream() -> None:
    """As MariaDB's connector of Debezium writes them: they are the oldest there is, or nobody knows."""
    history, topics = History(1), Topics(partitions=1)
    row = {"id": 1, "customer_id": 1, "status": "read"}
    _, _, value = snapshot_record("p", "public.orders", row, lsn=1)
    envelope = EnvelopeDecoder().envelope(value)
    assert envelope is not None
    envelope = msgspec.structs.replace(
        envelope, source=msgspec.structs.replace(envelope.source, lsn=None, sequence=None)
    )
    topics.write(records_of("p", history.commit([order(1, "paid")])))
    assembler = topics.assembler()
    assembler.row(ORDERS, 0, envelope, 0.0)
    assert seen(list(assembler.take(0.0))) == [("r", 1, "read")]
    behind = topics.assembler(Progress(commit_lsn=90))
    with pytest.raises(
        RowError, match=r"offset 7 was read by a snapshot that does not say as of which commit"
    ):
        behind.row(ORDERS, 7, envelope, 0.0)


@pytest.mark.parametrize("seed", range(10))
def test_a_stream_that_begins_anew_is_silent_about_what_was_committed_while_it_was_read(seed: int) -> None:
    topics, (early, untold, meanwhile, later) = restarted()
    chance = random.Random(seed)
    reader = Reader(topics, roots=frozenset({"public.orders"}), first=first_records(topics))
    beginnings = []
    while unread := reader.unread():
        reader.feed(chance.choice(unread), chance.randint(1, 3))
        beginnings += reader.assembler.take_beginnings()
        if chance.random() < 0.4:
            reader.commit()
        if chance.random() < 0.3:
            reader.crash()
    out = reader.feed_all()
    assert [(one.commit_lsn, one.silent) for one in out if isinstance(one, CompleteTransaction)] == [
        (early.end_lsn, False),
        (meanwhile.end_lsn, True),
        (later.end_lsn, False),
    ]
    tables = [one.envelope.source.table for one in out if isinstance(one, SnapshotRow)]
    assert tables == ["orders", "orders", "order_items"], "roots first, and each once"
    assert all(one.begins_anew for one in out if isinstance(one, SnapshotRow))
    assert isinstance(out[0], CompleteTransaction)
    assert {one.lsn for one in beginnings} == {untold.end_lsn + 1}
    beginning = reader.assembler.progress.beginning
    assert beginning is not None
    assert beginning.read_until_ms == READ_AT_US // 1000 + 4_000


def first_records(topics: Topics) -> FirstRecords:
    rows = [(values[0], ()) for partition, values in topics.values.items() if values and partition != MARKERS]
    return look(EnvelopeDecoder(), [(value, ()) for value in topics.values[MARKERS]], rows)


def test_the_first_records_tell_a_first_snapshot_from_another() -> None:
    topics, (early, *_) = restarted()
    [value] = topics.values[Partition("p.public.order_items", 0)]
    lsn = json.loads(value or b"")["source"]["lsn"]
    assert first_records(topics) == FirstRecords(early.end_lsn, lsn)


def test_rows_that_say_as_of_where_they_are_wait_for_that_and_not_for_a_time() -> None:
    """Capture's: what the stream tells behind them is newer than they are."""
    history = History(1)
    early = at(history.commit([order(1, "placed", "c")]), READ_AT_US)
    soon = at(history.commit([order(2, "paid")]), READ_AT_US)
    topics = Topics(partitions=1)
    topics.write(records_of("p", early))
    row = {"id": 2, "customer_id": 1, "status": "placed"}
    topics.values[ORDERS].append(midway("public.orders", row, early.end_lsn))
    topics.write(records_of("p", soon))
    reader = Reader(topics)
    reader.as_of = early.end_lsn + 7
    reader.assembler.progress.close_snapshot()
    assert seen(reader.feed_all()) == [("c", 1, "placed"), ("r", 2, "placed"), ("u", 2, "paid")]
