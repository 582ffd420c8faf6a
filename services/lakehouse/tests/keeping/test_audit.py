"""`tidings-lakehouse audit` names every planted error, whatever the type, and nothing else.

The database is a real PostgreSQL and the tables are real Iceberg, written by pyiceberg as the job's current state is laid out.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import struct
import threading
import time
import uuid
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from lakelab.plain_lake import write_lake
from prometheus_client import REGISTRY
from psycopg import sql

from tidings_lakehouse.auditing.postgres import PostgresServer, Visible
from tidings_lakehouse.auditing.schedule import Auditing
from tidings_lakehouse.cli import main
from tidings_lakehouse.database import connected
from tidings_lakehouse.metrics import AUDITED
from tidings_stack.waiting import wait_for

ROWS = 300
FAR = 2**62
SOURCE = "shop"
TYPES: dict[str, tuple[str, pa.DataType]] = {
    "id": ("bigint", pa.int64()),
    "small": ("smallint", pa.int32()),
    "amount": ("numeric(12,2)", pa.decimal128(12, 2)),
    "exact": ("numeric", pa.string()),
    "is_open": ("boolean", pa.bool_()),
    "note": ("text", pa.string()),
    "code": ("char(5)", pa.string()),
    "ref": ("uuid", pa.string()),
    "born": ("date", pa.date32()),
    "made": ("timestamp", pa.timestamp("us")),
    "seen": ("timestamptz", pa.timestamp("us", "UTC")),
    "ratio": ("double precision", pa.float64()),
    "rate": ("real", pa.float32()),
    "raw": ("bytea", pa.binary()),
    "at_time": ("time", pa.string()),
    "doc": ("jsonb", pa.string()),
    "mood": ("mood", pa.string()),
}

INFINITIES = ("infinity", "-infinity")
MARKS = [(f"{name}__infinite", pa.string()) for name in ("born", "made", "seen")]
"""Of infinite times, which are null in the lake by choice."""


def random_row(number: int, choose: random.Random) -> dict[str, Any]:
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=choose.randrange(10**14))
    return {
        "id": number,
        "small": choose.randrange(-30000, 30000),
        "amount": Decimal(choose.randrange(-(10**9), 10**9)) / 100,
        "exact": Decimal(choose.randrange(10**20)).scaleb(-7),
        "is_open": choose.random() < 0.5,
        "note": choose.choice(["", "naïve 日本", "it's", "a|b", "n", "x" * 50]) + str(number),
        "code": choose.choice(["ab", "abcde"]),
        "ref": uuid.UUID(int=choose.getrandbits(128)),
        "born": dt.date(1800, 1, 1) + dt.timedelta(days=choose.randrange(120_000)),
        "made": moment.replace(tzinfo=None),
        "seen": moment,
        "ratio": choose.choice([choose.uniform(-1e9, 1e9), 1e300, -0.0, 1e-320]),
        "rate": struct.unpack("f", struct.pack("f", choose.uniform(-1e3, 1e3)))[0],
        "raw": choose.randbytes(8),
        "at_time": moment.time(),
        "doc": json.dumps({"a": number}),
        "mood": choose.choice(["good", "bad"]),
    }


def in_lake(row: dict[str, Any]) -> dict[str, Any]:
    """A row as the job writes it."""
    changed = {
        "exact": lambda value: format(value, "f"),
        "code": lambda value: value.ljust(5),
        "ref": str,
        "at_time": lambda value: value.strftime("%H:%M:%S.%f"),
    }
    infinite = {name: value for name, value in row.items() if value in INFINITIES}
    finite = row | dict.fromkeys(infinite)
    return {
        name: value if value is None else changed.get(name, lambda v: v)(value)
        for name, value in finite.items()
    } | {f"{name}__infinite": value for name, value in infinite.items()}


def slightly_other(name: str, value: Any) -> Any:
    """The least that can be wrong with a value of the lake."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        if name == "rate":
            bits = struct.unpack("i", struct.pack("f", value))[0]
            return struct.unpack("f", struct.pack("i", bits ^ 1))[0]
        return math.nextafter(value, 0.0) if value else 0.0 if math.copysign(1, value) < 0 else -0.0
    if isinstance(value, int):
        return value + 1
    if isinstance(value, Decimal):
        return value + Decimal("0.01")
    if isinstance(value, dt.datetime):
        return value + dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value + dt.timedelta(days=1)
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    last = value.rstrip()[-1]
    return value.rstrip()[:-1] + ("1" if last != "1" else "2")


class AuditLab:
    """`shop.things` in PostgreSQL and in a lake."""

    def __init__(self, database: str, directory: Path, rows: list[dict[str, Any]]) -> None:
        self.database, self.directory = database, directory
        self.rows = [in_lake(row) for row in rows]
        self.log: list[tuple[int, int]] = []
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
            columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
            connection.execute(f"CREATE TABLE things ({columns}, PRIMARY KEY (id))")  # type: ignore[arg-type]
            marks = ", ".join(f"%s::{kind}" for kind, _ in TYPES.values())
            with connection.cursor() as cursor:
                cursor.executemany(
                    f"INSERT INTO things VALUES ({marks})",  # type: ignore[arg-type]
                    [[row[name] for name in TYPES] for row in rows],
                )

    def write(self, watermark: int = FAR) -> None:
        """Write the lake."""
        state = pa.Table.from_pylist(
            self.rows, pa.schema([(name, kind) for name, (_, kind) in TYPES.items()] + MARKS)
        )
        write_lake(
            self.directory,
            "things",
            "shop.public.things",
            state,
            [(3, 0), *self.log],
            watermark=watermark,
        )

    def audit(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
        code = main(["audit", "--json", "--pause", "0", "--range-rows", "60", "--wait", "1", *arguments])
        told = capsys.readouterr()
        assert told.out, told.err
        (line,) = told.out.splitlines()
        return code, json.loads(line)


@pytest.fixture
def lab(pg_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditLab:
    choose = random.Random(7)
    rows = [random_row(number, choose) for number in range(ROWS)]
    for row in rows[250:]:
        for name in choose.sample([name for name in TYPES if name != "id"], 4):
            row[name] = None
    for number, row in enumerate(rows[220:226]):
        row[("born", "made", "seen")[number % 3]] = INFINITIES[number // 3]
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_WAREHOUSE", str(tmp_path))
    monkeypatch.setenv("TIDINGS_LAKEHOUSE_AUDIT_DATABASE", pg_database)
    monkeypatch.setenv("TIDINGS_SOURCE", SOURCE)
    return AuditLab(pg_database, tmp_path, rows)


@pytest.mark.stack
def test_a_table_is_not_written_anew_between_a_snapshot_and_its_look(pg_database: str) -> None:
    """It would look empty, and a repair would take the rows of the lake for too much."""
    with psycopg.connect(pg_database, autocommit=True) as writer:
        writer.execute("CREATE TABLE t AS SELECT 1 AS id")
        writer.execute("SET lock_timeout = '300ms'")

        def look() -> list[tuple[Any, ...]]:
            with suppress(psycopg.errors.LockNotAvailable):
                writer.execute("ALTER TABLE t ALTER id TYPE bigint")
            return server.read("SELECT id FROM t")

        with connected("DATABASE", pg_database) as connection:
            server = PostgresServer(connection, timeout=60)
            _, found, _ = server.in_snapshot(server.name("public", "t"), look)
        assert found == [(1,)]
        writer.execute("ALTER TABLE t ALTER id TYPE bigint")


@pytest.mark.stack
def test_who_may_read_columns_alone_may_look(pg_database: str) -> None:
    with psycopg.connect(pg_database, autocommit=True) as owner:
        role = f"reader_{uuid.uuid4().hex[:8]}"
        owner.execute("CREATE TABLE t AS SELECT 1 AS id, 2 AS secret")
        owner.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        owner.execute(sql.SQL("GRANT SELECT (id) ON t TO {}").format(sql.Identifier(role)))
        try:
            with connected("DATABASE", pg_database, options=f"-c role={role}") as connection:
                server = PostgresServer(connection, timeout=60)
                _, found, _ = server.in_snapshot(
                    server.name("public", "t"), lambda: server.read("SELECT id FROM t")
                )
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {0}").format(sql.Identifier(role)))
            owner.execute(sql.SQL("DROP ROLE {0}").format(sql.Identifier(role)))
    assert found == [(1,)]


@pytest.mark.stack
def test_a_sound_lake_has_nothing_wrong(
    lab: AuditLab, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lab.write()
    metrics = tmp_path / "audit.prom"
    code, result = lab.audit(capsys, "--metrics-file", str(metrics))
    assert (code, result["rows"], result["ranges"], result["findings"], result["skipped"]) == (
        0,
        ROWS,
        6,
        [],
        [],
    )
    assert 'tidings_lakehouse_audit_wrong_rows{table="technical.things"} 0.0' in metrics.read_text()


@pytest.mark.stack
def test_every_planted_error_is_named(lab: AuditLab, capsys: pytest.CaptureFixture[str]) -> None:
    planted: set[tuple[str, str, tuple[str, ...]]] = set()
    others = [name for name in TYPES if name != "id"]
    for number, name in enumerate(others):
        row = lab.rows[10 + number]
        row[name] = slightly_other(name, row[name])
        planted.add(("different", str(10 + number), (name,)))
        lab.rows[40 + number][name] = None
        planted.add(("different", str(40 + number), (name,)))
    stale = lab.rows[80] | {
        name: slightly_other(name, lab.rows[80][name]) for name in ("small", "note", "seen")
    }
    lab.rows[80] = stale
    planted.add(("different", "80", ("small", "note", "seen")))
    for number in range(250, 255):
        name = next(name for name in others if lab.rows[number][name] is None)
        lab.rows[number][name] = next(row[name] for row in lab.rows if row[name] is not None)
        planted.add(("different", str(number), (name,)))
    lab.rows[221].pop("made__infinite")
    lab.rows[223]["born__infinite"] = "infinity"
    planted |= {("different", "221", ("made",)), ("different", "223", ("born",))}
    for number in (100, 160, 299):
        lab.rows.append(dict(lab.rows[number]))
        planted.add(("doubled", str(number), ()))
    missing = {0, 59, 120, 200, 298}
    lab.rows = [row for row in lab.rows if row["id"] not in missing]
    planted |= {("missing", str(number), ()) for number in missing}
    for number in (-5, 1000, 2**40, 2**62):
        lab.rows.append(lab.rows[5] | {"id": number})
        planted.add(("extra", str(number), ()))
    assert len(planted) >= 50
    lab.write()
    code, result = lab.audit(capsys)
    found = {(one["kind"], one["key"]["id"], tuple(one["columns"])) for one in result["findings"]}
    assert found == planted
    assert (code, result["undecided"]) == (3, 0)
    assert main(["audit", "--pause", "0", "--most", "2"]) == 3
    assert f"and {len(planted) - 2} more" in capsys.readouterr().out


@pytest.mark.stack
def test_rows_in_flux_are_not_reported(lab: AuditLab, capsys: pytest.CaptureFixture[str]) -> None:
    """A transaction that the database does not show yet, and rows that the watermark has not passed."""
    with psycopg.connect(lab.database) as open_transaction:
        (tx_id,) = open_transaction.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()  # type: ignore[misc]
        lab.rows[7]["note"] = "written by it"
        lab.rows[8]["note"] = "written by nobody"
        lab.log = [(tx_id % 2**32, 7), (tx_id % 2**32 - 1, 8)]
        lab.write()
        code, result = lab.audit(capsys)
    assert code == 3
    assert [one["key"] for one in result["findings"]] == [{"id": "8"}]


@pytest.mark.stack
def test_what_the_watermark_has_not_passed_is_undecided(
    lab: AuditLab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.rows[8]["note"] = "older"
    lab.write(watermark=1)
    code, result = lab.audit(capsys)
    assert (code, result["findings"], result["undecided"]) == (0, [], 1)


@pytest.mark.stack
def test_a_statement_that_takes_too_long_is_given_up(
    lab: AuditLab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.write()
    with psycopg.connect(lab.database) as blocking:
        blocking.execute("LOCK TABLE things IN ACCESS EXCLUSIVE MODE")
        assert main(["audit", "--timeout", "0.2"]) == 1
    assert "TIDINGS_LAKEHOUSE_AUDIT_DATABASE" in capsys.readouterr().err


@pytest.mark.stack
def test_the_job_audits_beside_the_streams(lab: AuditLab, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> tuple[float | None, float | None]:
        wrong = REGISTRY.get_sample_value("tidings_lakehouse_audit_wrong_rows", {"table": "technical.things"})
        return wrong, REGISTRY.get_sample_value("tidings_lakehouse_audit_failing")

    lab.rows[8]["note"] = "written by nobody"
    lab.write()
    began = time.time()
    auditing = Auditing(0.1)
    auditing.start()
    try:
        wait_for("the first audit", lambda: AUDITED._value.get() > began, 60)
        assert shown() == (1, 0)
        monkeypatch.setenv("TIDINGS_LAKEHOUSE_AUDIT_DATABASE", "host=127.0.0.1 port=1 dbname=none")
        wait_for("an audit that fails", lambda: shown() == (1, 1), 60)
    finally:
        auditing.stop()
    assert not any(thread.name == "tidings-audit" for thread in threading.enumerate())


def test_which_transactions_a_snapshot_sees() -> None:
    visible = Visible.of("100:105:101,103")
    assert [number for number in range(98, 108) if visible.sees(number)] == [98, 99, 100, 102, 104]
    wrapped = Visible.of(f"{2**32 + 5}:{2**32 + 7}:{2**32 + 5}")
    assert [wrapped.sees(one) for one in (2**32 - 1, 4, 5, 6, 7)] == [True, True, False, True, False]
