"""MariaDB's binary log, read from a real server: each row as SELECT gives it; malformed bytes are errors, never values."""

import contextlib
import hashlib
import random
import zlib
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mariadb_parts import EVERY_TYPE, Database
from mariadb_values import EDGES, insert, random_values
from nacl.bindings import crypto_scalarmult_ed25519_base_noclamp, crypto_sign_open
from pymysql import _auth

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.cells import MISSING, ZERO
from tidings_capture.mysql.binlog.gtid import Gtid, GtidPosition
from tidings_capture.mysql.binlog.multibyte import FORMS, characters
from tidings_capture.mysql.binlog.row_code import TableRows, read_rows_event
from tidings_capture.mysql.binlog.table_map import read_table_map
from tidings_capture.mysql.client import BinlogStream, Session
from tidings_capture.mysql.errors import BinlogError, BinlogLostError, MariaDbError, UnsupportedError
from tidings_capture.mysql.flavours.mariadb import MARIADB


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_each_row_is_what_select_gives(database: Database, compressed: bool) -> None:
    database.run("SET SESSION sql_mode = ''", EVERY_TYPE)
    if compressed:
        database.run("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 20")
    start, chance = database.position(), random.Random(20261123)
    try:
        for place in range(max(map(len, EDGES.values()))):
            database.run(insert({name: found[place % len(found)] for name, found in EDGES.items()}))
        database.run(insert({}))
        for _ in range(20):
            database.run(insert(random_values(chance)))
        logged = database.logged(start)
        types = {event.type for event in database.events(start)}
    finally:
        if compressed:
            database.run("SET GLOBAL log_bin_compress = OFF")
    assert (166 in types) == compressed
    selected = database.selected("kinds")
    names = [column.name for column in database.table("kinds").columns]
    assert len(logged) == len(selected)
    for (op, mine), its in zip(logged, selected, strict=True):
        assert op == "c"
        wrong = {
            n: (m, i) for n, m, i in zip(names, mine, its, strict=True) if m != i or type(m) is not type(i)
        }
        assert not wrong
    assert logged[2][1][names.index("da")] is ZERO


COMPRESSED = (
    "v VARCHAR(2000) COMPRESSED", "w TEXT COMPRESSED", "x BLOB COMPRESSED", "y VARCHAR(20) CHARACTER SET latin1 COMPRESSED",
    "u VARBINARY(300) COMPRESSED", "l LONGTEXT COMPRESSED", "b VARCHAR(255) CHARACTER SET latin1 COMPRESSED", "c CHAR(3) CHARACTER SET cp1251",
)  # fmt: skip
"""Columns that are kept compressed, and one behind them that shows whether the character sets are counted right."""


@pytest.mark.parametrize("wrap", [0, 1])
def test_compressed_columns_are_what_select_gives(database: Database, wrap: int) -> None:
    """Short ones, which are kept as they are, and long ones; with and without zlib's header."""
    database.run(
        f"CREATE TABLE z (a INT PRIMARY KEY, {', '.join(COMPRESSED)})",
        f"SET column_compression_zlib_wrap = {wrap}",
    )
    start = database.position()
    database.run(
        "INSERT INTO z VALUES (1, 'short', 't', x'00', 'läß', 'u', 'l', 'ö', 'жук'), (2, REPEAT('häß😀', 100), REPEAT('ab', 5000),"
        " REPEAT(x'0001', 9000), '', REPEAT(x'07', 250), REPEAT('long', 30000), REPEAT('ä', 255), 'я'),"
        " (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'x'), (4, '', '', '', '', '', '', '', '')"
    )
    logged = database.logged(start)
    assert [cells for _, cells in logged] == database.selected("z")
    assert (logged[1][1][1], len(logged[1][1][6])) == ("häß😀" * 100, 120_000)


@pytest.mark.parametrize("charset", FORMS)
def test_each_character_is_the_servers(database: Database, charset: str) -> None:
    """All that there may be, assigned or not, with ASCII between; as a label, too."""
    database.run(
        f"CREATE TABLE t (a INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(3000) CHARACTER SET {charset},"
        f" e ENUM('A一', 'b') CHARACTER SET {charset})"
    )
    start, every = database.position(), characters(charset)
    for place in range(0, len(every), 2000):
        digits = b"".join(b"|\\" + character for character in every[place : place + 1000]).hex()
        database.run(f"INSERT INTO t (v, e) VALUES (_{charset} x'{digits}', 1)")
        digits = b"".join(every[place + 1000 : place + 2000]).hex()
        database.run(f"INSERT INTO t (v, e) VALUES (_{charset} x'{digits}', 2)")
    logged = [cells for _, cells in database.logged(start)]
    assert logged == database.selected("t")
    assert sum(len(text.replace("|\\", "")) for _, text, _ in logged) == len(every)


def test_updates_and_deletes_have_whole_rows(database: Database) -> None:
    database.run(
        "CREATE TABLE t (a INT, b VARCHAR(9), c INT AS (a + 1) STORED)",
        "INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL)",
    )
    start = database.position()
    database.run("UPDATE t SET b = 'y'", "DELETE FROM t WHERE a = 2")
    assert database.logged(start) == [
        ("u", (1, "x", 2)), ("u", (1, "y", 2)), ("u", (2, None, 3)), ("u", (2, "y", 3)), ("d", (2, "y", 3)),
    ]  # fmt: skip


def test_the_log_names_keys_labels_and_signs(database: Database) -> None:
    database.run(
        "CREATE TABLE t (y YEAR, b INT UNSIGNED, a VARCHAR(9) NOT NULL, e ENUM('ä') CHARACTER SET latin1, PRIMARY KEY (a, b))"
    )
    start = database.position()
    database.run("INSERT INTO t VALUES (2026, 4294967295, 'x', 'ä')")
    (mapped,) = [
        read_table_map(event, by_mysql=False)
        for event in database.events(start)
        if event.type == log.TABLE_MAP
    ]
    assert (mapped.database, mapped.table, mapped.key) == (database.name, "t", ("a", "b"))
    assert [(c.name, c.nullable) for c in mapped.columns] == [
        ("y", True),
        ("b", False),
        ("a", False),
        ("e", True),
    ]
    assert mapped.columns[1].unsigned
    assert mapped.columns[3].labels == (b"\xe4",)


def test_a_purged_log_and_another_servers_are_told_apart(database: Database) -> None:
    database.run("CREATE TABLE t (a INT)")
    start = database.position()
    database.run(
        "INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS"
    )
    assert len(database.logged(start)) == 2
    for position, words in (
        (GtidPosition([Gtid(0, 1, 10**9)]), "does not hold the stored position"),
        (GtidPosition([Gtid(0, 77, 10**9)]), "does not hold the stored position"),
    ):
        with pytest.raises(BinlogLostError, match=words):
            list(database.read_until_error(position))
    database.purge()
    for position in (start, GtidPosition()):
        with pytest.raises(BinlogLostError, match="purged before everything in it was read"):
            list(database.read_until_error(position))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("FULL_NODUP", [
            ("c", (1, 5, "c", None)), ("u", (1, 5, "c", None)), ("u", (1, 6, "c", None)), ("u", (1, 6, "c", None)),
            ("u", (1, 6, "c", "y")), ("d", (1, 6, "c", "y")), ("c", (1, None)), ("u", (1, None)), ("u", (2, None)),
        ]),
        ("NOBLOB", [
            ("c", (1, 5, "c", None)), ("u", (1, 5, "c", MISSING)), ("u", (1, 6, "c", MISSING)), ("u", (1, 6, "c", MISSING)),
            ("u", (1, 6, "c", "y")), ("d", (1, 6, "c", MISSING)), ("c", (1, None)), ("u", (1, None)), ("u", (2, None)),
        ]),
        ("MINIMAL", [
            ("c", (1, MISSING, "c", None)), ("u", (1, MISSING, MISSING, MISSING)), ("u", (1, 6, MISSING, MISSING)),
            ("u", (1, MISSING, MISSING, MISSING)), ("u", (1, MISSING, MISSING, "y")), ("d", (1, MISSING, MISSING, MISSING)),
            ("c", (1, None)), ("u", (1, None)), ("u", (2, None)),
        ]),
    ],
)  # fmt: skip
def test_what_an_image_leaves_out_is_completed_or_missing(
    database: Database, image: str, expected: list[Any]
) -> None:
    database.run("CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL DEFAULT 5, c VARCHAR(9), d TEXT)")
    database.run("CREATE TABLE nokey (a INT, d TEXT)", f"SET SESSION binlog_row_image = {image}")
    start = database.position()
    database.run(
        "INSERT INTO t (a, c) VALUES (1, 'c')", "UPDATE t SET b = 6", "UPDATE t SET d = 'y'", "DELETE FROM t"
    )
    database.run("INSERT INTO nokey VALUES (1, NULL)", "UPDATE nokey SET a = 2")
    assert database.logged(start) == expected


def test_a_password_may_have_any_characters(database: Database) -> None:
    user = f"u{database.name}"
    database.run(f"CREATE USER {user} IDENTIFIED BY 'пароль é'")
    told = type(database.endpoint)("127.0.0.1", database.endpoint.port, user, "пароль é")
    session = Session(told)
    assert session.rows("SELECT USER()")[0][0].startswith(user)
    session.close()
    database.run(f"DROP USER {user}")


def test_ed25519_is_answered_as_the_server_wants_it() -> None:
    """MariaDB's plugin takes a signature whose secret is the password's SHA-512, of any length: `_auth` needs PyNaCl for it. The
    server of these tests has no such plugin; a login was tried by hand on MariaDB 10.11."""
    answer = _auth.ed25519_password(b"s\xc3\xa9cret", bytes(range(32)))
    scalar = hashlib.sha512(b"s\xc3\xa9cret").digest()[:32]
    public = crypto_scalarmult_ed25519_base_noclamp(_auth._scalar_clamp(scalar))
    assert crypto_sign_open(answer + bytes(range(32)), public) == bytes(range(32))


def test_an_unknown_login_is_an_error_with_a_number(database: Database) -> None:
    wrong = type(database.endpoint)("127.0.0.1", database.endpoint.port, "nobody", "?")
    with pytest.raises(MariaDbError) as raised:
        BinlogStream(wrong, MARIADB.request(GtidPosition(), 1, annotations=False, heartbeat_seconds=1))
    assert raised.value.number == 1045
    assert raised.value.retry == "manual"


HEADER = 19


def packed(kind: int, body: bytes) -> bytes:
    """An event with a right header and checksum."""
    size = HEADER + len(body) + 4
    data = (
        b"".join(n.to_bytes(w, "little") for n, w in ((1, 4), (kind, 1), (1, 4), (size, 4), (99, 4), (0, 2)))
        + body
    )
    return data + zlib.crc32(data).to_bytes(4, "little")


TABLE = (
    (7).to_bytes(6, "little") + b"\0\0" + b"\2db\0" + b"\1t\0" + b"\5" + bytes((3, 15, 246, 19, 252))
    + b"\6" + b"\x50\0" + b"\x0a\x02" + b"\6" + b"\2" + b"\x1f" + b"\1\1\0" + b"\2\1\x2d" + b"\4\x0a\1a\1b\1c\1d\1e"
)  # fmt: skip


def read_all(kind: int, body: bytes, rows: TableRows | None = None) -> Any:
    event = log.EventReader().read(packed(kind, body))
    reads = {
        log.ROTATE: log.read_rotate, log.GTID: log.read_gtid, log.GTID_LIST: log.read_gtid_list, log.QUERY: log.read_query,
        log.QUERY_COMPRESSED: log.read_query, log.TABLE_MAP: partial(read_table_map, by_mysql=False),
    }  # fmt: skip
    if kind in reads:
        return reads[kind](event)
    assert rows is not None
    return rows.read(read_rows_event(event), "here")


@pytest.fixture(scope="module")
def rows() -> TableRows:
    return TableRows(read_all(log.TABLE_MAP, TABLE), [None, bytes.decode, None, None, bytes.decode])


ROW = b"\0" + (5).to_bytes(4, "little") + b"\2hi" + b"\x80\0\0\7\x32" + b"\x80\x10\x83\0\0\0" + b"\3\0abc"


def test_a_made_up_row_is_read(rows: TableRows) -> None:
    head = (7).to_bytes(6, "little") + b"\0\0\5\x1f"
    ((number, text, decimal, clock, blob),) = read_all(23, head + ROW, rows)
    assert (number, text, str(decimal), clock, blob) == (5, "hi", "7.50", 3_723_000_000, "abc")


@given(
    st.sampled_from(
        [log.ROTATE, log.GTID, log.GTID_LIST, log.QUERY, log.QUERY_COMPRESSED, log.TABLE_MAP, *log.ROWS]
    ),
    st.binary(max_size=80),
)
def test_random_bytes_are_values_or_an_error(rows: TableRows, kind: int, body: bytes) -> None:
    with contextlib.suppress(BinlogError, UnsupportedError):
        read_all(kind, body, rows)


@given(st.integers(0, len(TABLE) - 1))
def test_a_table_map_that_is_cut_off_is_an_error_or_names_nothing(length: int) -> None:
    """What names columns stands behind all else, and may be missing."""
    event = log.EventReader().read(packed(log.TABLE_MAP, TABLE[:length]))
    try:
        mapped = read_table_map(event, by_mysql=False)
    except (BinlogError, UnsupportedError):
        return
    assert not mapped.has_names
    assert {column.name for column in mapped.columns} == {""}


@given(st.integers(1, len(ROW) - 1))
def test_a_row_that_is_cut_off_is_an_error(rows: TableRows, length: int) -> None:
    head = (7).to_bytes(6, "little") + b"\0\0\5\x1f"
    with pytest.raises(BinlogError, match="row 2 of an event at here"):
        read_all(23, head + ROW + ROW[:length], rows)


@given(st.binary(max_size=40))
def test_what_is_no_event_is_an_error(data: bytes) -> None:
    with pytest.raises(BinlogError):
        log.EventReader().read(data)


def test_a_changed_byte_is_found() -> None:
    data = bytearray(packed(log.TABLE_MAP, TABLE))
    data[30] ^= 1
    with pytest.raises(BinlogError, match="the checksum of an event of type 19 that ends at 99 is wrong"):
        log.EventReader().read(bytes(data))


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 2**32 - 1), st.integers(0, 2**64 - 1)),
        unique_by=lambda g: g[0],
    )
)
def test_positions_are_read_as_they_are_written(gtids: list[tuple[int, int, int]]) -> None:
    position = GtidPosition(Gtid(*gtid) for gtid in gtids)
    assert GtidPosition.read(str(position)) == position
    assert all(position.holds(Gtid(*gtid)) for gtid in gtids)


@pytest.mark.parametrize(
    "text", ["0-1", "0-1-2,0-2-3", "a-b-c", "0-1-99999999999999999999999", "99999999999-1-1"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        GtidPosition.read(text)
