"""`tidings-lakehouse audit` on a real MySQL: values as the lake shows them, when a row is in flux, and what is refused."""

from __future__ import annotations

import datetime as dt
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from lakelab.audited import AuditedTable, Types

from tidings_envelope.commit_number import commit_position
from tidings_lakehouse.auditing import mysql as audited_mysql
from tidings_stack.mysql import MySqlServer

pytestmark = pytest.mark.stack
LAST = (
    "SELECT CAST(MAX(UNIX_TIMESTAMP(last_transaction_timestamp)) * 1000000 AS SIGNED)"
    " FROM performance_schema.binary_log_transaction_compression_stats"
)
POINT = struct.pack("<BI2d", 1, 1, -2.0, 1.0)
"""Longitude and latitude, as the log has it."""
TYPES: Types = {
    "id": ("VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY", "'{}'", pa.string(), None),
    "wide": ("BIGINT UNSIGNED", "18446744073709551615", pa.int64(), -1),
    "filled": ("INT(9) ZEROFILL", "7", pa.int64(), 7),
    "yes": ("TINYINT(1)", "1", pa.bool_(), True),
    "floating": ("DECIMAL(12,3)", "0.1", pa.float64(), 0.1),
    "written": ("DECIMAL(12,3)", "-1.5", pa.string(), "-1.500"),
    "large": ("DECIMAL(40,0)", "100", pa.string(), "100"),
    "single": ("FLOAT", "0.1", pa.float32(), 0.1),
    "negative": ("DOUBLE", "-0.1e-300", pa.float64(), -0.1e-300),
    "latin": ("VARCHAR(9) CHARACTER SET latin1", "'Zoë '", pa.string(), "Zoë "),
    "quoted": ("TEXT", "'it''s \\\\'", pa.string(), "it's \\"),
    "zero_day": ("DATE NOT NULL", "'0000-00-00'", pa.date32(), dt.date(1970, 1, 1)),
    "half_day": ("DATE", "'2020-02-00'", pa.date32(), None),
    "old": ("DATETIME(6)", "'1001-01-01 00:00:00.000001'", pa.timestamp("us"), dt.datetime(1001, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    "raw": ("BLOB", "X'00FF'", pa.binary(), b"\x00\xff"),
    "born": ("YEAR", "0", pa.int32(), 0),
    "kind": ("ENUM('a','b,c')", "'b,c'", pa.string(), "b,c"),
    "marks": ("SET('x','y','z')", "'x,z'", pa.string(), "x,z"),
    "bits": ("BIT(10)", "1022", pa.binary(), b"\xfe\x03"),
    "flag": ("BIT(1)", "1", pa.bool_(), True),
    "huge": ("DECIMAL(50,2)", "9" * 48 + ".99", pa.string(), "9" * 48 + ".99"),
    "stamp": ("TIMESTAMP(3) NULL", "'2024-02-29 23:59:59.12'", pa.timestamp("us", "UTC"), dt.datetime(2024, 2, 29, 23, 59, 59, 120_000, dt.UTC)),
    "lasts": ("TIME(3)", "'-837:59:59.5'", pa.string(), "-837:59:59.500000"),
    "doc": ("JSON", "'{{\"a\": 1}}'", pa.string(), '{"a":1}'),
    "place": ("POINT SRID 4326", "ST_GeomFromText('POINT(1 -2)', 4326)", pa.struct([("x", pa.float64()), ("y", pa.float64()), ("wkb", pa.binary()), ("srid", pa.int32())]), {"x": -2.0, "y": 1.0, "wkb": POINT, "srid": 4326}),
}  # fmt: skip


@pytest.fixture
def lab(
    mysql: MySqlServer, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AuditedTable:
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(tmp_path))
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_AUDIT_DATABASE", mysql.url)
    monkeypatch.setenv("TIDINGS_SOURCE", "shop")
    return AuditedTable(mysql, unique_name, tmp_path, TYPES)


def last_number(lab: AuditedTable) -> int:
    """Of the last commit."""
    ((number,),) = lab.sql(LAST)
    return int(number)


def test_values_are_compared_as_the_lake_shows_them(
    lab: AuditedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong but what was planted: in each column, and of a key that a collation takes for another one."""
    planted = {("missing", "y", ()), ("extra", "Y", ())}
    lab.rows[24]["id"] = "Y"
    other = struct.pack("<BI2d", 1, 1, 1.0, -2.0)
    wrong: dict[str, Any] = {
        "wide": -2, "filled": 8, "yes": False, "floating": 0.10000000000000002, "written": "-1.501", "large": "101",
        "single": 0.10000001, "latin": "Zoë", "quoted": "it's", "zero_day": dt.date(1970, 1, 2), "half_day": dt.date(2020, 2, 1),
        "old": dt.datetime(1001, 1, 1), "raw": b"\x00", "negative": 0.1e-300, "bits": b"\xff\x03", "kind": "a",  # noqa: DTZ001
        "lasts": "-837:59:59.500001", "place": {"x": -2.0, "y": 1.0, "wkb": other, "srid": 4326},
    }  # fmt: skip
    for row, (column, value) in zip(lab.rows, wrong.items(), strict=False):
        row[column] = value
        planted.add(("different", row["id"], (column,)))
    code, result = lab.audit(capsys, commit_position(last_number(lab)))
    found = {(one["kind"], one["key"]["id"], tuple(one["columns"])) for one in result["findings"]}
    assert (code, found, result["skipped"], result["ranges"]) == (3, planted, ["doc"], 3)


def test_rows_in_flux_are_not_reported(lab: AuditedTable, capsys: pytest.CaptureFixture[str]) -> None:
    """A change by a commit behind the last one that is complete, and a watermark that has not come to the last one."""
    last = last_number(lab)
    lab.rows[1]["filled"] = lab.rows[2]["filled"] = 8
    lab.changes = [(last + 1, "b"), (last, "c")]
    code, result = lab.audit(capsys, commit_position(last))
    assert (code, [one["key"]["id"] for one in result["findings"]]) == (3, ["c"])


def test_rows_that_the_watermark_has_not_passed_are_undecided(
    lab: AuditedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.rows[1]["filled"] = 8
    code, result = lab.audit(capsys, commit_position(last_number(lab)) - 1)
    assert (code, result["findings"], result["undecided"]) == (0, [], 1)


def test_a_commit_that_readers_do_not_see_yet_is_waited_for(
    lab: AuditedTable, mysql: MySqlServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the log, and so in the lake, and a semi-synchronous replica does not answer."""
    lab.sql(
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_timeout = 3000",
        "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    )
    other = pymysql.connect(
        host="127.0.0.1", port=mysql.port, user="admin", password=mysql.password, autocommit=True
    )

    def delete() -> None:
        with other.cursor() as cursor:
            cursor.execute(f"DELETE FROM {lab.name}.things WHERE id = 'b'")

    deletion = threading.Thread(target=delete)
    before = last_number(lab)
    try:
        deletion.start()
        deadline = time.monotonic() + 20
        while (last := last_number(lab)) == before:
            assert time.monotonic() < deadline, "the deletion is not logged"
        ((count,),) = lab.sql("SELECT COUNT(*) FROM things WHERE id = 'b'")
        assert count == 1, "the deletion is seen before it is acknowledged: this shows nothing"
        del lab.rows[1]
        lab.changes = [(last, "b")]
        monkeypatch.setattr(audited_mysql, "_UNDER_WAY_SECONDS", 0.1)
        with pytest.raises(AssertionError, match="a commit has been under way in the database"):
            lab.audit(capsys, commit_position(last))
        monkeypatch.undo()
    finally:
        deletion.join()
        other.close()
        lab.sql("UNINSTALL PLUGIN rpl_semi_sync_source")


def test_what_does_not_tell_its_commits_is_refused(
    lab: AuditedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.sql("TRUNCATE TABLE performance_schema.binary_log_transaction_compression_stats")
    lab.rows[1]["filled"] = 8
    with pytest.raises(AssertionError, match="has logged no transaction since it was started"):
        lab.audit(capsys, 1)
