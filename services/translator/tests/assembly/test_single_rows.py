"""Sources without transaction metadata: rows for themselves, repeats recognised, positions that grow."""

import itertools
import json
import random

from bikes.history import Change, History, Transaction
from bikes.topics import Record, records_of, snapshot_record

from tidings_domain.routing.transactions import CompleteTransaction, SnapshotRow
from tidings_envelope.decode import EnvelopeDecoder
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.progress import Progress
from tidings_translator.sequencer.assembly.single_rows import SingleRows

TABLES = ("public.orders", "public.payments")
PARTITIONS = [Partition(f"p.{table}", 0) for table in TABLES]


def assembler(progress: Progress, offsets: dict[Partition, int] | None = None) -> SingleRows:
    tables = {p.topic: p.topic[2:] for p in PARTITIONS}
    return SingleRows(frozenset(TABLES), progress, offsets or dict.fromkeys(PARTITIONS, 0), tables)


def plain(record: Record) -> bytes:
    """The value as it is without provide.transaction.metadata."""
    return json.dumps({**json.loads(record[2] or b""), "transaction": None}).encode()


def history() -> list[Transaction]:
    made = History(5)
    order = {"id": 1, "customer_id": 1, "status": "placed"}
    return [
        made.commit(
            [
                Change("public.orders", "c" if n == 0 else "u", None, {**order, "status": f"{n}"}),
                Change("public.payments", "c", None, {"id": n, "order_id": 1}),
            ]
        )
        for n in range(30)
    ][1:]


def test_every_row_comes_once_whatever_a_crash_repeats_and_positions_grow() -> None:
    chance = random.Random(2)
    values: dict[Partition, list[bytes]] = {p: [] for p in PARTITIONS}
    rows = [r for t in history() for r in records_of("p", t) if ".public." in r[0]]
    for index, record in enumerate(rows):
        again = rows[max(0, index - chance.randint(2, 20)) : index] if chance.random() < 0.3 else []
        for one in [*again, record]:
            values[Partition(one[0], 0)].append(plain(one))
    progress, decoder, seen = Progress(), EnvelopeDecoder(), []
    reader = assembler(progress)
    offsets = dict.fromkeys(PARTITIONS, 0)
    while any(offsets[p] < len(values[p]) for p in PARTITIONS):
        partition = chance.choice([p for p in PARTITIONS if offsets[p] < len(values[p])])
        envelope = decoder.envelope(values[partition][offsets[partition]])
        assert envelope is not None
        reader.row(partition, offsets[partition], envelope, 0.0)
        offsets[partition] += 1
        seen += list(reader.take(0.0))
        if chance.random() < 0.2:
            assert reader.offsets() == offsets
            reader = assembler(progress, offsets)  # a restart
    assert all(isinstance(one, CompleteTransaction) and len(one.rows) == 1 for one in seen)
    positions = [one.commit_lsn for one in seen if isinstance(one, CompleteTransaction)]
    assert positions == sorted(set(positions))
    for table in TABLES:
        rows_told = [e.after for one in seen for e in one.rows if e.source.qualified_table == table]  # type: ignore[union-attr]
        # The last one may come again: rows of one COPY share an LSN. It makes no difference to anybody.
        told = [row for row, _ in itertools.groupby(rows_told)]
        assert told == [c.after for t in history() for c in t.changes if c.table == table]


def test_a_snapshot_s_rows_are_a_snapshot_s() -> None:
    reader = assembler(Progress())
    _, _, value = snapshot_record("p", "public.orders", {"id": 1, "customer_id": 1, "status": "x"}, lsn=900)
    envelope = EnvelopeDecoder().envelope(value)
    assert envelope is not None
    reader.row(PARTITIONS[0], 0, envelope, 0.0)
    assert [type(one) for one in reader.take(0.0)] == [SnapshotRow]
    row = next(r for r in records_of("p", history()[0]) if r[0] == PARTITIONS[0].topic)
    after = EnvelopeDecoder().envelope(plain(row))
    assert after is not None
    reader.row(PARTITIONS[0], 1, after, 0.0)
    [one] = reader.take(0.0)
    assert isinstance(one, CompleteTransaction)
    assert one.commit_lsn > 900
    assert not reader.wants_ends
    assert not reader.paused()
