"""Memory is counted in bytes: wide rows go to disk, come out in parts, and a transaction that is given up does too."""

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from assembling import MARKERS, ORDERS, Reader, Topics, told
from bikes.history import Change, History, Transaction
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import Record, TechnicalTopics, read_committed, records_of
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tidings_domain.changes import RowChange
from tidings_domain.errors import SequenceError
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.record_sizes import MAX_VALUE_BYTES
from tidings_domain.routing.row_bytes import envelope_bytes
from tidings_domain.routing.transactions import CompleteTransaction
from tidings_envelope.decode import EnvelopeDecoder
from tidings_translator.base.settings import SequencerSettings
from tidings_translator.sequencer.assembly.spill import (
    BlockFile,
    DiskBuckets,
    PlacedRow,
    SpilledRows,
    limit_spill,
    spilled_bytes,
)
from tidings_translator.sequencer.sequencer import Sequencer

WIDE = "lorem ipsum " * 4_000


def order(number: int, width: int = len(WIDE)) -> Change:
    row = {"id": number, "customer_id": 1, "status": f"{number} {WIDE}"[:width]}
    return Change("public.orders", "c", None, row)


def test_a_transaction_of_wide_rows_goes_to_disk_long_before_it_has_many() -> None:
    history = History(1)
    transactions = [
        history.commit([order(number) for number in range(1, 201)]),
        history.commit([order(999, 10)]),
    ]
    topics = Topics(partitions=1)
    topics.write([record for one in transactions for record in records_of("p", one)])
    reader = Reader(topics, max_buffered_bytes=1_000_000)
    most = 0
    for _ in range(201):
        reader.feed(ORDERS, 1)
        most = max(most, reader.assembler.buffer.bytes)
    assert reader.assembler.buffer.spilled_rows > 180
    assert 200_000 < most < 400_000, "a quarter, and the row that reaches it"
    told_of = []
    reader.feed(MARKERS, 2)
    for partition in (MARKERS, MARKERS):
        told_of += [
            (one.txid, len(list(one.rows))) for one in reader.pending if isinstance(one, CompleteTransaction)
        ]
        reader.pending = []
        reader.feed(partition, 1)
    told_of += [
        (one.txid, len(list(one.rows))) for one in reader.pending if isinstance(one, CompleteTransaction)
    ]
    assert told_of == [(txid, len(orders)) for txid, _, orders in told(transactions)]
    assert reader.assembler.buffer.bytes == 0
    reader.assembler.close()


def test_wide_rows_that_run_ahead_hold_their_partitions() -> None:
    """Snapshot rows behind them count as well."""
    history = History(1)
    topics = Topics(partitions=1)
    transactions = [history.commit([order(number)]) for number in range(1, 41)]
    topics.write([record for one in transactions for record in records_of("p", one)])
    reader = Reader(topics, max_buffered_bytes=1_000_000)
    while ORDERS not in reader.assembler.paused():
        reader.feed(ORDERS, 1)
    assert 1_000_000 <= reader.assembler.buffer.bytes < 1_100_000
    assert reader.assembler.buffer.spilled_rows == 0
    reader.feed_all()
    assert reader.assembler.buffer.bytes == 0
    assert len(reader.committed) == 40


@pytest.mark.parametrize("width", [10, 1_000, 50_000])
def test_the_estimate_of_a_row_s_memory_is_near_the_truth(width: int) -> None:
    import tracemalloc

    raw = records_of("p", History(1).commit([order(1, width)]))[1][2]
    decoder = EnvelopeDecoder()
    decoder.envelope(raw)
    tracemalloc.start()
    rows = [PlacedRow(decoder.envelope(raw), ORDERS, number) for number in range(500)]  # type: ignore[arg-type]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    estimate = sum(envelope_bytes(row.envelope) for row in rows)
    assert 0.6 < estimate / taken < 1.7, (estimate, taken)


def test_blocks_on_disk_end_by_bytes(tmp_path: Path) -> None:
    """Each sorted run has one in memory while they are merged, and each part one while it is written."""
    import tracemalloc

    raw = records_of("p", History(1).commit([order(1)]))[1][2]
    envelope = EnvelopeDecoder().envelope(raw)
    assert envelope is not None
    spilled = SpilledRows(tmp_path)
    for run in range(20):
        spilled.add({at: PlacedRow(envelope, ORDERS, at) for at in range(run, 2_000, 20)})
    buckets = DiskBuckets(tmp_path, 64)
    tracemalloc.start()
    offsets = []
    for row in spilled.placed():
        offsets.append(row.offset)
        change = RowChange("public.orders", "c", None, row.envelope.after)
        buckets.add(row.offset % 64, "Order", str(row.offset), change)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert offsets == list(range(2_000))
    assert most < 40_000_000, "of a hundred million bytes"
    assert sum(len(list(buckets.read(number, MAX_VALUE_BYTES, {}))) for number in range(64)) == 2_000
    buckets.close()
    spilled.close()


def test_rows_of_one_aggregate_that_fit_into_no_record_are_not_gathered(tmp_path: Path) -> None:
    buckets = DiskBuckets(tmp_path, 1)
    for number in range(100):
        buckets.add(
            0, "Order", "1", RowChange("public.orders", "u", None, {"id": 1, "status": WIDE, "n": number})
        )
        buckets.add(0, "Order", "2", RowChange("public.orders", "u", None, {"id": 2, "n": number}))
    too_large: dict[tuple[str, str], int] = {}
    ids = [id_ for _, id_, _ in buckets.read(0, 1_000_000, too_large)]
    assert ids.count("2") == 100
    assert ids.count("1") == 20
    assert list(too_large) == [("Order", "1")]
    assert too_large["Order", "1"] > 100 * len(WIDE)
    buckets.close()


def test_what_is_remembered_is_stored_in_portions_of_bytes() -> None:
    memory = Memory()
    for number in range(50):
        memory.set_row("public.customers", str(number), {"id": number, "name": WIDE})
    portions = []
    while memory.changes:
        portions.append(memory.take_changes(1_000, 200_000))
    assert len(portions) == 10
    assert sum(map(len, portions)) == 50


def peak_bytes(pid: int) -> int:
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def letters(bootstrap: str, name: str) -> dict[tuple[str, int], tuple[dict[str, str], bytes | None]]:
    """Topic and offset to the last letter about it."""
    found = {}
    for _, message in read_committed(bootstrap, [f"tidings.{name}.dead-letters"]):
        headers = {key: value.decode() for key, value in message.headers()}
        found[headers["tidings_topic"], int(headers["tidings_offset"])] = headers, message.value()
    return found


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_a_transaction_of_a_hundred_megabytes_in_a_process_that_may_buffer_eight(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    """To many aggregates, and to one that is more than a record holds: of that one a dead letter, and all others go on."""
    history = History(1)
    customer = Change("public.customers", "c", None, {"id": 1, "name": "Ann"})
    lines = [
        Change("public.order_items", "c", None, {"order_id": 1, "line_no": number, "price": "1.00", "x": 1} | {"price": f"1.00{' ' * 48_000}"})
        for number in range(1, 301)
    ]  # fmt: skip
    small = history.commit([customer])
    large = history.commit([*(order(number) for number in range(1, 2_001)), *lines])
    after = history.commit([order(3_000, 20)])
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    write(topics, unique_name, small)
    sequencer = make_stage("sequencer", TIDINGS_MAX_BUFFERED_BYTES="8000000")
    translator = make_stage("translator")
    wait_for(lambda: (sequencer.readyz() or {}).get("ok"), "the sequencer", seconds=120, alive=(sequencer,))
    before = peak_bytes(sequencer.pid)
    write(topics, unique_name, large)
    write(topics, unique_name, after)
    without_first = Transaction(
        large.txid,
        large.end_lsn,
        large.last_commit_lsn,
        large.ts_us,
        tuple(order(n) for n in range(2, 2_001)),
    )
    want = expected(unique_name, [small, without_first, after])
    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) >= count(want),
        "events",
        seconds=240,
        every=0.5,
        alive=(sequencer, translator),
    )
    assert in_order(published(kafka_bootstrap, unique_name)) == want
    [(headers, value)] = letters(kafka_bootstrap, unique_name).values()
    assert (headers["tidings_error"], headers["tidings_id"], value) == ("TooLarge", "1", None)
    # 108 to 130 MB were seen, and 275 MB where everything may be buffered.
    assert peak_bytes(sequencer.pid) - before < 180_000_000
    assert sequencer.terminate() == 0
    assert translator.terminate() == 0


def write(topics: TechnicalTopics, name: str, *transactions: Transaction) -> None:
    topics.write([record for one in transactions for record in records_of(name, one)])


@pytest.mark.stack
@pytest.mark.timeout(900)
def test_a_large_transaction_that_is_given_up_is_told_row_by_row(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    """In portions, with the original bytes of each row, and before long."""
    history = History(1)
    large = history.commit([order(number, 5_000) for number in range(1, 5_001)])
    after = history.commit([order(9_000, 20)])
    records: list[Record] = records_of(unique_name, large)
    records[7] = (records[7][0], records[7][1], b"\x01 no envelope")
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    topics.write([*records, *records_of(unique_name, after)])
    sequencer = make_stage(
        "sequencer", TIDINGS_MAX_BUFFERED_BYTES="8000000", TIDINGS_MALFORMED_GRACE_SECONDS="0.5"
    )
    table = f"{unique_name}.public.orders"
    wait_for(
        lambda: sum(topic == table for topic, _ in letters(kafka_bootstrap, unique_name)) >= 5_000,
        "a letter for each row",
        seconds=120,
        every=1.0,
        alive=(sequencer,),
    )
    found = letters(kafka_bootstrap, unique_name)
    assert {place for place in found if place[0] == table} == {(table, offset) for offset in range(5_000)}
    assert found[table, 6][0]["tidings_error"] == "DecodeError"
    headers, value = found[table, 4_321]
    assert headers["tidings_error"] == "IncompleteTransaction"
    assert json.loads(value or b"")["after"]["id"] == 4_322
    assert peak_bytes(sequencer.pid) < 300_000_000
    assert sequencer.terminate() == 0


def test_rows_on_disk_take_no_more_than_they_may(tmp_path: Path) -> None:
    limit_spill(tmp_path, 2_000_000, 0)
    file = BlockFile(tmp_path, bytes)
    with pytest.raises(SequenceError, match="TIDINGS_SPILL_MAX_BYTES allows 2000000"):
        file.append(b"x" * 1_000 for _ in range(10_000))
    assert 1_500_000 < spilled_bytes(tmp_path) <= 2_000_000
    file.close()
    file.close()
    assert spilled_bytes(tmp_path) == 0
    limit_spill(tmp_path, None, 1 << 60)
    other = BlockFile(tmp_path, bytes)
    with pytest.raises(SequenceError, match="TIDINGS_SPILL_FREE_BYTES"):
        other.append([b"x"])
    other.close()


def test_a_sequencer_bounds_its_rows_on_disk(tmp_path: Path) -> None:
    settings = SequencerSettings(
        kafka="nobody:1",
        registry="http://nobody",
        source="s",
        domain="d",
        spill_directory=tmp_path,
        spill_max_bytes=1_000_000,
    )
    Sequencer(settings, Mock(tables=[], aggregates={}), Mock())
    file = BlockFile(tmp_path, bytes)
    with pytest.raises(SequenceError, match="TIDINGS_SPILL_MAX_BYTES allows 1000000"):
        file.append(b"x" * 1_000 for _ in range(10_000))
    file.close()


@pytest.mark.stack
@pytest.mark.timeout(300)
def test_a_row_that_others_refer_to_and_that_fits_into_no_record_is_a_letter(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    """Who refers to it goes without, and all goes on; when it is small enough again, it is there."""
    history = History(1)

    def customer(name: str, op: str) -> Change:
        return Change("public.customers", op, None, {"id": 1, "name": name})

    changes = [customer("Ann", "c"), order(1, 10), customer("wide" * 2_300_000, "u"), order(2, 10)]
    changes += [customer("Bo", "u"), order(3, 10)]
    transactions = [history.commit([change]) for change in changes]
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap})
    table = f"{unique_name}.public.customers"
    wider = ConfigEntry("max.message.bytes", "20000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, table, incremental_configs=[wider])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
    topics.write(records_of(unique_name, transactions[0]))
    wide = Producer({"bootstrap.servers": kafka_bootstrap, "message.max.bytes": 20_000_000})
    for one in transactions[1:]:
        for topic, key, value in records_of(unique_name, one):
            wide.produce(topic, value, key, 0)
    assert wide.flush(30) == 0
    stages = make_stage("sequencer"), make_stage("translator")
    topic = f"{unique_name}.order-placed.v2"
    wait_for(
        lambda: len(in_order(published(kafka_bootstrap, unique_name)).get(topic, {})) == 3,
        "events",
        seconds=60,
        every=0.5,
        alive=stages,
    )
    events = in_order(published(kafka_bootstrap, unique_name))[topic]
    assert [events[str(number)][0]["customer"] for number in (1, 2, 3)] == ["Ann", None, "Bo"]
    [(headers, value)] = letters(kafka_bootstrap, unique_name).values()
    assert (headers["tidings_error"], headers["tidings_topic"], value) == ("TooLarge", table, None)
    assert headers["tidings_subject"] == "public.customers/1"
    for stage in stages:
        assert stage.terminate() == 0
