"""A table of MariaDB or MySQL, and a lake that has the same, for audits."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from lakelab.plain_lake import write_lake
from tidings_lakehouse.cli import main
from tidings_stack.mariadb import MySqlLikeServer

Types = Mapping[str, tuple[str, str, pa.DataType, Any]]
"""By column: its type, its value in SQL, its type in the lake, its value there. ``{}`` is the key."""
TYPES_OF_BOTH: Types = {
    "id": ("VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY", "'{}'", pa.string(), None),
    "wide": ("BIGINT UNSIGNED", "18446744073709551615", pa.int64(), -1),
    "filled": ("INT(9) ZEROFILL", "7", pa.int64(), 7),
    "yes": ("TINYINT(1)", "1", pa.bool_(), True),
    "floating": ("DECIMAL(12,3)", "0.1", pa.float64(), 0.1),
    "written": ("DECIMAL(12,3)", "-1.5", pa.string(), "-1.500"),
    "none": ("DECIMAL(12,3)", "0", pa.decimal128(12, 3), 0),
    "large": ("DECIMAL(40,0)", "100", pa.string(), "100"),
    "single": ("FLOAT", "0.1", pa.float32(), 0.1),
    "rounded": ("FLOAT(7,3)", "1.5", pa.float64(), 1.5),
    "negative": ("DOUBLE", "-0.1e-300", pa.float64(), -0.1e-300),
    "latin": ("VARCHAR(9) CHARACTER SET latin1", "'Zoë '", pa.string(), "Zoë "),
    "cyrillic": ("CHAR(9) CHARACTER SET cp1251", "'Ж'", pa.string(), "Ж"),
    "quoted": ("TEXT", "'it''s \\\\'", pa.string(), "it's \\"),
    "zero_day": ("DATE NOT NULL", "'0000-00-00'", pa.date32(), dt.date(1970, 1, 1)),
    "half_day": ("DATE", "'2020-02-00'", pa.date32(), None),
    "old": ("DATETIME(6)", "'1001-01-01 00:00:00.000001'", pa.timestamp("us"), dt.datetime(1001, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001
    "zero_stamp": ("TIMESTAMP NOT NULL DEFAULT 0", "'0000-00-00'", pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    "raw": ("BLOB", "X'00FF'", pa.binary(), b"\x00\xff"),
    "hollow": ("VARBINARY(9)", "''", pa.binary(), b""),
    "born": ("YEAR", "0", pa.int32(), 0),
    "kind": ("ENUM('a','b,c')", "'b,c'", pa.string(), "b,c"),
    "marks": ("SET('x','y','z')", "'x,z'", pa.string(), "x,z"),
    "bits": ("BIT(10)", "1022", pa.binary(), b"\xfe\x03"),
    "flag": ("BIT(1)", "1", pa.bool_(), True),
    "huge": ("DECIMAL(50,2)", "9" * 48 + ".99", pa.string(), "9" * 48 + ".99"),
    "stamp": ("TIMESTAMP(3) NULL", "'2024-02-29 23:59:59.12'", pa.timestamp("us", "UTC"), dt.datetime(2024, 2, 29, 23, 59, 59, 120_000, dt.UTC)),
}  # fmt: skip
"""Of which both servers have the same."""
WRONG: Mapping[str, Any] = {
    "wide": -2, "filled": 8, "yes": False, "floating": 0.10000000000000002, "written": "-1.501", "large": "101",
    "single": 0.10000001, "latin": "Zoë", "quoted": "it's", "zero_day": dt.date(1970, 1, 2), "half_day": dt.date(2020, 2, 1),
    "old": dt.datetime(1001, 1, 1), "raw": b"\x00", "negative": 0.1e-300,  # noqa: DTZ001
}  # fmt: skip
"""Values that the database has not."""


def connect(server: MySqlLikeServer) -> pymysql.Connection[Any]:
    """The superuser's connection."""
    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user="admin",
        password=server.password,
        autocommit=True,
        charset="utf8mb4",
    )


class AuditedTable:
    """A table `things` with rows `a` to `z`, and a lake that has the same."""

    def __init__(self, server: MySqlLikeServer, name: str, directory: Path, types: Types) -> None:
        self.name, self.directory, self._types = name, directory, types
        self.connection = connect(server)
        self.sql("SET sql_mode = '', time_zone = '+00:00'", f"CREATE DATABASE {name}", f"USE {name}")
        self.sql(f"CREATE TABLE things ({', '.join(f'{c} {kind}' for c, (kind, *_) in types.items())})")
        keys = [chr(97 + number) for number in range(26)]
        values = ", ".join(value for _, value, *_ in types.values())
        self.sql(f"INSERT INTO things VALUES {', '.join(f'({values.format(key)})' for key in keys)}")
        self.rows = [{c: value for c, (_, _, _, value) in types.items()} | {"id": key} for key in keys]
        nullable = [c for c, (kind, *_) in types.items() if not {"KEY", "NOT"} & set(kind.split())]
        self.sql(f"UPDATE things SET {', '.join(f'{c} = NULL' for c in nullable)} WHERE id = 'z'")
        self.rows[-1] |= dict.fromkeys(nullable)
        self.changes: list[tuple[int, object]] = [(1, "a")]

    def sql(self, *statements: str) -> Any:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def plant(self, wrong: Mapping[str, Any]) -> set[tuple[str, str, tuple[str, ...]]]:
        """Give the lake a wrong value in a row for each of these columns, and a wrong key; what an audit is to find."""
        for row, (column, value) in zip(self.rows, wrong.items(), strict=False):
            row[column] = value
        found = {("different", row["id"], (column,)) for row, column in zip(self.rows, wrong, strict=False)}
        self.rows[24]["id"] = "Y"
        return found | {("missing", "y", ()), ("extra", "Y", ())}

    def audit(self, capsys: pytest.CaptureFixture[str], watermark: int) -> tuple[int, dict[str, Any]]:
        state = pa.Table.from_pylist(
            self.rows, pa.schema([(c, kind) for c, (_, _, kind, _) in self._types.items()])
        )
        topic = f"shop.{self.name}.things"
        write_lake(self.directory, "things", topic, state, self.changes, watermark=watermark)
        code = main(["audit", "--json", "--pause", "0", "--range-rows", "10", "--wait", "0"])
        told = capsys.readouterr()
        assert told.out, told.err
        return code, json.loads(told.out)
