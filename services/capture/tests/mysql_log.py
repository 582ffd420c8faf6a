"""MySQL's log as its files have it, and the rows of them."""

from collections.abc import Sequence
from typing import Any

import pymysql
from mysql_versions import version_of, written_for

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.events import Event, EventReader
from tidings_capture.mysql.binlog.logged import decoder
from tidings_capture.mysql.binlog.row_code import TableRows, read_rows_event
from tidings_capture.mysql.binlog.table_map import TableMap, read_table_map, table_id
from tidings_stack.mysql import MySqlServer

MAGIC = b"\xfebin"


class Charsets:
    """Of the collations that the tests use."""

    def __init__(self, names: dict[int, str]) -> None:
        self._names = names

    def decoder(self, collation: int) -> Any:
        codec = {"utf8mb4": "utf-8", "latin1": "cp1252", "ascii": "ascii", "gbk": "gbk"}[
            self._names[collation]
        ]
        return lambda data: data.decode(codec)


class LoggedDatabase:
    """A database of a test's own, and what the log has of it."""

    def __init__(self, server: MySqlServer, name: str) -> None:
        self.name = name
        self._data = server.data
        self._connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="admin", password=server.password, autocommit=True
        )
        self.version = (0, 0)
        ((text,),) = self.run("SELECT VERSION()")
        self.version = version_of(text)
        self.run(f"CREATE DATABASE {name}", f"USE {name}")
        collations = self.run("SELECT id, character_set_name FROM information_schema.collations")
        self.charsets = Charsets({int(number): text for number, text in collations})

    def run(self, *statements: str) -> tuple[tuple[Any, ...], ...]:
        """The last one's rows."""
        rows: tuple[tuple[Any, ...], ...] = ()
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(written_for(self.version, statement))
                rows = tuple(cursor.fetchall())
        return rows

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Of a statement, each value as a text, as the connector's own session has them."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(values))
            return [
                tuple(None if v is None else v.decode() if isinstance(v, bytes) else str(v) for v in row)
                for row in cursor.fetchall()
            ]

    def place(self) -> tuple[str, int]:
        """File and byte where the log ends."""
        ((file, position, *_),) = self.run("SHOW BINARY LOG STATUS")
        return str(file), int(position)

    def events(self, start: tuple[str, int]) -> list[Event]:
        """Those behind a place, which is in the newest file."""
        file, at = start
        data, reader, found = (self._data / file).read_bytes(), EventReader(), []
        assert data.startswith(MAGIC)
        while at < len(data):
            size = int.from_bytes(data[at + 9 : at + 13], "little")
            found.append(reader.read(data[at : at + size]))
            at += size
        return found

    def tables(self, start: tuple[str, int]) -> list[TableMap]:
        """The tables that rows behind a place are of."""
        return [
            read_table_map(event, by_mysql=True)
            for event in self.events(start)
            if event.type == log.TABLE_MAP
        ]

    def changes(self, start: tuple[str, int]) -> list[tuple[str, dict[str, Any]]]:
        """Operation and cells of each row behind a place; of an update before and after, by turns."""
        tables: dict[int, TableRows] = {}
        found = []
        for event in self.events(start):
            if event.type == log.TABLE_MAP:
                mapped = read_table_map(event, by_mysql=True)
                decoders = [decoder(column, "", self.charsets) for column in mapped.columns]  # type: ignore[arg-type]
                tables[mapped.id] = TableRows(mapped, decoders)
            elif event.type in log.ROWS:
                reads, rows = tables[table_id(event)], read_rows_event(event)
                names = [column.name for column in reads.table.columns]
                found += [
                    (rows.op, dict(zip(names, cells, strict=True))) for cells in reads.read(rows, "here")
                ]
        return found

    def close(self) -> None:
        self.run(f"DROP DATABASE {self.name}")
        self._connection.close()
