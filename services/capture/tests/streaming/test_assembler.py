"""The assembler by itself: blocks of transactions in progress, told apart, aborted, and kept in bounded memory."""

import resource
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tidings_capture.cdc.spool import Spool, SpoolError
from tidings_capture.postgres.wire.assembler import Assembler
from tidings_capture.postgres.wire.pgoutput import decode_message
from tidings_service import Retry

TAG = 25


def xlog(lsn: int, payload: Any) -> Any:
    return b"w" + struct.pack(">QQq", lsn, lsn, 0) + payload


class Given:
    """A connection that has received everything already."""

    def __init__(self, messages: Any, size: int = 1) -> None:
        self._messages, self._size = list(messages), size

    def read(self, limit: Any) -> Any:
        taken = self._messages[: min(limit, self._size)]
        del self._messages[: len(taken)]
        return taken

    def wait(self, seconds: float, *others: Any) -> bool:
        return bool(self._messages)


def start(xid: int, first: int = 1, lsn: int = 10) -> Any:
    return xlog(lsn, b"S" + struct.pack(">IB", xid, first))


STOP = xlog(0, b"E")


def row(xid: int, number: int, lsn: int = 20) -> Any:
    return xlog(lsn, b"I" + struct.pack(">II", xid, number) + b"N\0\0")


def streamed_commit(xid: int, lsn: int) -> Any:
    return xlog(lsn, b"c" + struct.pack(">IBQQq", xid, 0, lsn, lsn + 8, 99))


def read_all(messages: Any, *, size: int = 1, limit: int = 3, memory: Any = 1 << 20) -> Any:
    assembler, found = Assembler(Given(messages, size), Spool(memory)), []
    while True:
        batch = assembler.read(limit)
        found += batch
        if not batch and not assembler.wait(0):
            return found


@pytest.mark.parametrize("memory", [1 << 20, 1, 150])
@pytest.mark.parametrize(("size", "limit"), [(1, 1), (3, 2), (100, 100)])
def test_blocks_of_two_transactions_are_told_apart_and_aborts_are_honoured(
    size: int, limit: int, memory: Any
) -> None:
    messages = [
        start(5), row(5, 1), row(6, 2), STOP,
        start(9), row(9, 1), STOP,
        xlog(30, b"B" + struct.pack(">QqI", 40, 0, 7)), xlog(31, b"I" + struct.pack(">I", 7) + b"N\0\0"),
        xlog(40, b"C\0" + struct.pack(">QQq", 40, 48, 0)),
        start(5, 0), row(8, 3), row(5, 4), STOP,
        xlog(0, b"A" + struct.pack(">II", 5, 6)),
        start(9, 0), row(9, 2), STOP,
        streamed_commit(9, 60),
        xlog(0, b"A" + struct.pack(">IIQq", 5, 8, 61, 0)),
        streamed_commit(5, 70),
        start(11), row(11, 1), STOP, xlog(0, b"A" + struct.pack(">II", 11, 11)),
    ]  # fmt: skip
    found = read_all(messages, size=size, limit=limit, memory=memory)
    shown = [
        (chr(data[TAG]), *struct.unpack_from(">I", data, TAG + 1))
        if data[TAG] == ord("I")
        else chr(data[TAG])
        for data in found
    ]
    assert shown == ["B", ("I", 7), "C", "B", ("I", 1), ("I", 2), "C", "B", ("I", 1), ("I", 4), "C"]
    begins = [decode_message(data[TAG:]) for data in found if data[TAG] == ord("B")]
    assert [(begin.xid, begin.final_lsn) for begin in begins] == [(7, 40), (9, 60), (5, 70)]


def test_a_relation_of_an_aborted_subtransaction_is_kept() -> None:
    relation = b"R" + struct.pack(">II", 6, 1) + b"public\0t\0d\0\0"
    messages = [start(5), xlog(1, relation), row(6, 1), row(5, 1), STOP,
                xlog(0, b"A" + struct.pack(">II", 5, 6)), streamed_commit(5, 60)]  # fmt: skip
    assert [chr(data[TAG]) for data in read_all(messages)] == ["B", "R", "I", "C"]


def test_a_commit_whose_changes_never_came_is_an_error() -> None:
    with pytest.raises(
        Exception, match="transaction 5 was committed at LSN 68, but its changes were not sent"
    ):
        read_all([streamed_commit(5, 60)])


def test_a_prepared_transaction_holds_the_position_until_it_is_delivered() -> None:
    begin = xlog(5, b"b" + struct.pack(">QQqI", 20, 28, 0, 7) + b"g\0")
    prepare = xlog(20, b"P\0" + struct.pack(">QQqI", 20, 28, 0, 7) + b"g\0")
    committed = xlog(90, b"K\0" + struct.pack(">QQqI", 90, 98, 0, 7) + b"g\0")
    assembler = Assembler(
        Given([begin, xlog(6, b"I" + struct.pack(">I", 7) + b"N\0\0"), prepare, committed]), Spool(10)
    )
    assert assembler.confirmable(15) == 15
    assembler._sort([begin, prepare])
    assert assembler.confirmable(50) == 20
    assembler = Assembler(
        Given([begin, xlog(6, b"I" + struct.pack(">I", 7) + b"N\0\0"), prepare, committed]), Spool(10)
    )
    assert [chr(data[TAG]) for data in assembler.read(10)] == ["B", "I", "C"]
    assert assembler.confirmable(97) == 20
    assert assembler.confirmable(98) == 98


def test_what_is_kept_is_not_kept_in_memory() -> None:
    spool = Spool(10_000)
    for xid in range(3):
        spool.open(xid)
    held = []
    for number in range(30_000):
        spool.append(number % 3, 0, b"x" * 26 + b"%d" % number)
        held.append(spool.memory_bytes)
    assert max(held) <= 10_000
    assert sum(held) > 5_000 * len(held), "it is written in pieces of some size"
    assert spool.spilled_bytes > 3 * (1 << 18), "each file is read in several pieces"
    assert [data[26:] for data in spool.messages(1)] == [b"%d" % number for number in range(1, 30_000, 3)]
    assert 1 not in spool
    spool.close()
    assert (len(spool), spool.memory_bytes) == (0, 0)


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 100 kB, as on a full disk."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, former[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, former)


def fill(spool: Any) -> None:
    spool.open(1)
    for _ in range(40):
        spool.append(1, 1, bytes(10_000))


@pytest.mark.usefixtures("small_files")
def test_a_full_disk_is_said_and_nothing_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spool = Spool(50_000)
    with pytest.raises(SpoolError, match=f"cannot be kept in {tmp_path}: File too large") as raised:
        fill(spool)
    assert "TMPDIR" in (raised.value.hint or "")
    assert raised.value.retry is Retry.TIMED
    spool.close()
    assert (len(spool), spool.memory_bytes, list(tmp_path.iterdir())) == (0, 0, [])


def test_a_directory_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(SpoolError, match=r"none: No such file or directory"):
        fill(Spool(50_000))


def test_a_spool_that_is_full_says_so_before_the_disk_is() -> None:
    spool = Spool(1_000, disk_bytes=100_000)
    spool.open(1)
    for _ in range(190):
        spool.append(1, 1, b"x" * 500)
    with pytest.raises(SpoolError, match=r"tidings\.spool\.max\.bytes allows 100000") as raised:
        spool.append(1, 1, b"x" * 10_000)
    assert raised.value.retry is Retry.TIMED
    assert 90_000 < spool.disk_bytes <= 100_000
    spool.close()
    assert spool.disk_bytes == 0
    with pytest.raises(SpoolError, match=r"tidings\.spool\.free\.bytes"):
        fill(Spool(50_000, free_bytes=1 << 60))
