"""Whole transactions from rows and markers, whatever the order of arrival, repeats and restarts."""

import json
import random
from collections import defaultdict

import pytest
from assembling import MARKERS, ORDERS, TABLES, Reader, Topics, end_of, summary, told, two_orders
from bikes.history import Change, History, Transaction
from bikes.topics import Record, records_of, snapshot_record, with_repeats

from tidings_domain.errors import SequenceError
from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.decode import EnvelopeDecoder
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.assembler import Assembler
from tidings_translator.sequencer.assembly.progress import Progress


@pytest.mark.parametrize("seed", range(25))
def test_any_arrival_with_repeats_and_crashes_gives_each_transaction_once_in_order(seed: int) -> None:
    chance = random.Random(seed)
    history = History(seed)
    transactions = history.grow(120)
    topics = Topics()
    topics.write(
        with_repeats(
            [r for t in transactions for r in records_of("p", t)], seed, every=chance.choice([30, 200])
        )
    )
    reader = Reader(topics, read_ahead_rows=chance.choice([10, 50, 5000]))
    while unread := reader.unread():
        ready = [p for p in unread if p not in reader.assembler.paused()]
        reader.end_snapshot()
        assert ready, "everything that is unread is held: a deadlock"
        reader.feed(chance.choice(ready), chance.randint(1, 60))
        if chance.random() < 0.3:
            reader.commit()
        if chance.random() < 0.05:
            reader.crash()
    reader.end_snapshot()
    reader.commit()
    assert summary(reader.committed) == told(transactions)
    assert reader.assembler.open_transactions == 0
    assert reader.assembler.buffer.rows == 0
    assert reader.assembler.offsets() == {p: len(v) for p, v in topics.values.items()}


def test_end_before_its_rows_waits_and_says_for_what() -> None:
    topics = Topics(partitions=1)
    topics.write([r for t in two_orders() for r in records_of("p", t)])
    reader = Reader(topics)
    reader.feed(MARKERS, 10)
    assert reader.pending == []
    assert reader.assembler.waiting.describe() is not None
    assert "waits for 1 rows of public.orders" in str(reader.assembler.waiting.describe())
    assert len(reader.feed_all()) == 2
    assert reader.assembler.waiting.describe() is None


def test_offsets_stay_at_the_oldest_row_of_an_incomplete_transaction() -> None:
    topics = Topics(partitions=1)
    first, second = two_orders()
    topics.write([*records_of("p", first), *records_of("p", second)[:-1]])
    reader = Reader(topics)
    reader.feed_all()
    assert summary(reader.committed) == told([first])
    assert reader.assembler.offsets()[ORDERS] == 1
    assert reader.assembler.offsets()[MARKERS] == 3, "BEGIN is not needed again"


def test_a_repeated_transaction_id_after_the_wraparound_is_new() -> None:
    first, second = two_orders()
    again = Transaction(first.txid, second.end_lsn + 500, second.end_lsn, 1, first.changes)
    topics = Topics(partitions=1)
    topics.write([r for t in (first, second, again) for r in records_of("p", t)])
    assert summary(Reader(topics).feed_all()) == told([first, second, again])


def test_rows_that_wait_hold_their_partition_but_never_what_the_head_needs() -> None:
    history = History(5)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    transactions = [
        history.commit([Change("public.orders", "c", None, {**order, "id": number})]) for number in range(40)
    ]
    topics = Topics(partitions=1)
    topics.write([r for t in transactions for r in records_of("p", t)])
    reader = Reader(topics, read_ahead_rows=10)
    for partition in topics.values:
        reader.feed(partition, 30 if partition == ORDERS else 0)
    assert reader.assembler.paused() == {ORDERS}
    reader.feed(MARKERS, 80)
    assert len(reader.pending) == 30
    assert reader.assembler.paused() == set(), "the 31st transaction needs the partition"


def test_a_large_transaction_waits_on_disk_and_comes_out_in_order() -> None:
    chance = random.Random(3)
    history = History(1)
    lines = [
        Change("public.order_items", "c", None, {"order_id": 1, "line_no": line, "price": "1.00"})
        for line in range(2_345)
    ]
    small, large, after = history.grow(1)[0], history.commit(lines), history.grow(1)[0]
    topics = Topics()
    topics.write(with_repeats([r for t in (small, large, after) for r in records_of("p", t)], 3, every=300))
    reader = Reader(topics, max_buffered_rows=100)
    most = on_disk = 0
    told_of: list[tuple[int, list[int | None]]] = []
    while unread := reader.unread():
        reader.feed(chance.choice(unread), chance.randint(1, 60))
        most = max(most, reader.assembler.buffer._in_memory)
        on_disk = max(on_disk, reader.assembler.buffer.spilled_rows)
        for one in reader.pending:
            assert isinstance(one, CompleteTransaction)
            # Both goes, because whoever makes the change sets needs two.
            orders = [[r.transaction and r.transaction.total_order for r in one.rows] for _ in range(2)]
            assert orders[0] == orders[1]
            told_of.append((one.txid, orders[0]))
        reader.pending = []
    reader.end_snapshot()
    told_of += [(one.txid, [r.transaction.total_order for r in one.rows]) for one in reader.pending]  # type: ignore[attr-defined]
    assert told_of == [(txid, orders) for txid, _, orders in told([small, large, after])]
    assert most <= 100
    assert on_disk > 2_000
    assert (
        reader.assembler.buffer.rows,
        reader.assembler.buffer.spilled_rows,
        reader.assembler.buffer._in_memory,
    ) == (
        0,
        0,
        0,
    )
    reader.assembler.close()


def test_where_memory_is_full_only_what_the_head_needs_is_read() -> None:
    history = History(1)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    transactions = [
        history.commit([Change("public.orders", "c", None, {**order, "id": n}), *_payments(n, 20)])
        for n in range(10)
    ]
    topics = Topics(partitions=1)
    topics.write([r for t in transactions for r in records_of("p", t)])
    reader = Reader(topics, max_buffered_rows=100)
    payments = Partition("p.public.payments", 0)
    reader.feed(payments, 110)
    assert reader.assembler.paused() == {payments}
    assert reader.assembler.buffer.spilled_rows == 0
    assert summary(reader.feed_all()) == told(transactions)


def _payments(order: int, count: int) -> list[Change]:
    return [
        Change("public.payments", "c", None, {"id": order * 1000 + number, "order_id": order})
        for number in range(count)
    ]


def incremental(table: str, row: dict[str, object]) -> Record:
    """As an incremental snapshot writes a row: beside the stream, without an LSN."""
    topic, key, value = snapshot_record("p", table, row, lsn=0)
    envelope = json.loads(value or b"")
    envelope["source"] |= {"snapshot": "incremental", "lsn": None, "sequence": None}
    return topic, key, json.dumps(envelope).encode()


def test_a_snapshot_s_row_does_not_overtake_a_transaction_that_it_was_read_behind() -> None:
    """It would tell silently what the transaction is about to say, and that would be nobody's news."""
    topics = Topics(partitions=1)
    first, second = two_orders()
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    topics.write(records_of("p", first))
    topics.write(
        [incremental("public.orders", order), incremental("public.customers", {"id": 1, "name": "x"})]
    )
    topics.write(records_of("p", second))
    reader = Reader(topics)
    reader.assembler.progress.close_snapshot()
    reader.feed(ORDERS, 2)
    assert reader.pending == []
    assert not reader.assembler.progress.snapshot_open, "streaming does not wait for an incremental snapshot"
    assert reader.assembler.offsets()[ORDERS] == 0
    reader.feed(Partition("p.public.customers", 0), 1)
    assert [type(one) for one in reader.pending] == [SnapshotRow], "nothing is before it in its partition"
    reader.feed(MARKERS, 4)
    reader.feed(ORDERS, 1)
    kinds = [type(one) for one in reader.pending]
    assert kinds == [SnapshotRow, CompleteTransaction, SnapshotRow, CompleteTransaction]
    assert reader.assembler.offsets()[ORDERS] == 3
    assert all(place.buffered == 0 for place in reader.assembler._places.values())


def test_a_row_without_a_transaction_names_the_connector_option() -> None:
    topics = Topics(partitions=1)
    _, key, value = records_of("p", two_orders()[0])[1]
    topics.write(
        [(ORDERS.topic, key, json.dumps({**json.loads(value or b""), "transaction": None}).encode())]
    )
    with pytest.raises(SequenceError, match=r"p\.public\.orders/0 offset 0") as caught:
        Reader(topics).feed(ORDERS, 1)
    assert "provide.transaction.metadata" in str(caught.value.hint)


def test_history_that_has_moved_back_is_an_error_and_not_a_repeat() -> None:
    topics = Topics(partitions=1)
    first, second = two_orders()
    other = Transaction(999, first.end_lsn + 1, None, 1, first.changes)
    topics.write([r for t in (first, second, other) for r in records_of("p", t)])
    with pytest.raises(SequenceError, match="history has changed"):
        Reader(topics).feed_all()


@pytest.mark.parametrize("count", [5, 400], ids=["remembered", "long ago"])
@pytest.mark.parametrize("number", [1, 3])
def test_a_sequence_number_of_another_mariadb_server_that_goes_back_is_no_repeat(
    count: int, number: int
) -> None:
    """A second primary, or one that was promoted without the last transactions: nothing of it was told before."""
    topics = Topics(partitions=1)
    topics.write([end_of(f"0-1-{sequence}") for sequence in range(1, count + 1)])
    reader = Reader(topics)
    assert len(reader.feed_all()) == count
    topics.write([end_of(f"0-9-{number}")])
    for _ in range(2):
        with pytest.raises(SequenceError, match=f"transaction 0-9-{number} follows sequence number {count}"):
            reader.feed_all()
        reader.crash()


def test_commits_of_several_mariadb_servers_that_come_again_are_repeats() -> None:
    topics = Topics(partitions=1)
    ends = ["0-1-7", "0-1-8", "0-2-9", "0-2-10", "0-1-11"]
    # Behind a restart of the connector all come again, also some from before the sequencer's first.
    topics.write([end_of(gtid) for gtid in [*ends, "0-3-5", "0-1-6", *ends, "0-2-12"]])
    reader = Reader(topics)
    for _ in topics.values[MARKERS]:
        reader.feed(MARKERS, 1)
        reader.commit()
        reader.crash()
    told_of = [one.txid for one in reader.committed if isinstance(one, CompleteTransaction)]
    assert told_of == [7, 8, 9, 10, 11, 12]


def test_streaming_waits_until_the_snapshot_has_been_read_everywhere() -> None:
    topics = Topics(partitions=1)
    transactions = two_orders()
    customers = Partition("p.public.customers", 0)
    topics.write([snapshot_record("p", "public.customers", {"id": n, "name": "x"}, lsn=500) for n in (1, 2)])
    topics.write(
        [snapshot_record("p", "public.orders", {"id": 9, "customer_id": 1, "status": "paid"}, lsn=500)]
    )
    topics.write([r for t in transactions for r in records_of("p", t)])
    reader = Reader(topics)
    reader.ends_known = False
    for partition in (MARKERS, ORDERS):
        reader.feed(partition, 10)
    assert [type(one) for one in reader.pending] == [SnapshotRow]
    reader.end_snapshot()
    assert "snapshot's rows in p.public.customers/0 below offset 2" in str(
        reader.assembler.waiting.describe()
    )
    reader.feed(customers, 1)
    assert len(reader.pending) == 2
    reader.feed(customers, 1)
    assert [type(one) for one in reader.pending] == [SnapshotRow] * 3 + [CompleteTransaction] * 2
    assert not reader.assembler.progress.snapshot_open


def test_unmapped_tables_are_not_waited_for_and_empty_transactions_come_out_empty() -> None:
    history = History(7)
    audit = history.commit([Change("public.audit", "c", None, {"id": 1, "what": "x"})])
    empty = history.commit([])
    topics = Topics(partitions=1)
    topics.write([r for t in (audit, empty) for r in records_of("p", t)])
    reader = Reader(topics)
    assert summary(reader.feed_all()) == [(audit.txid, audit.end_lsn, []), (empty.txid, empty.end_lsn, [])]


def test_a_table_without_a_topic_is_missing_until_it_is_read() -> None:
    topics = Topics(partitions=1)
    topics.write(records_of("p", two_orders()[0]))
    read = {p: 0 for p in topics.values if p != ORDERS}
    assembler = Assembler(
        TABLES, Progress(), read, {p.topic: None if p == MARKERS else p.topic[2:] for p in read}
    )
    for offset, value in enumerate(topics.values[MARKERS]):
        assert value is not None
        marker = EnvelopeDecoder().marker(value)
        assert marker is not None
        assembler.marker(MARKERS, offset, marker, 0)
    assert assembler.waiting.missing_tables() == {"public.orders"}


def test_memory_of_a_long_run_is_bounded() -> None:
    history = History(9)
    topics = Topics()
    counts: dict[str, int] = defaultdict(int)
    reader = Reader(topics)
    for _ in range(10):
        topics.write([r for t in history.grow(100) for r in records_of("p", t)])
        reader.feed_all()
        counts["finished"] = max(counts["finished"], len(reader.assembler.progress.finished))
    assert counts["finished"] == 256
    assert all(len(place.runs) <= 1 for place in reader.assembler._places.values())
