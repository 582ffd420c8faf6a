"""A query source on a real MySQL, by the URL and the options that people have for the well-known connectors."""

import base64
import json
from collections.abc import Iterator

import pymysql
import pytest
from mysql_parts import MySqlDatabase
from query_source import BOTH, Source

from tidings_capture.query.connector import JdbcSource
from tidings_capture.query.errors import QueryError
from tidings_capture.query.mariadb import _told
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_service.errors import Retry
from tidings_stack.mysql import MySqlServer

COMPARED = {
    "tidings.record.key": "primary.key",
    "tidings.reconciliation.interval.ms": "50",
    "tidings.reconciliation.rows.per.second": "100000",
    "tidings.reconciliation.statement.timeout.ms": "1234567",
}


@pytest.fixture
def source(mysql: MySqlServer, database: MySqlDatabase) -> Iterator[Source]:
    database.run("SET SESSION time_zone = '+00:00', sql_mode = ''")
    with MemoryWorker(JdbcSource(), "query") as worker:
        yield Source(worker, mysql, database)


def test_types_are_exact(source: Source) -> None:
    """Those that MySQL writes otherwise than MariaDB, or that it alone has, and one of each other group."""
    source.run(
        """CREATE TABLE ev (id INT PRIMARY KEY, many BIGINT UNSIGNED, real_ FLOAT, price DECIMAL(10,2), whole DECIMAL(5,0) UNSIGNED,
        part DECIMAL(5,5), bits BIT(12), clock TIME(6), naive DATETIME(6), zoned TIMESTAMP(6) NULL, yr YEAR,
        word VARCHAR(20) CHARACTER SET latin1, kind ENUM('a','b'), doc JSON, vec VECTOR(2), place POINT)""",
        """INSERT INTO ev VALUES (1, 9223372036854775807, 16777217.25, 4.50, 77, 0.12345, b'101010101010', '10:11:12.123456',
        '2026-07-01 03:00:00.123456', '2026-07-01 00:00:00.123456', 2026, 'Zoë', 'b',
        '{"b": 1.0, "a": 12345678901234567890, "c": "ж"}', STRING_TO_VECTOR('[1,2]'), POINT(1, 2))""",
    )
    source.begin(
        mode="incrementing",
        **{"incrementing.column.name": "id", "db.timezone": "Europe/Helsinki", "numeric.mapping": "best_fit"},
        **{"value.converter.schemas.enable": "true"},
    )
    source.worker.wait_for(lambda: source.worker.kafka.topics.get("q-ev", []) != [], "a row")
    found = json.loads(source.worker.kafka.topics["q-ev"][0][1] or b"")
    row = found["payload"]
    place = base64.b64decode(row.pop("place"))
    assert (len(place), row) == (25, {
        "id": 1, "many": 9223372036854775807, "real_": 16777218.0, "price": 4.5, "whole": 77, "part": 0.12345, "bits": "Cqo=",
        "clock": 36672123, "naive": 1782864000123, "zoned": 1782864000123, "yr": 20454, "word": "Zoë", "kind": "b",
        "doc": '{"a": 12345678901234567890, "b": 1.0, "c": "ж"}', "vec": "AACAPwAAAEA=",
    })  # fmt: skip
    kinds = {field["field"]: field["type"] for field in found["schema"]["fields"]}
    assert {kinds[name] for name in ("price", "part")} == {"double"}
    assert kinds["whole"] == "int32"


def test_a_user_without_tls_reads_by_timestamp_and_number(source: Source) -> None:
    """caching_sha2_password: the first login encrypts the password by the server's public key."""
    name = source.database.name
    source.run(
        f"CREATE USER {name} IDENTIFIED BY 'geheim'",
        f"GRANT SELECT ON {name}.* TO {name}",
        "CREATE TABLE ev (id BIGINT AUTO_INCREMENT PRIMARY KEY, updated TIMESTAMP(6) NOT NULL DEFAULT '2026-01-01 00:00:00.000123')",
        "INSERT INTO ev (id) VALUES (1), (2)",
    )
    url = f"jdbc:mysql://127.0.0.1:{source.server.port}/{name}?useSSL=false&allowPublicKeyRetrieval=true"
    login = {"connection.url": url, "connection.user": name, "connection.password": "geheim"}
    source.begin(**BOTH, **login)
    source.await_ids([1, 2])
    offset = {"timestamp": 1767225600000, "timestamp_nanos": 123000, "incrementing": 2}
    source.worker.wait_for(lambda: [each["offset"] for each in source.worker.offsets()] == [offset], "offset")
    source.run("UPDATE ev SET updated = '2026-01-01 00:00:00.000124' WHERE id = 1")
    source.await_ids([1, 2, 1])
    source.worker.stop()
    source.run(f"DROP USER {name}")


def test_comparisons_of_a_text_key_by_its_bytes(source: Source) -> None:
    source.run(
        "CREATE TABLE ev (id VARCHAR(9) COLLATE utf8mb4_0900_bin PRIMARY KEY, updated DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)))",
        "INSERT INTO ev (id) VALUES ('a'), ('B'), ('ж'), ('c')",
    )
    source.begin(mode="timestamp", **{"timestamp.column.name": "updated"}, **COMPARED)
    source.worker.wait_for(lambda: sorted(source.ids()) == ["B", "a", "c", "ж"], "all rows")
    source.run("DELETE FROM ev WHERE id IN ('B', 'ж')")

    def tombstones() -> set[str]:
        return {
            json.loads(key)["id"] for key, value, _ in source.worker.kafka.topics["q-ev"] if value is None
        }

    source.worker.wait_for(lambda: tombstones() == {"B", "ж"}, "the tombstones")


def test_a_zero_date_is_told_by_its_column(source: Source) -> None:
    source.run("CREATE TABLE ev (id INT PRIMARY KEY, d DATE)", "INSERT INTO ev VALUES (1, '0000-00-00')")
    source.begin(mode="incrementing", **{"incrementing.column.name": "id"})
    with pytest.raises(AssertionError, match="the task failed"):
        source.worker.wait_for(lambda: False, "a failure")
    assert "column d of table" in str(source.worker.error)


@pytest.mark.parametrize(
    ("number", "retry"),
    [(6, Retry.TIMED), (1040, Retry.TIMED), (1053, Retry.TIMED), (1927, Retry.TIMED), (1064, Retry.MANUAL)],
)
def test_a_server_that_shuts_down_or_ends_a_connection_is_asked_again(number: int, retry: Retry) -> None:
    """Its answers are errors as others are, not a lost connection."""
    with pytest.raises(QueryError, match=str(number)) as told, _told("a query failed"):
        raise pymysql.err.OperationalError(number, "words of the server")
    assert told.value.retry is retry
