"""A table of MariaDB or MySQL, and a lake that has the same, for audits."""

from __future__ import annotations

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


class AuditedTable:
    """A table `things` with rows `a` to `z`, and a lake that has the same."""

    def __init__(self, server: MySqlLikeServer, name: str, directory: Path, types: Types) -> None:
        self.name, self.directory, self._types = name, directory, types
        self.connection = pymysql.connect(
            host="127.0.0.1",
            port=server.port,
            user="admin",
            password=server.password,
            autocommit=True,
            charset="utf8mb4",
        )
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
