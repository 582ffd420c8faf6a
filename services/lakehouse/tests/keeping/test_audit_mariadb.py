"""`tidings-lakehouse audit` on a real MariaDB: what other options of the connector make of values, and when a row is in flux.

All types as they are by default, from a real capture, are in `decoding/test_mariadb_lake.py`.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from lakelab.audited import TYPES_OF_BOTH, WRONG, AuditedTable

from tidings_envelope.gtid import ROWS
from tidings_lakehouse.auditing.binlog_columns import MariaDbColumn
from tidings_lakehouse.auditing.mariadb import _position
from tidings_lakehouse.cli import main
from tidings_lakehouse.errors import AuditError
from tidings_stack.mariadb import MariaDbServer

pytestmark = pytest.mark.stack
POINT = struct.pack("<BI2d", 1, 1, 1.0, -2.0)
FAR = (1 << 38) * ROWS
TYPES = TYPES_OF_BOTH | {
    "lasts": ("TIME(3)", "'-838:59:59.5'", pa.string(), "-838:59:59.500000"),
    "doc": ("JSON", "'{{\"a\": [1, \"ü\"]}}'", pa.string(), '{"a": [1, "ü"]}'),
    "place": ("POINT", "ST_GeomFromText('POINT(1 -2)')", pa.struct([("x", pa.float64()), ("y", pa.float64()), ("wkb", pa.binary()), ("srid", pa.int32())]), {"x": 1.0, "y": -2.0, "wkb": POINT, "srid": None}),
    "mark": ("UUID", "'6ccd780c-baba-1026-9564-5b8c656024db'", pa.string(), "6ccd780c-baba-1026-9564-5b8c656024db"),
    "address": ("INET6", "'2001:db8::ff'", pa.string(), "2001:db8::ff"),
}  # fmt: skip


@pytest.fixture
def lab(
    mariadb: MariaDbServer, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AuditedTable:
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(tmp_path))
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_AUDIT_DATABASE", f"{mariadb.url}?sslmode=disable")
    monkeypatch.setenv("TIDINGS_SOURCE", "shop")
    return AuditedTable(mariadb, unique_name, tmp_path, TYPES)


def test_values_are_compared_as_the_lake_shows_them(
    lab: AuditedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is wrong but what was planted: in each column, and of a key that a collation takes for another one."""
    planted = lab.plant(WRONG)
    code, result = lab.audit(capsys, FAR)
    found = {(one["kind"], one["key"]["id"], tuple(one["columns"])) for one in result["findings"]}
    assert (code, found, result["skipped"], result["ranges"]) == (3, planted, [], 3)


def test_rows_in_flux_are_not_reported(lab: AuditedTable, capsys: pytest.CaptureFixture[str]) -> None:
    """A change that the snapshot does not show, and one that the watermark has not passed."""
    ((gtid,),) = lab.sql("SELECT @@gtid_binlog_pos")
    last = int(gtid.split("-")[-1])
    lab.rows[1]["filled"] = lab.rows[2]["filled"] = 8
    lab.changes = [(last + 1_000_000, "b"), (last, "c")]
    code, result = lab.audit(capsys, watermark=FAR)
    assert (code, [one["key"]["id"] for one in result["findings"]]) == (3, ["c"])


def test_a_statement_that_takes_too_long_is_given_up(
    lab: AuditedTable, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.rows[1]["filled"] = 8
    code, result = lab.audit(capsys, watermark=1)
    assert (code, result["findings"], result["undecided"]) == (0, [], 1)
    lab.sql("LOCK TABLES things WRITE")
    assert main(["audit", "--timeout", "0.2"]) == 1
    assert "a statement took longer than its time limit" in capsys.readouterr().err


def test_what_is_not_a_position_or_a_database_is_refused_by_name(
    lab: AuditedTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _position("0-2-7", None).commit_position == 7 * ROWS
    assert _position("", 0).commit_position == 0
    assert _position("7-1-200,0-1-5", 0).commit_position == 5 * ROWS
    with pytest.raises(AuditError, match="replication domains 0, 7"):
        _position("0-1-5,7-1-2", None)
    assert lab.audit(capsys, FAR)[0] == 0
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_AUDIT_DATABASE", "mariadb://u:secret@h/?sslmode=maybe")
    assert main(["audit"]) != 0
    told = capsys.readouterr().err
    assert "TIDINGS_LAKEHOUSE_AUDIT_DATABASE is not a URL of a MariaDB or a MySQL" in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("column", "lake_type", "compared", "written"),
    [
        (MariaDbColumn("k", "bigint", "bigint(20) unsigned", nullable=False), "BIGINT", "-1", "18446744073709551615"),
        (MariaDbColumn("k", "bit", "bit(12)", nullable=False, bits=12), "BLOB", "fe03", "1022"),
        (MariaDbColumn("k", "date", "date", nullable=False), "DATE", "-1", "1969-12-31"),
        (MariaDbColumn("k", "timestamp", "timestamp(6)", nullable=False), "TIMESTAMP WITH TIME ZONE", "1000001", "1970-01-01 00:00:01.000001"),
        (MariaDbColumn("k", "double", "double", nullable=False), "DOUBLE", f"{0x3FB999999999999A:064b}", "0.1"),
    ],
)  # fmt: skip
def test_a_key_is_written_as_capture_reads_it(
    column: MariaDbColumn, lake_type: str, compared: str, written: str
) -> None:
    found = column.compared("k", lake_type)
    assert found is not None
    assert found.written(compared) == written
