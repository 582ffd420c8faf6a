"""Query sources on a real MariaDB: types to the last digit, offsets, kills between equal timestamps, comparisons."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from mariadb_parts import Database
from query_source import BOTH, Source

from tidings_capture.query.address import read_address
from tidings_capture.query.connector import JdbcSource
from tidings_capture.query.mariadb import MariaDb
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import Crash, MemoryWorker
from tidings_stack.mariadb import MariaDbServer

TABLE = """CREATE TABLE ev (id BIGINT AUTO_INCREMENT PRIMARY KEY, updated {} NOT NULL DEFAULT '2026-01-01', note VARCHAR(20))"""
POINTS = ["batch.sent", "records.acknowledged", "offset.written", "offset.stored"]


@pytest.fixture
def source(mariadb: MariaDbServer, unique_name: str) -> Iterator[Source]:
    database = Database(mariadb, unique_name)
    database.run("SET SESSION time_zone = '+00:00', sql_mode = ''")
    with MemoryWorker(JdbcSource(), "query") as worker:
        yield Source(worker, mariadb, database)
    database.close()


def test_types_are_exact(source: Source) -> None:
    """By the types that the well-known connectors give them; FLOAT and BIGINT UNSIGNED to the last digit."""
    source.run(
        """CREATE TABLE ev (id INT PRIMARY KEY, tiny TINYINT NOT NULL, tinyu TINYINT UNSIGNED, yes BOOLEAN, small SMALLINT,
        smallu SMALLINT UNSIGNED, mid MEDIUMINT UNSIGNED, intu INT UNSIGNED, many BIGINT, manyu BIGINT UNSIGNED, real_ FLOAT,
        double_ DOUBLE, price DECIMAL(10,2), whole DECIMAL(5,0) UNSIGNED, wide DECIMAL(65,30), bit1 BIT(1), bits BIT(12), day_ DATE,
        clock TIME(6), naive DATETIME(6), zoned TIMESTAMP(6) NULL, yr YEAR, word VARCHAR(20) CHARACTER SET latin1, letters TEXT,
        raw VARBINARY(4), lump BLOB, kind ENUM('a','b'), several SET('x','y'), doc JSON, u UUID, place POINT)""",
        """INSERT INTO ev VALUES (1, -2, 200, TRUE, -3, 65535, 16777215, 4294967295, -4, 9223372036854775807, 16777217.25, 0.1,
        4.50, 77, 1.5, b'1', b'101010101010', '1969-12-31', '10:11:12.123456', '2026-07-01 03:00:00.123456',
        '2026-07-01 00:00:00.123456', 2026, 'Zoë', 'ж', X'0102', X'FF', 'b', 'x,y', '{"a": 1}',
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', POINT(1, 2))""",
        "INSERT INTO ev (id, tiny) VALUES (2, 3)",
    )
    source.begin(
        mode="incrementing",
        **{"incrementing.column.name": "id", "db.timezone": "Europe/Helsinki"},
        **{"value.converter.schemas.enable": "true"},
    )
    source.worker.wait_for(lambda: len(source.worker.kafka.topics.get("q-ev", [])) == 2, "two rows")
    (schema, first), (_, second) = [
        (data["schema"], data["payload"])
        for data in (json.loads(record[1] or b"") for record in source.worker.kafka.topics["q-ev"])
    ]
    wide = first.pop("wide")
    place = first.pop("place")
    assert first == {
        "id": 1, "tiny": -2, "tinyu": 200, "yes": 1, "small": -3, "smallu": 65535, "mid": 16777215, "intu": 4294967295,
        "many": -4, "manyu": 9223372036854775807, "real_": 16777218.0, "double_": 0.1, "price": "AcI=", "whole": "TQ==",
        "bit1": 1, "bits": "Cqo=", "day_": -1, "clock": 36672123, "naive": 1782864000123, "zoned": 1782864000123, "yr": 20454,
        "word": "Zoë", "letters": "ж", "raw": "AQI=", "lump": "/w==", "kind": "b", "several": "x,y", "doc": '{"a": 1}',
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    }  # fmt: skip
    assert (len(wide), len(place)) > (0, 0)
    assert {name for name, value in second.items() if value is not None} == {"id", "tiny"}
    kinds = {field["field"]: field["type"] for field in schema["fields"]}
    assert (
        kinds
        | {
            "yes": "int8",
            "tinyu": "int16",
            "smallu": "int32",
            "mid": "int32",
            "intu": "int64",
            "real_": "float",
        }
        == kinds
    )
    assert [field["field"] for field in schema["fields"] if not field["optional"]] == ["id", "tiny"]
    scales = {field["field"]: field["parameters"] for field in schema["fields"] if "parameters" in field}
    assert {name: found["scale"] for name, found in scales.items()} == {
        "price": "2",
        "whole": "0",
        "wide": "30",
    }


@pytest.mark.parametrize(
    ("kind", "zone", "moment"),
    [("DATETIME(6)", "Europe/Helsinki", 1767218403000), ("TIMESTAMP(6)", "Europe/Helsinki", 1767225603000)],
)
def test_offsets_are_those_of_the_well_known_connectors(
    source: Source, kind: str, zone: str, moment: int
) -> None:
    """A database is JDBC's catalog. To the microsecond, which they have in nanoseconds."""
    source.run(
        TABLE.format(kind),
        "INSERT INTO ev (updated) VALUES ('2026-01-01 00:00:01.000123'), ('2026-01-01 00:00:02.000123')",
        "INSERT INTO ev (updated) VALUES ('2026-01-01 00:00:03.000123')",
    )
    source.begin(**BOTH, **{"db.timezone": zone, "batch.max.rows": "2"})
    source.await_ids([1, 2, 3])
    stored = {
        "partition": {"protocol": "1", "table": f"{source.database.name}.ev"},
        "offset": {"timestamp": moment, "timestamp_nanos": 123000, "incrementing": 3},
    }
    source.worker.wait_for(lambda: source.worker.offsets() == [stored], "the offset")
    source.worker.stop()
    before = {"timestamp": moment - 1000, "timestamp_nanos": 123000, "incrementing": 2}
    source.worker.alter_offsets([{**stored, "offset": before}])
    source.worker.resume()
    source.await_ids([1, 2, 3, 3])
    source.run("UPDATE ev SET note = 'y', updated = '2026-01-01 00:00:03.000124' WHERE id = 1")
    source.await_ids([1, 2, 3, 3, 1])


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_kill_between_equal_timestamps_loses_nothing(source: Source, mode: str, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    source.run(TABLE.format("TIMESTAMP"))
    source.begin(**{**BOTH, "mode": mode}, **{"batch.max.rows": "2"})
    rows = 0
    for second in range(4):
        count = chance.randint(1, 6)
        with source.worker.crash_at(chance.choice(POINTS), skip=chance.randint(0, 2)) as happened:
            source.run(
                "INSERT INTO ev (updated) VALUES " + ", ".join([f"('2026-01-01 00:00:0{second}')"] * count)
            )
            rows += count
            source.worker.wait_for(
                lambda: (
                    (happened.is_set() and source.worker.state == "FAILED") or len(set(source.ids())) == rows  # noqa: B023
                ),
                "a kill, or all rows",
            )
        if source.worker.state == "FAILED":
            assert isinstance(source.worker.error, Crash)
            source.worker.resume()
    source.worker.wait_for(lambda: set(source.ids()) == set(range(1, rows + 1)), "every row")


def test_a_query_and_a_view_of_another_database(source: Source) -> None:
    source.run(
        TABLE.format("DATETIME"),
        "INSERT INTO ev (note) VALUES ('a%s'), ('b'), ('a%s')",
        "CREATE VIEW seen AS SELECT id, note FROM ev",
    )
    source.begin(
        mode="incrementing",
        query="SELECT id, note AS text, CAST(1.5 AS FLOAT) AS f FROM ev WHERE note LIKE 'a%' ORDER BY note;",
        **{"incrementing.column.name": "id"},
    )
    source.await_ids([1, 3], "q-")
    assert source.worker.values("q-")[0] == {"id": 1, "text": "a%s", "f": 1.5}
    source.worker.stop()
    source.worker.reset_offsets()
    source.begin(
        mode="bulk",
        **{"catalog.pattern": source.database.name, "table.types": "VIEW", "poll.interval.ms": "600000"},
        **{"connection.url": f"mysql+pymysql://127.0.0.1:{source.server.port}"},
    )
    source.worker.wait_for(lambda: sorted(source.ids("q-seen")) == [1, 2, 3], "the view's rows")
    assert "q-ev" not in source.worker.kafka.topics


def test_a_result_that_is_left_in_its_middle_is_not_read_to_its_end(source: Source) -> None:
    """The server is still sending: a billion rows."""
    source.begin(
        mode="incrementing",
        query="SELECT seq AS id FROM seq_1_to_1000000000",
        **{"incrementing.column.name": "id", "batch.max.rows": "10"},
    )
    source.worker.wait_for(lambda: len(source.worker.kafka.topics.get("q-", [])) > 20, "some rows")
    source.worker.stop()
    read = len(source.worker.kafka.topics["q-"])
    source.worker.resume()
    source.worker.wait_for(lambda: len(source.worker.kafka.topics["q-"]) > read, "the rows behind them")
    assert source.ids("q-")[: read + 1] == list(range(1, read + 2))


def test_a_time_limit_holds_on_a_new_connection_and_a_statement_is_described_once(source: Source) -> None:
    source.run(
        "CREATE TABLE f (id INT PRIMARY KEY, x FLOAT)", "INSERT INTO f VALUES (1, 16777217), (2, 0.3), (3, 1)"
    )
    url = f"jdbc:mariadb://127.0.0.1:{source.server.port}/{source.database.name}"
    given = {"connection.url": url, "connection.user": "admin", "connection.password": source.server.password}
    database = MariaDb(read_address(given), ZoneInfo("UTC"), "")

    def read(select: str, seconds: float | None = None, rows: int = 9) -> list[Sequence[Any]]:
        result = database.open(select, "", [], seconds)
        try:
            return [*result.fetch(rows)]
        finally:
            result.close()

    def asked() -> int:
        """The statements of this session so far."""
        ((count,),) = read(
            "SELECT variable_value AS n FROM information_schema.session_status WHERE variable_name = 'QUESTIONS'"
        )
        return int(count)

    try:
        limit = "SELECT id, @@max_statement_time AS s FROM f"
        for seconds in (7.0, 7.0, None, 8.0):
            # One row of three: the connection is given up with the result.
            assert float(read(limit, seconds, rows=1)[0][1]) == (seconds or 0)
        assert read("SELECT * FROM f") == [[1, 16777216.0], [2, 0.30000001192092896], [3, 1.0]]
        asked()
        before = asked()
        read("SELECT * FROM f")
        assert asked() == before + 2
        for change, rows in {
            "ADD COLUMN y FLOAT DEFAULT 0.1": [1, 16777216.0, 0.10000000149011612],
            "DROP COLUMN x": [1, 0.10000000149011612],
            "MODIFY y DOUBLE": [1, 0.10000000149011612],
            "ADD COLUMN z INT UNSIGNED DEFAULT 4 FIRST": [4, 1, 0.10000000149011612],
        }.items():
            source.run(f"ALTER TABLE f {change}")
            assert read("SELECT * FROM f")[0] == rows, change
    finally:
        database.close()


def test_comparisons_find_what_was_missed_changed_and_deleted(source: Source) -> None:
    source.run(TABLE.format("DATETIME"), "INSERT INTO ev (id, note) SELECT seq * 10, 'x' FROM seq_1_to_20")
    source.begin(
        mode="incrementing",
        **{
            "tidings.record.key": "primary.key",
            "tidings.reconciliation.interval.ms": "50",
            "tidings.reconciliation.rows.per.second": "100000",
            "tidings.reconciliation.range.rows": "4",
        },
    )
    source.worker.wait_for(lambda: kinds(source) == {None: 20}, "all rows")
    source.run("UPDATE ev SET note = 'y' WHERE id = 50", "DELETE FROM ev WHERE id IN (70, 80, 200)")
    source.run("INSERT INTO ev (id, note) VALUES (15, 'late')")
    found = {None: 20, "changed": 1, "deleted": 3, "missed": 1}
    source.worker.wait_for(lambda: kinds(source) == found, f"{found}")


def kinds(source: Source) -> Counter[str | None]:
    said = [
        dict(headers or []).get("tidings.reconciliation")
        for _, _, headers in source.worker.kafka.topics.get("q-ev", [])
    ]
    return Counter(None if kind is None else kind.decode() for kind in said)


@pytest.mark.parametrize(
    ("table", "options", "told"),
    [
        ("CREATE TABLE ev (id BIGINT)", {"incrementing.column.name": "id"}, r"validate\.non\.null=false"),
        ("CREATE TABLE ev (id BIGINT PRIMARY KEY)", {}, r"incrementing\.column\.name"),
        (
            "CREATE TABLE ev (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY); INSERT INTO ev VALUES (9223372036854775808)",
            {},
            "column id of table",
        ),
        (
            "CREATE TABLE ev (id BIGINT AUTO_INCREMENT PRIMARY KEY, d DATE); INSERT INTO ev VALUES (1, '0000-00-00')",
            {},
            "column d of table",
        ),
        (
            "CREATE TABLE ev (id BIGINT AUTO_INCREMENT PRIMARY KEY, t TIME); INSERT INTO ev VALUES (1, '25:00:00')",
            {},
            "column t of table",
        ),
        (
            "CREATE TABLE ev (id VARCHAR(20) PRIMARY KEY)",
            {
                "mode": "timestamp",
                "timestamp.column.name": "id",
                "tidings.record.key": "primary.key",
                "tidings.reconciliation.interval.ms": "50",
            },
            "only the database knows the order of column id",
        ),
        ("", {"mode": "bulk", "query": "SELECT 1 AS a, 2 AS a"}, "Duplicate column name"),
        ("", {"mode": "bulk", "query": "SELECT * FROM nothing"}, r"nothing' doesn't exist"),
    ],
    ids=["null", "no counted column", "no sign", "zero date", "long time", "collation", "two of one name", "no table"],
)  # fmt: skip
def test_what_cannot_be_read_is_told(source: Source, table: str, options: dict[str, str], told: str) -> None:
    source.run(*filter(None, table.split("; ")))
    source.begin(**{"mode": "incrementing", **options})
    with pytest.raises(AssertionError, match="the task failed"):
        source.worker.wait_for(lambda: False, "a failure")
    error = source.worker.error
    assert error is not None
    assert re.search(told, f"{error} {getattr(error, 'hint', '')}")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("jdbc:mariadb://h/x?allowMultiQueries=true", "allowMultiQueries"),
        ("jdbc:mysql://h/x?password=p", "connection.password"),
        ("mysql://u:p@h/x", "connection.password"),
        ("jdbc:mariadb:loadbalance://h,i/x", "several servers"),
        ("jdbc:mariadb://h/x?sslMode=perhaps", "sslMode"),
        ("jdbc:mariadb://h:one/x", "port"),
    ],
)
def test_a_wrong_address_is_refused_by_name(url: str, told: str) -> None:
    with MemoryWorker(JdbcSource(), "query") as worker, pytest.raises(OptionError, match=told):
        worker.put({"connection.url": url, "mode": "bulk", "topic.prefix": "q"})


def test_waiting_for_late_commits_is_refused(source: Source) -> None:
    with pytest.raises(OptionError, match=r"tidings\.late\.commits"):
        source.begin(mode="incrementing", **{"tidings.late.commits": "wait"})
