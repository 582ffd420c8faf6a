"""What a real capture tells of a real MariaDB is in the lake as the database has it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from lakelab.captured import Captured, Past, captured
from lakelab.capturing import JSON, Auditor
from structlog.testing import capture_logs

from tidings_envelope.gtid import ROWS, gtid_of
from tidings_lakehouse.history.history import write_history
from tidings_stack.capture import CaptureWorker
from tidings_stack.mariadb import MariaDbServer
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

    from tidings_lakehouse.settings import WarehouseSettings

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(900)]
_TYPES = """
    CREATE TABLE things (
        id INT PRIMARY KEY AUTO_INCREMENT, n INT UNSIGNED NOT NULL, large BIGINT UNSIGNED, born YEAR, kind ENUM('a','b,c'),
        marks SET('x','y','z'), bits BIT(10), flag BIT(1), price DECIMAL(12,3), huge DECIMAL(50,2), ratio FLOAT, exact DOUBLE,
        day DATE, at DATETIME(6), seen TIMESTAMP(3) NULL, lasts TIME(3), doc JSON, place POINT, raw VARBINARY(20),
        name VARCHAR(50) CHARACTER SET latin1, mark UUID, address INET6)
"""
_IN_MARIADB = """
    SELECT id, n, CAST(large AS CHAR), born, kind, marks, bits + 0, flag + 0, CAST(price AS CHAR), CAST(huge AS CHAR), ratio,
        exact, DATE_FORMAT(NULLIF(day, 0), '%Y-%m-%d'), DATE_FORMAT(NULLIF(at, 0), '%Y-%m-%d %H:%i:%s.%f'),
        DATE_FORMAT(NULLIF(seen, 0), '%Y-%m-%d %H:%i:%s.%f'), CAST(CAST(lasts AS TIME(6)) AS CHAR), doc,
        HEX(ST_AsBinary(place)), HEX(raw), name, mark, address
    FROM things ORDER BY id
"""
_IN_THE_LAKE = """
    SELECT id, n, cast(large AS string), born, kind, marks, bits, cast(flag AS int), cast(price AS string), huge, ratio, exact,
        date_format(day, 'yyyy-MM-dd'), date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'),
        date_format(seen, 'yyyy-MM-dd HH:mm:ss.SSSSSS'), lasts, doc, hex(place.wkb), hex(raw), name, mark, address
    FROM technical.{name}_things ORDER BY id
"""
_BITS = 6
"""Place of the column whose bytes begin with the least."""


class Server:
    """A connection to the server."""

    def __init__(self, server: MariaDbServer) -> None:
        self._connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="admin", password=server.password, autocommit=True
        )

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())


class Store(Server):
    """A database with a table of all types and one that changes much, and a writer of random transactions."""

    def __init__(self, server: MariaDbServer, name: str) -> None:
        super().__init__(server)
        self.name, self._chance = name, random.Random(name)
        self.past = Past("id, n")
        self.sql("SET sql_mode = '', time_zone = '+00:00'")  # zero dates
        self.sql(f"CREATE DATABASE {name}")
        self.sql(f"USE {name}")
        self.sql(_TYPES)
        self.sql("CREATE TABLE few (id INT PRIMARY KEY, n INT NOT NULL)")
        # By chance it may have no other when its snapshot is taken, and the lake then has no such table.
        self.sql("INSERT INTO few VALUES (999, 0)")

    def things(self, count: int) -> None:
        """Rows of every kind of value, those at the ends among them."""
        pick = self._chance.choice
        for _ in range(count):
            self.sql(
                "INSERT INTO things (n, large, born, kind, marks, bits, flag, price, huge, ratio, exact, day, at, seen, lasts,"
                " doc, place, raw, name, mark, address) VALUES"
                " (%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,ST_GeomFromText(%s),%s,%s,%s,%s)",
                *(pick((0, 4294967295)), pick((None, 7, 18446744073709551615)), pick((None, 1901, 2155, 0))),
                *(pick((None, "a", "b,c")), pick((None, "", "x", "x,z")), pick((None, 0, 1, 1023))),
                *(
                    pick((None, 0, 1)),
                    pick((None, "-123456789.123", "0.001")),
                    pick((None, "9" * 48 + ".99")),
                ),
                *(pick((None, 1.5, -0.25)), pick((None, 0.1, 1e300))),
                *(
                    pick((None, "0000-00-00", "2024-02-29")),
                    pick((None, "0000-00-00", "2024-02-29 23:59:59.000001")),
                ),
                *(
                    pick((None, "2024-02-29 23:59:59.120")),
                    pick((None, "-00:00:00.5", "-838:59:59.5", "838:59:59", "12:30:00")),
                ),
                *(
                    pick((None, '{"a": [1, "ü"]}')),
                    pick((None, "POINT(1 -2)")),
                    pick((None, b"", b"\x00\xff")),
                ),
                *(
                    pick((None, "Zoë", "__debezium_unavailable_value")),
                    pick((None, "6ccd780c-baba-1026-9564-5b8c656024db")),
                ),
                pick((None, "2001:db8::ff")),
            )

    def transactions(self, count: int) -> None:
        """Inserts, several updates of a row, deletes, changes of keys; and rollbacks, and those that change nothing, which do not count."""
        former, made = self.position(), 0
        while made < count:
            self.sql("START TRANSACTION")
            for _ in range(self._chance.choice((1, 2, 5))):
                key = self._chance.randrange(30)
                match self._chance.choice(("put", "put", "count", "count", "delete", "move", "thing")):
                    case "put":
                        self.sql("INSERT IGNORE INTO few VALUES (%s, 0)", key)
                    case "count":
                        self.sql("UPDATE few SET n = n + 1 WHERE id < %s", key)
                    case "delete":
                        self.sql("DELETE FROM few WHERE id = %s", key)
                    case "move":
                        self.sql(
                            "UPDATE IGNORE few SET id = %s WHERE id = %s", self._chance.randrange(30), key
                        )
                    case _:
                        self.things(1)
                        self.sql("UPDATE things SET n = n DIV 2, name = 'né' WHERE id %% 7 = %s", key % 7)
            self.sql("ROLLBACK" if self._chance.random() < 0.1 else "COMMIT")
            self.note()
            made += self.position() > former
            former = self.position()

    def note(self) -> None:
        """Remember what the table that changes much holds now."""
        self.past.note(self.position(), self.sql(f"SELECT {self.past.columns} FROM few"))

    def position(self) -> int:
        """Of the last commit."""
        ((text,),) = self.sql("SELECT @@gtid_binlog_pos")
        return max(gtid_of(one).commit_position for one in str(text).split(",") if one.startswith("0-"))


class Pipeline(Captured):
    """A store whose tables are captured, and the lake."""

    def __init__(self, store: Store, lake: Lake, worker: CaptureWorker) -> None:
        super().__init__(store.name, lake, worker)
        self.store = store

    def auditor(
        self,
        mariadb: MariaDbServer,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> Auditor:
        """A row is written while it waits, which the job needs to go on."""
        numbers = itertools.count(5000)
        return Auditor(
            self.lake,
            capsys,
            monkeypatch,
            database=mariadb.url,
            source=self.store.name,
            worker="",
            meanwhile=lambda: self.store.sql("INSERT INTO few VALUES (%s, 1)", next(numbers)),
        )

    def settle(self) -> None:
        """The watermark passes the last commit, and then the tables are the database's."""
        wanted = self.store.position()

        def has_passed() -> bool:
            self.lake.drain()
            return (self.watermark() or 0) >= wanted

        wait_for("the watermark", has_passed, seconds=120)
        name = self.store.name
        held = self.lake.rows(f"SELECT id, n FROM technical.{name}_few ORDER BY id")
        assert held == self.store.sql("SELECT id, n FROM few ORDER BY id")
        things = [
            tuple(
                int.from_bytes(v, "little") if n == _BITS and v is not None else v for n, v in enumerate(row)
            )
            for row in self.lake.rows(_IN_THE_LAKE.format(name=name))
        ]
        assert things == self.store.sql(_IN_MARIADB)


@pytest.fixture
def pipeline(
    lake: Lake,
    topics: Topics,
    mariadb: MariaDbServer,
    unique_name: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Pipeline]:
    """With rows in the first snapshot; few records a batch, so that transactions are cut. A parameter has more options."""
    store = Store(mariadb, unique_name)
    store.things(30)
    store.transactions(10)
    topics.create(f"{unique_name}.transaction")
    own = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "bigint.unsigned.handling.mode": "precise",
        **getattr(request, "param", {}),
    }
    with captured(mariadb, unique_name, lake, tmp_path, own) as worker:
        yield Pipeline(store, lake, worker)


@pytest.mark.turns
@pytest.mark.parametrize(
    "pipeline", [pytest.param({}, id="avro"), pytest.param(JSON, id="json")], indirect=True
)
def test_the_lake_is_what_the_database_is(
    pipeline: Pipeline, reader: WarehouseSettings, tmp_path: Path
) -> None:
    """And was, also when the job dies and forgets, the connector starts anew, and a transaction is cut over batches, or a table is truncated."""
    store, lake, name = pipeline.store, pipeline.lake, pipeline.store.name
    pipeline.settle()  # by the position that the worker stores: no END marker follows the snapshot
    store.past.forget()
    store.note()

    read = pipeline.records(f"{name}.few")
    store.transactions(12)
    wait_for("the stream", lambda: pipeline.records(f"{name}.few") > read)
    lake.drain_and_crash(f"log:technical.{name}_few_log")
    status, _ = pipeline.worker.request("POST", f"/connectors/{name}/restart?includeTasks=true")
    assert status in (200, 202, 204)
    store.transactions(12)
    pipeline.settle()

    lake.forget()
    store.sql("TRUNCATE TABLE few")
    store.note()
    pipeline.settle()
    store.sql("INSERT INTO few VALUES (1000, 0)")
    store.sql("START TRANSACTION")
    for _ in range(300):  # more than a batch takes, of one key
        store.sql("UPDATE few SET n = n + 1 WHERE id = 1000")
    store.sql("COMMIT")
    store.note()
    pipeline.settle()
    assert store.past.check(reader, name, f"technical.{name}_few") > 20
    lake.rows(f"UPDATE technical.{name}_few SET n = -1")
    store.sql("INSERT INTO things (n) VALUES (7)")  # a row that is read stands before the last transaction
    pipeline.read_again("few")
    pipeline.settle()
    store.past.check(reader, name, f"technical.{name}_few")
    assert lake.rows(f"SELECT count(*) FROM tidings.quarantine WHERE topic LIKE '{name}.%'") == [(0,)]
    assert f"{name}.transaction" in write_history(lake.session, name, tmp_path / "history")["topics"]


_PLANTED = {
    "n": "n + 1",
    "large": "18446744073709551614",
    "born": "1999",
    "kind": "'b'",
    "marks": "'x,y'",
    "bits": "X'FE03'",
    "flag": "NOT coalesce(flag, false)",
    "price": "0.002",
    "huge": "'1.01'",
    "ratio": "CAST(1.25 AS float)",
    "exact": "0.30000000000000004D",
    "day": "DATE '2024-02-28'",
    "at": "TIMESTAMP_NTZ '2024-02-29 23:59:59.000002'",
    "seen": "TIMESTAMP '2024-02-29 23:59:59.121Z'",
    "lasts": "'-00:00:00.500001'",
    "doc": "'{}'",
    "place": "named_struct('x', 1D, 'y', -2D, 'wkb', X'00', 'srid', CAST(NULL AS int))",
    "raw": "X'01'",
    "name": "'ZOË'",
    "mark": "'6ccd780c-baba-1026-9564-5b8c656024dc'",
    "address": "'2001:db8::fe'",
}
"""Of each type a value that no row has."""


@pytest.mark.turns
def test_audit_names_what_is_wrong_and_repair_mends_it(
    pipeline: Pipeline,
    mariadb: MariaDbServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, lake, name = pipeline.store, pipeline.lake, pipeline.store.name
    pipeline.settle()
    table = f"technical.{name}_things"
    numbers = iter(range(1000))

    def traffic() -> None:
        """A row that is wrong, one that is right, and a new one."""
        store.sql(f"UPDATE things SET raw = '{next(numbers)}' WHERE id IN (25, 26)")
        store.things(1)

    auditor = Auditor(
        lake,
        capsys,
        monkeypatch,
        database=mariadb.url,
        source=name,
        worker=pipeline.worker.url,
        meanwhile=traffic,
    )
    code, result = auditor.run("audit", table, "--range-rows", "10")
    assert result["findings"] == []
    assert (code, result["skipped"], result["ranges"]) == (0, [], 4)
    assignments = ", ".join(
        f"`{column}` = CASE WHEN id = {number} THEN {value} ELSE `{column}` END"
        for number, (column, value) in enumerate(_PLANTED.items(), 1)
    )
    lake.session.sql(f"UPDATE {table} SET {assignments} WHERE id <= {len(_PLANTED)}")
    lake.session.sql(f"DELETE FROM {table} WHERE id IN (23, 24)")
    lake.session.sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE id = 22")
    lake.session.sql(f"INSERT INTO {table} SELECT id + 900, * EXCEPT (id) FROM {table} WHERE id = 22 LIMIT 1")
    lake.session.sql(f"UPDATE {table} SET n = 5 WHERE id = 25")
    planted = {("different", str(number), column) for number, column in enumerate(_PLANTED, 1)}
    planted |= {("missing", "23", ""), ("missing", "24", ""), ("doubled", "22", ""), ("extra", "922", "")}
    code, result = auditor.run("audit", table, "--range-rows", "10")
    found = {
        (one["kind"], one["key"]["id"], ",".join(one["columns"]))
        for one in result["findings"]
        if one["key"]["id"] != "25"  # the traffic may have mended it
    }
    assert (code, result["undecided"], found) == (3, 0, planted)
    code, result = auditor.run("repair", table, "--range-rows", "10", "--apply")
    assert (code, result["left"], result["left_undecided"]) == (0, [], 0)
    assert result["mended"] == len(result["findings"]) >= len(planted)
    marked = set(
        lake.rows(
            f"SELECT op, key.id FROM {table}_log WHERE exists(headers, h -> h.key = 'tidings.repair') AND op IS NOT NULL"
        )
    )
    told = {("d" if kind == "extra" else "r", int(key)) for kind, key, _ in planted}
    assert told <= marked <= told | {("r", 25)}
    pipeline.settle()


@pytest.fixture
def second_domain(mariadb: MariaDbServer) -> Iterator[int]:
    """A replication domain, which the server forgets behind the test: other tests share it."""
    yield 7
    store = Server(mariadb)

    def is_forgotten() -> bool:
        store.sql("FLUSH BINARY LOGS")
        store.sql("PURGE BINARY LOGS TO %s", store.sql("SHOW MASTER STATUS")[0][0])
        try:
            store.sql("FLUSH BINARY LOGS DELETE_DOMAIN_ID=(7)")
        except pymysql.err.MySQLError:
            return False  # a connection that has ended still reads an older log
        return True

    wait_for("the log without the domain", is_forgotten)


@pytest.mark.parametrize("pipeline", [{"gtid.source.excludes": "7-.*"}], indirect=True)
def test_a_domain_that_does_not_count_says_nothing_of_the_source(
    second_domain: int,
    pipeline: Pipeline,
    mariadb: MariaDbServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its transactions are told by their markers, the first of which come before all others; an audit leaves them out, too."""
    store, lake, name = pipeline.store, pipeline.lake, pipeline.store.name

    def local() -> None:
        store.sql("SET SESSION gtid_domain_id = %s", second_domain)
        store.sql("INSERT INTO few VALUES (3000, 1)")
        store.sql("DELETE FROM few WHERE id = 3000")
        store.sql("SET SESSION gtid_domain_id = 0")

    wait_for("the first snapshot", lambda: pipeline.records(f"{name}.few") > 0)

    def is_told() -> bool:
        local()
        return pipeline.records("transaction") > 0

    wait_for("the first marker", is_told)
    with capture_logs() as logs:
        lake.drain()
        store.sql("INSERT INTO few VALUES (2000, 1)")
        local()
        pipeline.settle()
    assert lake.rows(f"SELECT id FROM technical.{name}_few WHERE id >= 2000") == [(2000,)]
    assert lake.rows(f"SELECT 1 FROM tidings.quarantine WHERE topic LIKE '{name}.%'") == []
    assert not [line for line in logs if "other replication domains" in line["event"]]
    code, found = pipeline.auditor(mariadb, capsys, monkeypatch).run("audit", f"technical.{name}_few")
    assert (code, found["findings"]) == (0, [])


def test_a_second_replication_domain_is_refused_by_name(
    second_domain: int,
    pipeline: Pipeline,
    mariadb: MariaDbServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, lake, name = pipeline.store, pipeline.lake, pipeline.store.name
    pipeline.settle()
    store.sql("INSERT INTO few VALUES (2000, 1)")
    store.sql("SET SESSION gtid_domain_id = %s", second_domain)
    store.sql("INSERT INTO few VALUES (2001, 1)")
    store.sql("SET SESSION gtid_domain_id = 0")
    store.sql("INSERT INTO few VALUES (2002, 1)")
    wanted = store.position()

    def has_passed() -> bool:
        lake.drain()
        return (pipeline.watermark() or 0) >= wanted

    wait_for("the watermark", has_passed)
    assert lake.rows(f"SELECT id FROM technical.{name}_few WHERE id >= 2000 ORDER BY id") == [
        (2000,),
        (2002,),
    ]
    ((reason,),) = lake.rows(f"SELECT reason FROM tidings.quarantine WHERE topic = '{name}.{name}.few'")
    assert "replication domain 7" in reason
    assert pipeline.watermark() is not None
    assert pipeline.watermark() // ROWS == wanted // ROWS  # type: ignore[operator]
    auditor = pipeline.auditor(mariadb, capsys, monkeypatch)
    code, found = auditor.run("audit", f"technical.{name}_few")
    assert code != 0
    assert [(one["kind"], one["key"]["id"]) for one in found["findings"]] == [("missing", "2001")]
