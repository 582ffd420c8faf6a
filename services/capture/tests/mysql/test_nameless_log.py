"""MySQL's log as it is by default (``binlog_row_metadata=MINIMAL``): it does not name columns."""

import pytest
from mariadb_worker import Config, changes, topic
from mysql_parts import MySqlDatabase
from nameless_log import NamelessLog

from tidings_connect.testing.memory_worker import MemoryWorker

KINDS = """
CREATE TABLE kinds (
 id INT PRIMARY KEY AUTO_INCREMENT, tiu TINYINT UNSIGNED, mi MEDIUMINT, biu BIGINT UNSIGNED, f FLOAT, de DECIMAL(20,5), b12 BIT(12), y YEAR,
 tm TIME(3), dt DATETIME(6), ts TIMESTAMP(3) NULL, c CHAR(5) COLLATE utf8mb4_ja_0900_as_cs, la VARCHAR(20) CHARACTER SET latin1, bn BINARY(4),
 tx TEXT, bl BLOB, e ENUM('a','ö'), s SET('x','y','z'), js JSON, g GEOMETRY, v VECTOR(3), hidden INT INVISIBLE, stor INT AS (mi + 2) STORED,
 KEY ((CONCAT(la, 'x'))))"""
ROW = (
    "INSERT INTO kinds (tiu, mi, biu, f, de, b12, y, tm, dt, ts, c, la, bn, tx, bl, e, s, js, g, v, hidden) VALUES (255, -5,"
    " 18446744073709551615, 1.5, -12345.5, b'101', 2155, '-838:59:58.5', '1000-01-01 00:00:00.000001', '2026-01-02 03:04:05.67', 'あ',"
    " 'é€', 'ab', 'text', x'00ff', 'ö', 'x,z', '{\"a\": [1.5]}', ST_GeomFromText('LINESTRING(0 0,1 1)'), STRING_TO_VECTOR('[1,2.5,-3]'), 7)"
)


class TestNamelessLog(NamelessLog):
    values = ("MINIMAL",)

    @pytest.fixture(params=values)
    def value(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_every_type_is_as_in_the_snapshot(
        self, database: MySqlDatabase, config: Config, worker: MemoryWorker, nameless: None
    ) -> None:
        database.run(KINDS, ROW, "INSERT INTO kinds (id) VALUES (2)")
        worker.put(config)
        kinds = topic(database, "kinds")
        worker.wait_for(lambda: len(changes(worker, kinds)) == 2, "the snapshot")
        database.run("DELETE FROM kinds")
        worker.wait_for(lambda: len(changes(worker, kinds)) == 6, "the changes")
        found = changes(worker, kinds)
        read = [after for op, _, after in found if op == "r"]
        read[0]["js"] = read[0]["js"].replace(
            " ", ""
        )  # the server's own text, as Debezium tells it in a snapshot
        assert [before for op, before, _ in found if op == "d"] == read
