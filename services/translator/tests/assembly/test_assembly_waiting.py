"""What is ready but does not come out, as while a promotion has shut the gate, is read again by whoever comes next."""

import random
from collections import Counter

import pytest
from assembling import ORDERS, Reader, Topics, summary, told
from bikes.history import History
from bikes.topics import Record, records_of, snapshot_record

from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow


def snapshot_rows(*numbers: int) -> list[Record]:
    row = {"customer_id": 1, "status": "paid"}
    return [snapshot_record("p", "public.orders", {**row, "id": n}, lsn=500) for n in numbers]


def test_offsets_do_not_pass_rows_of_a_snapshot_that_have_not_come_out() -> None:
    topics = Topics(partitions=1)
    topics.write(snapshot_rows(1, 2, 3))
    reader = Reader(topics)
    reader.gate_shut = True
    reader.feed(ORDERS, 3)
    assert reader.assembler.offsets()[ORDERS] == 0
    reader.commit()
    reader.crash()
    reader.gate_shut = False
    assert [type(one) for one in reader.feed_all()] == [SnapshotRow] * 3
    assert reader.assembler.offsets()[ORDERS] == 3


@pytest.mark.parametrize("seed", range(12))
def test_snapshots_while_a_gate_is_shut_and_partitions_are_lost(seed: int) -> None:
    """Each row of a snapshot comes out, each transaction once, although offsets are committed while nothing may."""
    chance = random.Random(seed)
    history = History(seed)
    topics = Topics()
    topics.write(snapshot_rows(*range(1_000, 1_010)))
    for first in range(2_000, 2_100, 10):
        topics.write([record for one in history.grow(6) for record in records_of("p", one)])
        topics.write(snapshot_rows(*range(first, first + 10)))
    reader = Reader(topics)
    while unread := reader.unread():
        reader.gate_shut = chance.random() < 0.3
        reader.feed(chance.choice(unread), chance.randint(1, 20))
        if chance.random() < 0.3:
            reader.commit()
        if chance.random() < 0.1:
            reader.crash()
    reader.gate_shut = False
    out = reader.feed_all()
    assert summary([one for one in out if isinstance(one, CompleteTransaction)]) == told(history.transactions)
    rows = Counter(one.envelope.after["id"] for one in out if isinstance(one, SnapshotRow))
    assert set(rows) == {*range(1_000, 1_010), *range(2_000, 2_100)}
