"""MySQL's binary JSON: the text that Debezium makes of it, documents that are changed in part, and bytes that are no document."""

import json
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mysql_log import LoggedDatabase

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.json_value import json_text
from tidings_capture.mysql.binlog.partial_rows import changed_text
from tidings_capture.mysql.errors import BinlogError, UnsupportedError

LONG = "x" * 70_000
# What Debezium 3.5's JsonBinary made of the bytes that this server wrote for each of these, but for the negative times: it has
# 839:0-60:0-59 for the first.
TEXTS = {
    "'null'": "null",
    "'{}'": "{}",
    """'{"b":1,"aa":[true,false,null],"a":3,"A":{"x":[]},"":5}'""": '{"":5,"A":{"x":[]},"a":3,"b":1,"aa":[true,false,null]}',
    "'[-32768,32768,65535,65536,-2147483648,4294967295,4294967296,-9223372036854775808,18446744073709551615]'":
        "[-32768,32768,65535,65536,-2147483648,4294967295,4294967296,-9223372036854775808,18446744073709551615]",
    "'[-0.0,1.5,1e10,9999999.0,12345678.9,1e-3,9.9e-4,1e22]'":
        "[-0.0,1.5,10000000000,9999999.0,12345678.90000000037252902984619140625,0.001,"
        "0.0009899999999999999945876627549523618654347956180572509765625,10000000000000000000000]",
    "JSON_ARRAY(CAST('1.10' AS DECIMAL(10,2)), CAST('-12345678901234567890.123456789' AS DECIMAL(40,12)),"
    " CAST('0.0000001' AS DECIMAL(20,10)))": "[1.10,-12345678901234567890.123456789000,0.0000001000]",
    "JSON_ARRAY(CAST('2026-01-02' AS DATE), CAST('12:34:56.789' AS TIME(3)), CAST('-838:59:59' AS TIME),"
    " CAST('-00:00:01.5' AS TIME(1)), CAST('2026-01-02 03:04:05.6' AS DATETIME(6)))":
        '["2026-01-02","12:34:56.789","-838:59:59","-00:00:01.5","2026-01-02 03:04:05.6"]',
    "JSON_ARRAY(x'0001ff', b'101', CAST('abc' AS BINARY))": '["AAH/","BQ==","YWJj"]',
    r"""'"\\u0001\\b\\u000b\\u001f\\"\\\\/ü😀"'""": r'"\u0001\b\u000B\u001F\"\\/ü😀"',
    r"""'{"q\\"": 1, "ü": 2}'""": r'{"q\"":1,"ü":2}',
    "JSON_ARRAY(REPEAT('x', 70000), 1, 70000, -70000, 3000000000, TRUE, NULL)":
        f'["{LONG}",1,70000,-70000,3000000000,true,null]',
    "JSON_OBJECT('a', REPEAT('x', 70000), 'i', -70000, 'o', JSON_OBJECT('k', 5))": f'{{"a":"{LONG}","i":-70000,"o":{{"k":5}}}}',
}  # fmt: skip


def test_documents_are_the_text_that_debezium_makes_of_them(logged: LoggedDatabase) -> None:
    logged.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)")
    start = logged.place()
    for value in TEXTS:
        logged.run(f"INSERT INTO t (j) VALUES ({value})")
    texts = list(TEXTS.values())
    if logged.version < (9, 0):  # what such a server says itself of that time in a document
        texts = [text.replace("-838:59:59", "-630:59:59") for text in texts]
    assert [cells["j"] for _, cells in logged.changes(start)] == texts


CHANGES = (
    "JSON_SET(j, '$.a', 70000)", "JSON_REPLACE(j, '$.list[1]', JSON_OBJECT('n', NULL))", "JSON_REMOVE(j, '$.list[0]')",
    "JSON_SET(j, '$.\"a b\"', 'new', '$.z', 1)", "JSON_SET(j, '$.list[9]', 'end')", "JSON_REMOVE(j, '$.z', '$.deep.x[0]')",
    "JSON_SET(j, '$.\"ü\"', 'x'), k = JSON_SET(k, '$[0]', 'changed'), n = n + 1", "JSON_SET(j, '$.deep.x[0]', CAST('1.50' AS DECIMAL(5,2)))",
    "JSON_REPLACE(j, '$.\"a b\"', REPEAT('y', 3000))", "JSON_SET(j, '$.\"q\\\\\"uote\"', 1)", "j, n = 5", "JSON_OBJECT('whole', 1)",
)  # fmt: skip


def test_documents_that_are_changed_in_part_are_whole_behind_it(logged: LoggedDatabase) -> None:
    logged.run(
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "CREATE TABLE t (id INT PRIMARY KEY, other JSON, j JSON, n INT, k JSON, t VARCHAR(10))",
        "INSERT INTO t VALUES (1, NULL, JSON_OBJECT('a', 1, 'list', JSON_ARRAY('one', 'two', 3), 'deep', JSON_OBJECT('x', JSON_ARRAY(1, 2)),"
        " 'pad', REPEAT('p', 500)), 1, JSON_ARRAY('first', REPEAT('q', 500)), 'ä')",
    )
    start = logged.place()
    documents: list[Any] = []
    for change in CHANGES:
        logged.run(f"UPDATE t SET j = {change} WHERE id = 1")
        (row,) = logged.run("SELECT id, other, j, n, k, t FROM t")
        documents.append(row)
    partial = [event for event in logged.events(start) if event.type == log.PARTIAL_UPDATE_ROWS]
    assert len(partial) == len(CHANGES)
    rows = logged.changes(start)
    assert len(rows) == 2 * len(CHANGES)
    for place, (number, other, j, n, k, text) in enumerate(documents):
        cells = rows[2 * place + 1][1]
        told = (
            cells["id"],
            cells["other"],
            json.loads(cells["j"]),
            cells["n"],
            json.loads(cells["k"]),
            cells["t"],
        )
        assert told == (number, other, json.loads(j), n, json.loads(k), text), CHANGES[place]
        if place:
            assert rows[2 * place][1] == rows[2 * place - 1][1]
    assert '"x":[1.50]' in rows[15][1]["j"]


def test_a_change_of_a_document_that_the_log_does_not_have_is_refused_by_name(logged: LoggedDatabase) -> None:
    logged.run(
        "SET SESSION binlog_row_value_options = PARTIAL_JSON, SESSION binlog_row_image = MINIMAL",
        "CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT)",
        "INSERT INTO t VALUES (1, JSON_OBJECT('a', 1, 'pad', REPEAT('p', 500)), 1)",
    )
    start = logged.place()
    logged.run("UPDATE t SET n = 2")
    assert [cells["n"] for _, cells in logged.changes(start)][1] == 2
    logged.run("UPDATE t SET j = JSON_SET(j, '$.a', 2)")
    with pytest.raises(UnsupportedError, match="only what has changed in the JSON of column 'j'"):
        logged.changes(start)


def binary(value: Any, chance: random.Random) -> tuple[int, bytes]:
    """A value's kind and bytes, as the server writes small documents."""
    if isinstance(value, dict | list):
        return _container(value, chance)
    if value is None or isinstance(value, bool):
        return 4, bytes([0 if value is None else 1 if value else 2])
    if isinstance(value, int):
        return 9, value.to_bytes(8, "little", signed=True)
    data = str(value).encode()
    return 12, bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) + data


def _container(value: Any, chance: random.Random) -> tuple[int, bytes]:
    names = [name.encode() for name in value] if isinstance(value, dict) else []
    parts = [binary(part, chance) for part in (value.values() if isinstance(value, dict) else value)]
    at = 4 + 4 * len(names) + 3 * len(parts)
    keys, entries, tail = b"", b"", b""
    for name in names:
        keys += (at + len(tail)).to_bytes(2, "little") + len(name).to_bytes(2, "little")
        tail += name
    for kind, data in parts:
        if kind == 4:
            entries += bytes([kind]) + data + b"\0"
        else:
            entries += bytes([kind]) + (at + len(tail)).to_bytes(2, "little")
            tail += data
    head = len(parts).to_bytes(2, "little") + (at + len(tail)).to_bytes(2, "little")
    return 0 if isinstance(value, dict) else 2, head + keys + entries + tail


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(value=VALUES, seed=st.integers(0, 2**32))
def test_a_document_is_its_value_and_one_with_wrong_bytes_is_an_error_or_a_document(
    value: Any, seed: int
) -> None:
    chance = random.Random(seed)
    kind, body = binary(value, chance)
    data = bytes([kind]) + body
    assert json.loads(json_text(data)) == value
    for wrong in (data[: chance.randrange(len(data))], _spoiled(data, chance), chance.randbytes(40)):
        try:
            text = json_text(wrong)
        except ValueError:
            continue
        json.loads(text, parse_float=Decimal)
        assert len(text) < 400 * len(wrong) + 400


def _spoiled(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        found[chance.randrange(len(found))] = chance.randrange(256)
    return bytes(found)


def test_offsets_that_lead_to_the_same_bytes_again_and_again_are_an_error() -> None:
    """Each of 40 arrays has the next one twice: a trillion values in 400 bytes."""
    level = 10
    data = b"\x02"
    for place in range(40):
        size = (40 - place) * level
        data += b"\x02\0" + size.to_bytes(2, "little") + 2 * (b"\x02" + level.to_bytes(2, "little"))
    with pytest.raises(ValueError, match="same bytes"):
        json_text(data + b"\0\0\x04\0")


@pytest.mark.parametrize("depth", [99, 100])
def test_documents_are_read_as_deep_as_the_server_lets_them_be(depth: int) -> None:
    value: Any = []
    for _ in range(depth):
        value = [value]
    kind, body = binary(value, random.Random(0))
    if depth < 100:
        assert json.loads(json_text(bytes([kind]) + body)) == value
    else:
        with pytest.raises(ValueError, match="too deep"):
            json_text(bytes([kind]) + body)


BEFORE = b"\x02\x01\0\x07\0\x05\x07\0"


@given(st.binary(max_size=30) | st.binary(max_size=12).map(lambda tail: b"\0\4$[0]\4" + tail))
def test_changes_that_are_malformed_are_errors_or_lead_to_a_document(changes: bytes) -> None:
    try:
        text = changed_text(BEFORE, changes)
    except (ValueError, BinlogError):
        return
    json.loads(text, parse_float=Decimal)
