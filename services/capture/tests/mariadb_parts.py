"""What the tests of MariaDB's connector share: a database of their own, and the rows that its binary log holds."""

import re
import time
from collections.abc import Iterator
from typing import Any

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.binlog.logged import decoder, fits
from tidings_capture.mysql.binlog.row_code import TableRows, read_rows_event
from tidings_capture.mysql.binlog.table_map import read_table_map, table_id
from tidings_capture.mysql.client import BinlogStream, Endpoint, Session
from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_capture.mysql.encoding.selected import expression, quoted, reader
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.schemas.catalog import Charsets, Table, table
from tidings_stack.mariadb import MySqlLikeServer

SERVER_ID = 90_001
EVERY_TYPE = """
CREATE TABLE kinds (
 id INT PRIMARY KEY AUTO_INCREMENT,
 ti TINYINT, tiu TINYINT UNSIGNED, bo BOOLEAN NOT NULL DEFAULT TRUE, si SMALLINT, siu SMALLINT UNSIGNED, mi MEDIUMINT,
 miu MEDIUMINT UNSIGNED, i INT, iu INT UNSIGNED, bi BIGINT, biu BIGINT UNSIGNED, iz INT(5) UNSIGNED ZEROFILL,
 f FLOAT, d DOUBLE, du DOUBLE(10,2) UNSIGNED, de DECIMAL(10,2), dl DECIMAL(65,30), dw DECIMAL(5,0), nu NUMERIC(20,5) UNSIGNED,
 b1 BIT(1), b5 BIT(5), b12 BIT(12), b64 BIT(64), y YEAR, da DATE,
 tm TIME, tm1 TIME(1), tm3 TIME(3), tm6 TIME(6), dt DATETIME, dt2 DATETIME(2), dt3 DATETIME(3), dt6 DATETIME(6),
 ts TIMESTAMP NULL, ts3 TIMESTAMP(3) NULL, ts6 TIMESTAMP(6) NULL,
 c CHAR(5), cl CHAR(250), vc VARCHAR(20), vl VARCHAR(2000), vlat VARCHAR(20) CHARACTER SET latin1, v16 VARCHAR(20) CHARACTER SET utf16,
 vb VARBINARY(20), bn BINARY(4), tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT, tl TEXT CHARACTER SET cp1251,
 tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB, e ENUM('a','b,c','d''e'), el ENUM('ä','b') CHARACTER SET latin1,
 s SET('x','y','z'), js JSON, g GEOMETRY, p POINT, vg VARCHAR(20) CHARACTER SET latin1, i6 INET6, i4 INET4, u UUID, b16 BINARY(16), vz VARCHAR(300) COMPRESSED,
 bz BLOB COMPRESSED, last INT UNSIGNED
)"""


def endpoint(server: MySqlLikeServer) -> Endpoint:
    """Of its superuser."""
    return Endpoint("127.0.0.1", server.port, "admin", server.password)


def connector_options(server: MySqlLikeServer, database: str) -> dict[str, str]:
    """Of a connector that captures one database as its superuser, under the prefix ``p``."""
    kind = MySqlConnector if server.name == "mysql" else MariaDbConnector
    return {
        "connector.class": kind.class_name,
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "admin",
        "database.password": server.password,
        "database.include.list": database,
        "topic.prefix": "p",
        "include.schema.changes": "false",
    }


class Database:
    """A database of a test's own."""

    def __init__(self, server: MySqlLikeServer, name: str) -> None:
        self.endpoint = endpoint(server)
        self.name = name
        self.session = Session(self.endpoint)
        self.run(f"CREATE DATABASE {name}", f"USE {name}")

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """The last one's rows."""
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            rows = self.session.rows(self._written(statement))
        return rows

    def _written(self, statement: str) -> str:
        """As a server takes it that is older than the pinned one (`TIDINGS_STACK_MARIADB_HOME`): types are what they are shown as."""
        if not self.session.shares_collations and statement.lstrip().startswith(
            ("CREATE TABLE", "ALTER TABLE")
        ):
            for kind, former in (("UUID", "CHAR(36)"), ("INET4", "CHAR(15)")):
                statement = re.sub(rf"(?<=[\w`] ){kind}\b(?!\()", former, statement)
        return statement

    def position(self) -> GtidPosition:
        """The end of the log."""
        ((text,),) = self.run("SELECT @@gtid_binlog_pos")
        return GtidPosition.read(text)

    def table(self, name: str) -> Table:
        found = table(self.session, self.name, name)
        assert found is not None
        return found

    def selected(self, name: str) -> list[tuple[Any, ...]]:
        """A table's cells as a snapshot reads them, in the order of its first column."""
        found = self.table(name)
        columns = ", ".join(expression(column) for column in found.columns)
        reads = [reader(column) for column in found.columns]
        rows = self.run(f"SELECT {columns} FROM {quoted(name)} ORDER BY 1")
        return [
            tuple(None if v is None else read(v) for v, read in zip(row, reads, strict=True)) for row in rows
        ]

    def events(self, start: GtidPosition) -> Iterator[log.Event]:
        """Those behind a position, up to the present end."""
        end = self.position()
        stream = BinlogStream(
            self.endpoint, MARIADB.request(start, SERVER_ID, annotations=False, heartbeat_seconds=1)
        )
        reader_of_events, at, deadline = log.EventReader(), start, time.monotonic() + 60
        current = None
        try:
            while at != end:
                assert time.monotonic() < deadline
                for packet in stream.packets():
                    event = reader_of_events.read(packet)
                    yield event
                    if event.type == log.GTID:
                        current = log.read_gtid(event).gtid
                    elif event.type in {log.XID, log.QUERY, log.QUERY_COMPRESSED} and current is not None:
                        at = at.after(current)
                    if at == end:
                        break
                time.sleep(0.01)
        finally:
            stream.close()

    def read_until_error(self, start: GtidPosition) -> Iterator[bytes]:
        """Packets, until the server refuses to send more."""
        stream = BinlogStream(
            self.endpoint, MARIADB.request(start, SERVER_ID, annotations=False, heartbeat_seconds=1)
        )
        deadline = time.monotonic() + 30
        try:
            while time.monotonic() < deadline:
                yield from stream.packets()
                time.sleep(0.01)
        finally:
            stream.close()

    def logged(self, start: GtidPosition) -> list[tuple[str, tuple[Any, ...]]]:
        """Operation and cells of each row behind a position, by the tables as they are now."""
        charsets = Charsets(self.session)
        tables: dict[int, TableRows] = {}
        found = []
        for event in self.events(start):
            if event.type == log.TABLE_MAP:
                mapped = read_table_map(event, by_mysql=False)
                now = self.table(mapped.table)
                assert fits(mapped.columns, now, charsets)
                kinds = [column.type for column in now.columns]
                decoders = [decoder(c, k, charsets) for c, k in zip(mapped.columns, kinds, strict=True)]
                tables[mapped.id] = TableRows(mapped, decoders)
            elif event.type in log.ROWS:
                rows = read_rows_event(event)
                found += [(rows.op, cells) for cells in tables[table_id(event)].read(rows, "here")]
        return found

    def purge(self) -> None:
        """Remove all of the log but its newest file. Connections that read it keep their file, also those that are gone."""
        for (
            number,
            *_,
        ) in self.run("SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"):
            self.run(f"KILL {number}")
        deadline = time.monotonic() + 30
        while len(self.run("SHOW BINARY LOGS")) > 1:
            assert time.monotonic() < deadline
            ((newest, *_),) = self.run("SHOW MASTER STATUS")
            self.run(f"PURGE BINARY LOGS TO '{newest}'")

    def forget_domain(self, number: int) -> None:
        """Remove what was logged in another domain than the server's own: its position, which all its users read, has two parts
        until then, and what keeps one order of commits refuses it."""
        self.run("FLUSH BINARY LOGS")
        self.purge()
        self.run(f"FLUSH BINARY LOGS DELETE_DOMAIN_ID=({number})")

    def close(self) -> None:
        self.run(f"DROP DATABASE {self.name}")
        self.session.close()
