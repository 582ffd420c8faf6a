"""What MySQL's log says of the columns of a table, and of their values, where MariaDB's says it otherwise."""

from decimal import Decimal
from typing import cast

from mysql_log import LoggedDatabase
from mysql_versions import VECTORS

from tidings_capture.mysql.binlog import table_map as kinds
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.encoding.fields import FieldOptions, row_field
from tidings_capture.mysql.encoding.selected import expression
from tidings_capture.mysql.schemas.catalog import table
from tidings_envelope.schema import NO_DEFAULT

COLUMNS = """
 id INT PRIMARY KEY, t VARCHAR(10), g GEOMETRY, j JSON, v VECTOR(3), b BLOB, p POINT SRID 4326, c CHAR(5) COLLATE utf8mb4_ja_0900_as_cs,
 tx TEXT CHARACTER SET latin1, e ENUM('ä','b') CHARACTER SET latin1, s SET('x','y'), k CHAR(3) CHARACTER SET gbk, hidden INT INVISIBLE,
 biu BIGINT UNSIGNED, bt BIT(12), y YEAR, d DECIMAL(20,5), tm TIME(3), dt DATETIME(6), ts TIMESTAMP(2) NULL, da DATE,
 virt INT AS (id + 1) VIRTUAL, stor INT AS (id + 2) STORED, dj JSON DEFAULT (JSON_ARRAY(1)), vb VARBINARY(9) DEFAULT 'ab',
 KEY ((CONCAT(t, 'x'))), KEY ((CAST(j->'$.a' AS UNSIGNED ARRAY)))
"""


def test_cells_and_collations_are_those_of_the_columns(logged: LoggedDatabase) -> None:
    """Hidden columns of indexes on expressions are not in the log, geometries are not counted by its lists of collations, and a
    vector is."""
    logged.run("SET SESSION sql_mode = ''", f"CREATE TABLE t ({COLUMNS})")
    start = logged.place()
    logged.run(
        "INSERT INTO t (id, t, g, j, v, b, p, c, tx, e, s, k, hidden, biu, bt, y, d, tm, dt, ts, da) VALUES (1, 'ä😀',"
        " ST_GeomFromText('LINESTRING(0 0,1 1)'), '{\"a\": [1]}', STRING_TO_VECTOR('[1,2.5,-3]'), x'00ff',"
        " ST_GeomFromText('POINT(10 20)', 4326), 'あ', 'é€', 'ä', 'x,y', '中', 7, 18446744073709551615, b'101', 2155, -12345.5,"
        " '-838:59:58.5', '1000-01-01 00:00:00.000001', '2026-01-02 03:04:05.67', '0000-00-00')"
    )
    (table,) = logged.tables(start)
    assert [column.name for column in table.columns][-4:] == ["virt", "stor", "dj", "vb"]
    names = dict(logged.run("SELECT id, character_set_name FROM information_schema.collations"))
    charsets = {c.name: names[c.collation] for c in table.columns if c.collation is not None}
    assert charsets == {
        "t": "utf8mb4", "v": "binary", "b": "binary", "c": "utf8mb4", "tx": "latin1", "e": "latin1", "s": "utf8mb4",
        "k": "gbk", "vb": "binary",
    }  # fmt: skip
    assert [c.geometry for c in table.columns if c.type == kinds.GEOMETRY] == [0, 1]
    ((op, cells),) = logged.changes(start)
    assert op == "c"
    assert {name: cells[name] for name in ("t", "j", "c", "tx", "e", "s", "k", "dj", "vb")} == {
        "t": "ä😀", "j": '{"a":[1]}', "c": "あ", "tx": "é€", "e": "ä", "s": "x,y", "k": "中", "dj": "[1]", "vb": b"ab",
    }  # fmt: skip
    assert (cells["hidden"], cells["virt"], cells["stor"], cells["biu"], cells["bt"]) == (
        7,
        2,
        3,
        2**64 - 1,
        5,
    )
    assert (cells["y"], cells["d"], cells["tm"]) == (2155, Decimal("-12345.50000"), -3_020_398_500_000)
    assert cells["v"].hex() == "0000803f00002040000040c0"
    # Longitude first, as in all WKB, although the text has the latitude first.
    ((wkb,),) = logged.run("SELECT HEX(ST_AsBinary(p, 'axis-order=long-lat')) FROM t")
    assert cells["p"] == (4326).to_bytes(4, "little") + bytes.fromhex(wkb)


def test_columns_that_come_and_go_at_once_are_in_the_rows_from_then_on(logged: LoggedDatabase) -> None:
    logged.run("CREATE TABLE t (id INT PRIMARY KEY, b BLOB, j JSON)", "INSERT INTO t VALUES (1, 'b', '1')")
    start = logged.place()
    logged.run(
        "ALTER TABLE t ADD COLUMN first INT DEFAULT 7 FIRST, ALGORITHM=INSTANT",
        "ALTER TABLE t ADD COLUMN nj JSON NOT NULL, ALGORITHM=INSTANT",
        "UPDATE t SET b = 'c'",
        "ALTER TABLE t DROP COLUMN b, ALGORITHM=INSTANT",
        "DELETE FROM t",
    )
    before, after, gone = (cells for _, cells in logged.changes(start))
    # Debezium has an empty object for the document that the row does not have.
    assert before == {"first": 7, "id": 1, "b": b"b", "j": "1", "nj": "{}"}
    assert after == before | {"b": b"c"}
    assert gone == {"first": 7, "id": 1, "j": "1", "nj": "{}"}


def test_a_key_that_the_server_made_is_in_the_rows(logged: LoggedDatabase) -> None:
    logged.run("SET SESSION sql_generate_invisible_primary_key = ON", "CREATE TABLE t (a INT)")
    start = logged.place()
    logged.run("INSERT INTO t VALUES (5), (6)")
    (table,) = logged.tables(start)
    assert table.key == ("my_row_id",)
    assert [cells for _, cells in logged.changes(start)] == [
        {"my_row_id": 1, "a": 5},
        {"my_row_id": 2, "a": 6},
    ]


_LONG = "-12345678901234567890123456789012345.123456789012345678901234567891"
DEFAULTS = {
    "n INT DEFAULT 7": 7, "t VARCHAR(20) DEFAULT 'it''s \\\\ ä'": "it's \\ ä", "w VARCHAR(9) DEFAULT 'NULL'": "NULL",
    "e VARCHAR(9) DEFAULT ''": "", "x INT DEFAULT (1 + 2)": NO_DEFAULT, "d DECIMAL(9,2) DEFAULT 1.5": Decimal("1.50"),
    "bt BIT(3) DEFAULT b'101'": b"\x05", "da DATE DEFAULT '2026-01-02'": 20_455, "ts TIMESTAMP DEFAULT CURRENT_TIMESTAMP NULL":
    "1970-01-01T00:00:00Z", "dt DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP": NO_DEFAULT,
    "en ENUM('a','b') DEFAULT 'b'": "b", "j JSON DEFAULT (JSON_OBJECT())": NO_DEFAULT, "f DOUBLE DEFAULT 1e3": 1000.0,
    f"dl DECIMAL(65,30) DEFAULT {_LONG}": Decimal(_LONG),
    "vb VARBINARY(4) DEFAULT 'ab'": b"ab", "no INT": NO_DEFAULT, "up INT DEFAULT NULL": NO_DEFAULT,
}  # fmt: skip


def test_defaults_are_the_values_that_the_server_takes_for_them(logged: LoggedDatabase) -> None:
    """Its catalog has constants as they are, where MariaDB's has SQL; an expression is none of them, and no generated column."""
    logged.run(
        f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(DEFAULTS)}, g INT AS (id) VIRTUAL, v VECTOR(2))"
    )
    found = table(cast(Session, logged), logged.name, "t")
    assert found is not None
    fields = [row_field(column, FieldOptions()) for column in found.columns[1:]]
    assert [field.schema.default for field in fields[:-2]] == list(DEFAULTS.values())
    assert [column.name for column in found.columns if column.generated] == ["g"]
    by_name = {field.name: field for field in fields}
    assert by_name["j"].schema.name == "io.debezium.data.Json"
    if logged.version >= VECTORS:
        assert by_name["v"].schema.name == "io.debezium.data.FloatVector"
        assert by_name["v"].convert(bytes.fromhex("cdcccc3d000000c0")) == [0.1, -2.0]


def test_a_vector_is_selected_as_the_bytes_that_the_log_has(logged: LoggedDatabase) -> None:
    logged.run("CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(3), j JSON)")
    start = logged.place()
    logged.run("INSERT INTO t VALUES (1, STRING_TO_VECTOR('[0.1,-2,-3e38]'), '[]'), (2, NULL, NULL)")
    found = table(cast(Session, logged), logged.name, "t")
    assert found is not None
    rows = logged.run(f"SELECT {', '.join(expression(column) for column in found.columns)} FROM t ORDER BY 1")
    assert rows == tuple(tuple(cells.values()) for _, cells in logged.changes(start))
