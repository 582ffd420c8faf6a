"""Records that can't be decoded are in the dead letters: their transactions must not come out without them, and no other suffers."""

from assembling import MARKERS, ORDERS, Reader, Topics, summary, told, two_orders
from bikes.history import Change, History, Transaction
from bikes.topics import records_of

from tidings_domain.routing.transactions import CompleteTransaction
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.transactions import LostTransaction

ORDER = {"id": 1, "customer_id": 1, "status": "placed"}
OTHER = Partition(ORDERS.topic, 1)


def orders(seed: int, count: int) -> list[Transaction]:
    """Transactions that place one order each."""
    history = History(seed)
    return [
        history.commit([Change("public.orders", "c", None, {**ORDER, "id": number})])
        for number in range(count)
    ]


def in_partitions(transactions: list[Transaction], places: list[int]) -> Topics:
    """Topics of two partitions; the order of each transaction goes into the given one."""
    topics = Topics(partitions=2)
    for transaction, number in zip(transactions, places, strict=True):
        for topic, _, value in records_of("p", transaction):
            topics.values[Partition(topic, 0 if topic == MARKERS.topic else number)].append(value)
    return topics


def test_a_slow_partition_s_healthy_row_is_waited_for_whatever_is_unreadable_elsewhere() -> None:
    """An unreadable record in another partition of the table does not explain a row that nobody has looked for yet."""
    healthy, later = orders(1, 2)
    topics = in_partitions([healthy, later], [0, 1])
    topics.values[OTHER].insert(0, b"garbage")
    reader = Reader(topics, grace_seconds=5)
    reader.assembler.progress.close_snapshot()
    reader.feed(MARKERS, 10)
    reader.feed(OTHER, 10)
    reader.now = 1000
    reader.feed(OTHER, 1)
    assert reader.pending == [], "the row stands in a partition that was not read"
    reader.now = 2000
    assert summary(reader.feed_all()) == told([healthy, later])
    assert reader.assembler.duplicates == 0


def test_an_unreadable_row_behind_a_later_transaction_s_is_not_an_earlier_one_s() -> None:
    first, second, third = orders(1, 3)
    topics = in_partitions([first, second, third], [0, 1, 1])
    topics.values[ORDERS].clear()  # the engine has not written it yet
    topics.values[OTHER].append(b"garbage")
    reader = Reader(topics, grace_seconds=5)
    reader.assembler.progress.close_snapshot()
    for _ in range(4):
        reader.feed_all()
        reader.now += 100
    assert reader.committed == [], "what is behind rows of later transactions cannot be its row"
    assert "1 rows of public.orders" in str(reader.assembler.waiting.describe())
    topics.values[ORDERS] += [value for topic, _, value in records_of("p", first) if topic == ORDERS.topic]
    assert summary(reader.feed_all()) == told([first, second, third])


def test_what_was_unreadable_is_told_once_whatever_is_read_again() -> None:
    """Offsets stay at the oldest row that is still needed, so unreadable records behind it are read again."""
    first, second = orders(1, 2)
    topics = in_partitions([first, second], [0, 0])
    topics.values[ORDERS].insert(1, b"garbage")
    marker_values = topics.values[MARKERS][:]
    topics.values[MARKERS][:] = marker_values[:1]
    reader = Reader(topics, grace_seconds=5)
    for _ in range(3):
        reader.feed_all()
        reader.crash()
    assert reader.letters == [(ORDERS, 1)]
    assert len(reader.assembler.progress.unreadable) == 1
    topics.values[MARKERS][:] = marker_values
    assert summary(reader.feed_all()) == told([first, second])
    assert reader.assembler.progress.unreadable == []


def test_a_gap_after_an_unreadable_end_outlives_a_restart() -> None:
    transactions = orders(4, 3)
    topics = in_partitions(transactions, [0, 0, 0])
    topics.values[MARKERS][3] = b"garbage"
    rest, topics.values[MARKERS][4:] = topics.values[MARKERS][4:], []
    reader = Reader(topics)
    reader.feed_all()
    assert "waits for its END marker" in str(reader.assembler.waiting.describe())
    reader.crash()
    topics.values[MARKERS] += rest
    out = reader.feed_all()
    assert [type(one) for one in out] == [CompleteTransaction, LostTransaction, CompleteTransaction]
    assert isinstance(out[1], LostTransaction)
    assert out[1].txid == transactions[1].txid
    assert reader.assembler.open_transactions == 0
    assert reader.letters == [(MARKERS, 3)]


def test_a_transaction_whose_end_nobody_has_is_lost_when_later_ones_have_come() -> None:
    """However its END got lost: it can't be waited for, and must not be silent."""
    transactions = orders(4, 3)
    topics = in_partitions(transactions, [0, 0, 0])
    del topics.values[MARKERS][3]
    out = Reader(topics).feed_all()
    assert [type(one) for one in out] == [CompleteTransaction, LostTransaction, CompleteTransaction]
    assert "no END marker" in str(out[1])


def test_the_row_s_transaction_is_lost_as_a_whole_after_the_grace() -> None:
    history = History(3)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    line = {"order_id": 1, "line_no": 1, "price": "1.00"}
    first = history.commit(
        [Change("public.orders", "c", None, order), Change("public.order_items", "c", None, line)]
    )
    second = history.commit([Change("public.orders", "u", None, order)])
    topics = Topics(partitions=1)
    topics.write([r for t in (first, second) for r in records_of("p", t)])
    lines = Partition("p.public.order_items", 0)
    topics.values[lines][0] = b"\x00\x01"
    reader = Reader(topics, grace_seconds=5)
    assert reader.feed_all() == []
    assert "waits for 1 rows of public.order_items" in str(reader.assembler.waiting.describe())
    reader.commit()
    reader.crash()  # what is known of the unreadable row survives a restart
    reader.now = 4.9
    reader.feed_all()
    reader.now = 10
    reader.feed_all()
    lost, complete = reader.committed
    assert isinstance(lost, LostTransaction)
    assert lost.txid == first.txid
    assert lost.reason == "unreadable rows at p.public.order_items/0 offset 0"
    assert [(row.partition, row.offset) for row in lost.rows] == [(ORDERS, 0)]
    assert summary([complete]) == told([second])
    assert reader.assembler.progress.unreadable == []


def test_a_note_is_forgotten_when_a_readable_copy_completes_the_transaction() -> None:
    first, second = two_orders()
    topics = Topics(partitions=1)
    topics.write([r for t in (first, second) for r in records_of("p", t)])
    topics.values[ORDERS].insert(0, b"garbage")
    reader = Reader(topics)
    assert summary(reader.feed_all()) == told([first, second])
    assert reader.assembler.progress.unreadable == []


def test_an_unreadable_end_loses_its_transaction_and_no_other() -> None:
    history = History(4)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    transactions = [
        history.commit([Change("public.orders", "c", None, {**order, "id": n})]) for n in range(3)
    ]
    topics = Topics(partitions=1)
    topics.write([r for t in transactions for r in records_of("p", t)])
    topics.values[MARKERS][3] = b"garbage"
    out = Reader(topics).feed_all()
    lost = [one for one in out if isinstance(one, LostTransaction)]
    assert [one.txid for one in lost] == [transactions[1].txid]
    assert "END marker" in lost[0].reason
    assert summary([one for one in out if one not in lost]) == told([transactions[0], transactions[2]])


def test_rows_that_come_after_their_lost_end_was_passed_are_lost_and_not_repeats() -> None:
    history = History(4)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    transactions = [
        history.commit([Change(table, "c", None, {**order, "order_id": 1})])
        for table in ("public.orders", "public.payments", "public.orders")
    ]
    topics = Topics(partitions=1)
    topics.write([r for t in transactions for r in records_of("p", t)])
    topics.values[MARKERS][3] = b"garbage"
    reader = Reader(topics)
    reader.feed(MARKERS, 10)
    reader.feed(ORDERS, 10)
    reader.assembler.progress.close_snapshot()
    reader.feed(ORDERS, 0)
    assert len(reader.pending) == 2
    out = reader.feed_all()
    assert [type(one) for one in out] == [CompleteTransaction, CompleteTransaction, LostTransaction]
