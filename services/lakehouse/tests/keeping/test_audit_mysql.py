"""`tidings-lakehouse audit` on a real MySQL: values as the lake shows them, when a row is in flux, and what is refused."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from lakelab.audited import TYPES_OF_BOTH, WRONG, AuditedTable, connect

from tidings_envelope.commit_number import commit_position
from tidings_lakehouse.auditing import mysql as audited_mysql
from tidings_stack.mysql import MySqlServer
from tidings_stack.waiting import wait_for

pytestmark = pytest.mark.stack
POINT = struct.pack("<BI2d", 1, 1, -2.0, 1.0)
"""Longitude and latitude, as the log has it."""
TYPES = TYPES_OF_BOTH | {
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
    ((number,),) = lab.sql(audited_mysql._LAST)
    return int(number)


def test_values_are_compared_as_the_lake_shows_them(
    lab: AuditedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong but what was planted: in each column, and of a key that a collation takes for another one."""
    other = struct.pack("<BI2d", 1, 1, 1.0, -2.0)
    more = {
        "bits": b"\xff\x03", "kind": "a", "lasts": "-837:59:59.500001",
        "place": {"x": -2.0, "y": 1.0, "wkb": other, "srid": 4326},
    }  # fmt: skip
    planted = lab.plant(WRONG | more)
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
        "SET GLOBAL rpl_semi_sync_source_timeout = 200000",
        "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    )
    other = connect(mysql)

    def delete() -> None:
        with other.cursor() as cursor:
            cursor.execute(f"DELETE FROM {lab.name}.things WHERE id = 'b'")

    deletion = threading.Thread(target=delete)
    before = last_number(lab)
    try:
        deletion.start()
        last = wait_for("the deletion in the log", lambda: (now := last_number(lab)) != before and now, 20)
        ((count,),) = lab.sql("SELECT COUNT(*) FROM things WHERE id = 'b'")
        assert count == 1, "the deletion is seen before it is acknowledged: this shows nothing"
        del lab.rows[1]
        lab.changes = [(last, "b")]
        monkeypatch.setattr(audited_mysql, "_UNDER_WAY_SECONDS", 0.1)
        with pytest.raises(AssertionError, match="a commit has been under way in the database"):
            lab.audit(capsys, commit_position(last))
    finally:
        lab.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF")  # the deletion waits no longer
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
