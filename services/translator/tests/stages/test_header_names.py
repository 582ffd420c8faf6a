"""Records whose headers have names that are not UTF-8 are read like all others."""

import struct
from collections.abc import Callable

import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from aiokafka.structs import TopicPartition
from bikes.history import Change, History
from bikes.processes import StageProcess, wait_for
from bikes.running import count, expected, in_order, published
from bikes.topics import TechnicalTopics, records_of
from odd_headers import Name, write_record

import tidings_translator.group.faust_batches  # noqa: F401 - has aiokafka read all names

PLACE = TopicPartition("t", 0)

ODD = [(Name(b"\xff\xfe"), b"odd"), (Name(b"plain"), None)]


def batch(
    base: int, records: list[tuple[bytes | None, bytes, list[object]]], compression: int = 0, **transaction: object
) -> bytes:  # fmt: skip
    """A batch as a broker sends it, from an offset on."""
    options = {
        "is_transactional": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
    } | transaction
    builder = _DefaultRecordBatchBuilderPy(2, compression, batch_size=1 << 20, **options)  # type: ignore[arg-type]
    for offset, (key, value, headers) in enumerate(records):
        assert builder.append(offset, 1_000 + offset, key, value, headers) is not None  # type: ignore[arg-type]
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, base)
    return bytes(made)


def unpack(
    fetched: bytes, start: int, aborted: list[tuple[int, int]] | None = None
) -> tuple[list[tuple[int, bytes]], int]:
    """Offsets and values of what was fetched, and the offset to fetch next."""
    partition = fetcher.PartitionRecords(
        PLACE, fetcher.MemoryRecords(fetched), aborted, start, None, None, False, fetcher.READ_COMMITTED
    )
    found = list(partition)
    for record in found:
        assert record.headers in ((), (("\\xff\\xfe", b"odd"), ("plain", None)))
    return [(record.offset, record.value) for record in found], partition.next_fetch_offset


@pytest.mark.parametrize("compression", [0, 1])
def test_all_records_around_one_are_read_once(compression: int) -> None:
    plain = [(b"k", b"%d" % number, []) for number in range(3)]
    fetched = (
        batch(10, plain) + batch(13, [*plain, (None, b"3", ODD), *plain], compression) + batch(20, plain)
    )
    assert unpack(fetched, 11) == (
        [*((offset, b"%d" % ((offset - 10) % 3)) for offset in range(11, 16)), (16, b"3")]
        + [(offset, b"%d" % ((offset - 17) % 3)) for offset in range(17, 23)],
        23,
    )  # fmt: skip


def test_what_was_aborted_stays_away() -> None:
    mine = {"is_transactional": 1, "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    fetched = (
        batch(0, [(None, b"aborted", ODD)], **mine)
        + batch(1, [(None, b"first", [])])
        + batch(2, [(None, b"odd", ODD)])
        + batch(3, [(None, b"aborted", [])], **mine)
    )
    assert unpack(fetched, 0, [(7, 0)]) == ([(1, b"first"), (2, b"odd")], 4)


@pytest.mark.stack
@pytest.mark.timeout(300)
def test_a_row_with_such_a_header_gives_its_event(
    kafka_bootstrap: str, unique_name: str, make_stage: Callable[..., StageProcess]
) -> None:
    history = History(1)
    transactions = [history.commit([Change("public.customers", "c", None, {"id": 1, "name": "Ann"})])]
    for number in (1, 2):
        order = {"id": number, "customer_id": 1, "status": "new"}
        transactions.append(history.commit([Change("public.orders", "c", None, order)]))
    topics = TechnicalTopics(kafka_bootstrap, unique_name, partitions=1)
    rows = [record for one in transactions for record in records_of(unique_name, one)]
    odd = rows.pop(4)
    write_record(kafka_bootstrap, *odd, ODD)
    topics.write(rows)
    stages = make_stage("sequencer"), make_stage("translator")
    want = expected(unique_name, transactions)
    wait_for(
        lambda: len(published(kafka_bootstrap, unique_name)) >= count(want),
        "events",
        seconds=60,
        alive=stages,
    )
    assert in_order(published(kafka_bootstrap, unique_name)) == want
