"""Rows that a transaction's END counts and that do not come: those that capture tells of, and those that nothing explains."""

import json
from collections.abc import Callable

import pytest
from assembling import ORDERS, Reader, Topics, summary, told
from bikes.history import Change, History, Transaction
from bikes.processes import StageProcess, wait_for
from bikes.running import published
from bikes.topics import TechnicalTopics, read_committed, records_of
from confluent_kafka import Producer

from tidings_domain.routing.transactions import CompleteTransaction
from tidings_envelope.errors import DecodeError
from tidings_envelope.headers.left_out import HEADER, LeftOut, left_out
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.transactions import LostTransaction

LINES = Partition("p.public.order_items", 0)


def placed(history: History, number: int, lines: int = 1) -> Transaction:
    """A transaction that places an order with some lines."""
    order = {"id": number, "customer_id": 1, "status": "placed"}
    return history.commit(
        [
            Change("public.orders", "c", None, order),
            *(
                Change("public.order_items", "c", None, {"order_id": number, "line_no": n, "price": "1.00"})
                for n in range(lines)
            ),
        ]
    )


def two_of_which_the_first_lacks(lines: int) -> tuple[Topics, list[Transaction], list[bytes | None]]:
    """Topics, the transactions on them, and the values that were left out of the first."""
    history = History(2)
    transactions = [placed(history, 1, lines=3), placed(history, 2)]
    topics = Topics(partitions=1)
    topics.write([r for t in transactions for r in records_of("p", t)])
    gone = topics.values[LINES][:lines]
    topics.values[LINES][:lines] = []
    return topics, transactions, gone


def test_what_the_header_says() -> None:
    assert left_out(b'{"filtered":{"public.orders":2}}') == LeftOut({"public.orders": 2}, {})
    assert left_out(b'{"failed":{"public.orders":1},"later":3}').failed == {"public.orders": 1}
    for wrong in (None, b"", b"[]", b'{"failed":{"a":"x"}}', b"{"):
        with pytest.raises(DecodeError, match=HEADER):
            left_out(wrong)


def test_rows_that_were_filtered_are_not_waited_for() -> None:
    topics, transactions, _ = two_of_which_the_first_lacks(2)
    reader = Reader(topics)
    reader.left_out = {transactions[0].end_lsn: LeftOut({"public.order_items": 2})}
    first, second = reader.feed_all()
    assert isinstance(first, CompleteTransaction)
    assert [row.transaction.total_order for row in first.rows if row.transaction] == [1, 4], (
        "gaps are nothing"
    )
    assert summary([second]) == told(transactions[1:])


def test_a_transaction_of_which_rows_failed_is_given_up_at_once() -> None:
    topics, transactions, _ = two_of_which_the_first_lacks(2)
    reader = Reader(topics)
    reader.left_out = {transactions[0].end_lsn: LeftOut({"public.order_items": 1}, {"public.order_items": 1})}
    lost, complete = reader.feed_all()
    assert isinstance(lost, LostTransaction)
    assert "capture could not transform or convert 1 rows of public.order_items" in lost.reason
    assert {(row.partition, row.offset) for row in lost.rows} == {(ORDERS, 0), (LINES, 0)}
    assert summary([complete]) == told(transactions[1:])


def test_failed_and_unreadable_rows_explain_a_loss_together() -> None:
    topics, transactions, _ = two_of_which_the_first_lacks(1)
    topics.values[LINES][0] = b"garbage"
    reader = Reader(topics, grace_seconds=1)
    reader.left_out = {transactions[0].end_lsn: LeftOut({}, {"public.order_items": 1})}
    reader.feed_all()
    reader.now = 2
    lost, complete = reader.feed_all()
    assert isinstance(lost, LostTransaction)
    assert "unreadable rows at p.public.order_items/0 offset 0" in lost.reason
    assert "could not transform" in lost.reason
    assert summary([complete]) == told(transactions[1:])


def test_missing_rows_that_nothing_explains_are_told_of_and_waited_for() -> None:
    topics, transactions, gone = two_of_which_the_first_lacks(1)
    reader = Reader(topics, grace_seconds=1)
    reader.feed_all()
    assert reader.assembler.waiting.missing_since() is None, "they may be on their way"
    reader.now = 2
    reader.feed_all()
    assert reader.assembler.waiting.missing_since() == 2
    reader.now = 1e6
    assert reader.feed_all() == []
    assert "1 rows of public.order_items, although all partitions" in str(reader.assembler.waiting.describe())
    topics.values[LINES] += gone
    assert summary(reader.feed_all()) == told(transactions)
    assert reader.assembler.waiting.missing_since() is None


def test_missing_rows_that_nothing_explains_are_given_up_after_a_time_where_that_is_asked_for() -> None:
    topics, transactions, gone = two_of_which_the_first_lacks(1)
    reader = Reader(topics, grace_seconds=1, give_up_seconds=60)
    for now in (0, 2, 61):
        reader.now = now
        assert reader.feed_all() == []
    reader.now = 63
    lost, complete = reader.feed_all()
    assert isinstance(lost, LostTransaction)
    assert "1 rows of public.order_items have not come in 63 s" in lost.reason
    assert summary([complete]) == told(transactions[1:])
    reader.crash()
    topics.values[LINES] += gone
    late = reader.feed_all()[2]
    assert isinstance(late, LostTransaction), "what comes after all is not taken for a repetition"
    assert "had been given up" in late.reason


def test_nothing_is_missing_before_its_partition_was_read() -> None:
    topics, transactions, _ = two_of_which_the_first_lacks(0)
    reader = Reader(topics, grace_seconds=1, give_up_seconds=60)
    reader.assembler.progress.close_snapshot()
    for now in (0, 2, 100, 1000):
        reader.now = now
        reader.feed(Partition("p.transaction", 0), 10)
        reader.feed(ORDERS, 10)
    assert reader.assembler.waiting.missing_since() is None
    assert summary(reader.feed_all()) == told(transactions)


@pytest.mark.turns
@pytest.mark.stack
@pytest.mark.timeout(300)
def test_a_sequencer_says_what_it_waits_for_and_gives_it_up_where_it_is_told_to(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    history = History(1)
    customer = history.commit([Change("public.customers", "c", None, {"id": 1, "name": "Ann"})])
    filtered, failed, missing, last = (placed(history, number, lines=2) for number in (1, 2, 3, 4))
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=2)
    transaction, lines = f"{unique_name}.transaction", f"{unique_name}.public.order_items"
    producer = Producer({"bootstrap.servers": kafka_bootstrap})
    short = {filtered.txid, failed.txid, missing.txid}
    for one in (customer, filtered, failed, missing, last):
        *rows, end = records_of(unique_name, one)
        dropped = next((r for r in rows if r[0] == lines), None) if one.txid in short else None
        topics.write([record for record in rows if record is not dropped])
        kind = {filtered.txid: "filtered", failed.txid: "failed"}.get(one.txid)
        headers = [(HEADER, json.dumps({kind: {"public.order_items": 1}}).encode())] if kind else []
        producer.produce(transaction, end[2], end[1], 0, headers=headers)
        assert producer.flush(30) == 0

    def letters() -> list[dict[str, str]]:
        topic = f"tidings.{unique_name}.dead-letters"
        return [
            {name: value.decode() for name, value in message.headers()}
            for _, message in read_committed(kafka_bootstrap, [topic])
        ]

    def orders() -> set[int]:
        return {event.payload["order_id"] for event in published(kafka_bootstrap, unique_name)}

    settings = {"TIDINGS_MALFORMED_GRACE_SECONDS": "0.5", "TIDINGS_MISSING_ROWS_SECONDS": "1"}
    sequencer, translator = make_stage("sequencer", **settings), make_stage("translator")
    wait_for(
        lambda: '"rows of a transaction are missing"' in sequencer.log.read_text(),
        "the log",
        alive=(sequencer,),
    )
    wait_for(lambda: "read to the end" in sequencer.detail("transactions"), "health", alive=(sequencer,))
    assert "waits for 1 rows of public.order_items" in sequencer.detail("transactions")
    [age] = [
        line for line in sequencer.metrics().splitlines() if line.startswith("tidings_sequencer_missing_rows")
    ]
    assert float(age.split()[1]) > 1
    wait_for(lambda: orders() == {1}, "the order without a line that was filtered", alive=(translator,))
    assert {one["tidings_txid"] for one in letters()} == {str(failed.txid)}
    [end] = [one for one in letters() if one["tidings_topic"] == transaction]
    assert end["tidings_stage"] == "transaction"
    assert "could not transform or convert 1 rows of public.order_items" in end["tidings_reason"]
    assert sequencer.terminate() == 0

    again = make_stage("sequencer", log="again", TIDINGS_ON_MISSING_ROWS="give_up", **settings)
    wait_for(lambda: orders() == {1, 4}, "what is behind it", alive=(again, translator))
    reasons = {one["tidings_txid"]: one["tidings_reason"] for one in letters()}
    assert reasons.keys() == {str(failed.txid), str(missing.txid)}
    assert "have not come" in reasons[str(missing.txid)]
