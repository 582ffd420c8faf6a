"""The rows of a result: whatever the server's packets arrive in, and however long a cell is."""

import random
from collections.abc import Sequence
from typing import Final

import pytest
from mariadb_parts import Database

from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.text_encoder import row_cells
from tidings_capture.mysql.errors import MariaDbError
from tidings_capture.mysql.result_rows import MOST_BYTES, MOST_PACKET, ResultRows

END: Final = b"\xfe\0\0\x02\0"
FAILED: Final = b"\xff\x25\x05#70100Query execution was interrupted"


class Pieces:
    """What arrives, piece by piece."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        self._data = data
        self._sizes = list(sizes)

    def read1(self, size: int, /) -> bytes:
        return self._next(min(size, self._sizes.pop() if self._sizes else size))

    def read(self, size: int, /) -> bytes:
        return self._next(size)

    def _next(self, size: int) -> bytes:
        found, self._data = self._data[:size], self._data[size:]
        return found


def packets(payloads: Sequence[bytes]) -> bytes:
    """As a server sends them."""
    sent, number = b"", 5
    for payload in payloads:
        for at in range(0, len(payload) + 1, MOST_PACKET):
            part = payload[at : at + MOST_PACKET]
            sent += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
            number += 1
    return sent


def refused(packet: bytes) -> Exception:
    return RuntimeError(packet.decode("latin1"))


def lost() -> Exception:
    return ConnectionError


def read(stream: Pieces, count: int) -> list[bytes]:
    result, found = ResultRows(stream, refused, lost), []
    while some := result.fetch(count):
        assert len(some) <= count
        found += some
    assert result.ended
    assert result.fetch(count) == []
    return found


@pytest.mark.parametrize("seed", range(40))
def test_rows_arrive_in_any_pieces(seed: int) -> None:
    chance = random.Random(seed)
    rows = [
        chance.randbytes(chance.choice((1, 2, 50, 300, 5000))).replace(b"\xfe", b"a").replace(b"\xff", b"b")
        for _ in range(chance.randint(0, 200))
    ]
    sizes = [chance.choice((1, 2, 3, 4, 5, 100, 5000)) for _ in range(chance.randint(0, 5000))]
    assert read(Pieces(packets([*rows, END]), sizes), chance.choice((1, 7, 1000))) == rows


@pytest.mark.parametrize("size", [MOST_PACKET - 1, MOST_PACKET, MOST_PACKET + 1, 2 * MOST_PACKET])
@pytest.mark.parametrize("pieces", [[], [1, 3, 262_144]], ids=["large", "small"])
def test_rows_of_more_than_a_packet(size: int, pieces: list[int]) -> None:
    rows = [b"before", b"\xfe" + bytes(size - 1), b"behind", b"\x01x"]
    assert read(Pieces(packets([*rows, END]), pieces), 3) == rows


@pytest.mark.parametrize("width", [MOST_BYTES // 20, MOST_BYTES + 1, 5 * MOST_BYTES])
def test_wide_rows_are_read_a_few_at_a_time(width: int) -> None:
    rows = [bytes(width)] * (3 * MOST_BYTES // width + 2)
    result, found = ResultRows(Pieces(packets([*rows, END]), []), refused, lost), 0
    while some := result.fetch(1000):
        assert len(some) == 1 or sum(map(len, some)) < 2 * MOST_BYTES
        found += len(some)
    assert found == len(rows)


@pytest.mark.parametrize("end", range(0, 40, 3))
def test_a_connection_that_ends_in_the_midst(end: int) -> None:
    with pytest.raises(ConnectionError):
        read(Pieces(packets([b"one row", b"another", b"and one more"])[:end], [2]), 2)


def test_a_long_row_that_is_cut_off() -> None:
    for end in (MOST_PACKET, MOST_PACKET + 4, MOST_PACKET + 6, MOST_PACKET + 9):
        with pytest.raises(ConnectionError):
            read(Pieces(packets([b"x" * (MOST_PACKET + 5)])[:end], []), 2)


def test_an_error_behind_rows() -> None:
    with pytest.raises(RuntimeError, match="interrupted"):
        read(Pieces(packets([b"one row", FAILED]), []), 10)


@pytest.mark.parametrize(
    "row", [b"\x05abc", b"\xfc\x01", b"\xfd\x01\0\0", b"\xfe\x01\0\0\0\0\0\0\0", b"\xff", b"\x01a\xfc\xff"]
)
def test_bytes_that_are_no_row(row: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|none has"):
        row_cells(row)


def test_the_server_s_own_rows(database: Database) -> None:
    sizes = (
        0,
        1,
        250,
        251,
        252,
        65_535,
        65_536,
        MOST_PACKET - 8,
        MOST_PACKET - 4,
        MOST_PACKET,
        MOST_PACKET + 1,
    )
    numbers = [str(size) for size in sizes]
    session = Session(database.endpoint)
    result = session.open(
        "SELECT n, NULL, REPEAT('x', n), '' FROM ("
        + " UNION ALL ".join(f"SELECT {n} AS n" for n in numbers)
        + ") s"
    )
    found = []
    while rows := result.fetch(2):
        found += [row_cells(row) for row in rows]
    result.close()
    assert found == [[str(size).encode(), None, b"x" * size, b""] for size in sizes]
    assert session.rows("SELECT 1") == [("1",)]
    session.close()


def test_a_result_that_is_not_read_to_its_end(database: Database) -> None:
    result = database.session.open("SELECT seq FROM seq_1_to_100000")
    assert [row_cells(row) for row in result.fetch(2)] == [[b"1"], [b"2"]]
    result.close()
    assert database.run("SELECT 2") == [("2",)]


def test_an_error_of_the_server_in_the_midst(database: Database) -> None:
    database.run("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (2), (3)")
    result = database.session.open("SELECT IF(a < 3, a, (SELECT a FROM t)) FROM t")
    with pytest.raises(MariaDbError, match=r"reading a table of 127\.0\.0\.1:\d+ failed.*1242") as failed:
        result.fetch(10)
    assert failed.value.number == 1242
    assert database.run("SELECT 3") == [("3",)]
