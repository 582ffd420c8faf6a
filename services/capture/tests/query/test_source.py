"""Query sources on a real PostgreSQL: what is read and not read, types, offsets, crashes between equal timestamps."""

import gc
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest

from tidings_capture.query.address import read_address
from tidings_capture.query.connector import JdbcSource
from tidings_capture.query.errors import QueryError
from tidings_capture.query.option_page import PAGE
from tidings_capture.query.options import FIXED, OPTIONS, REFUSED, SHARE
from tidings_capture.query.postgresql import Postgres
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import Crash, MemoryWorker

POINTS = ["batch.sent", "records.acknowledged", "offset.written", "offset.stored"]
TABLE = "CREATE TABLE ev (id bigserial PRIMARY KEY, updated timestamptz NOT NULL DEFAULT now(), note text)"
BOTH = {
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "updated",
    "incrementing.column.name": "id",
    "table.whitelist": "ev",
}


@pytest.fixture
def worker() -> Iterator[MemoryWorker]:
    with MemoryWorker(JdbcSource(), "query") as worker:
        yield worker


@pytest.fixture
def run(pg_database: str) -> Iterator[Callable[..., None]]:
    with psycopg.connect(pg_database, autocommit=True) as connection:

        def execute(*statements: str) -> None:
            for statement in statements:
                connection.execute(statement.encode())

        yield execute


@pytest.fixture
def begin(worker: MemoryWorker, pg_database: str) -> Callable[..., None]:
    def start(**options: str) -> None:
        given = psycopg.conninfo.conninfo_to_dict(pg_database)
        url = f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}"
        worker.put(
            {
                "connection.url": url,
                "connection.user": str(given["user"]),
                "connection.password": str(given.get("password") or "unused"),
                "topic.prefix": "q-",
                "poll.interval.ms": "20",
                **{name.replace("_", "."): value for name, value in options.items()},
            }
        )

    return start


def ids(worker: MemoryWorker, topic: str = "q-ev") -> list[int]:
    return [value["id"] for value in worker.values(topic)]


def await_ids(worker: MemoryWorker, wanted: list[int]) -> None:
    try:
        worker.wait_for(lambda: ids(worker) == wanted, f"ids {wanted}")
    except AssertionError as error:
        raise AssertionError(f"{error}: found {ids(worker)}") from error


def test_offsets_are_those_of_the_well_known_connectors(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], pg_database: str
) -> None:
    """Both ways: what they stored is gone on from, and what is stored has their form."""
    run(
        TABLE,
        "INSERT INTO ev (updated) SELECT ('2026-01-01 00:00:0' || n || '.000123Z')::timestamptz FROM generate_series(1, 3) n",
    )
    begin(**BOTH)
    await_ids(worker, [1, 2, 3])
    database = psycopg.conninfo.conninfo_to_dict(pg_database)["dbname"]
    stored = {
        "partition": {"protocol": "1", "table": f"{database}.public.ev"},
        "offset": {"timestamp": 1767225603000, "timestamp_nanos": 123000, "incrementing": 3},
    }
    worker.wait_for(lambda: worker.offsets() == [stored], "the offset")
    worker.stop()
    worker.alter_offsets(
        [{**stored, "offset": {**stored["offset"], "timestamp": 1767225602000, "incrementing": 2}}]
    )
    worker.resume()
    await_ids(worker, [1, 2, 3, 3])


def test_an_offset_of_an_older_version_is_found(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) SELECT 'x' FROM generate_series(1, 3)")
    begin(mode="incrementing", **{"table.whitelist": "ev"})
    await_ids(worker, [1, 2, 3])
    worker.stop()
    worker.reset_offsets()
    worker.alter_offsets([{"partition": {"table": "ev"}, "offset": {"incrementing": 2}}])
    worker.resume()
    await_ids(worker, [1, 2, 3, 3])


def test_an_update_is_a_new_record_and_equal_timestamps_are_told_apart_by_the_number(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (updated, note) SELECT '2026-01-01Z', 'x' FROM generate_series(1, 2)")
    begin(**BOTH)
    await_ids(worker, [1, 2])
    run("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
    await_ids(worker, [1, 2, 3])
    run("UPDATE ev SET note = 'y', updated = '2026-01-02Z' WHERE id = 1")
    await_ids(worker, [1, 2, 3, 1])
    assert worker.values("q-ev")[-1]["note"] == "y"


def test_rows_wait_for_the_delay(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (updated) VALUES (now() - interval '1 hour'), (now())")
    begin(**BOTH, **{"timestamp.delay.interval.ms": "60000"})
    await_ids(worker, [1])


@pytest.mark.parametrize("mode", ["incrementing", "timestamp+incrementing"])
def test_a_row_that_is_committed_late_is_waited_for(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], pg_database: str, mode: str
) -> None:
    """With tidings.late.commits=wait; the well-known connectors lose it."""
    run(TABLE)
    begin(**{**BOTH, "mode": mode}, **{"tidings.late.commits": "wait"})
    worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
    run("INSERT INTO ev (note) VALUES ('first')")
    await_ids(worker, [1])
    with psycopg.connect(pg_database) as late:
        late.execute("INSERT INTO ev (note) VALUES ('late')")
        run("INSERT INTO ev (note) VALUES ('early')")
        with pytest.raises(AssertionError):
            quick_wait(worker, lambda: len(ids(worker)) > 1)
        late.commit()
    await_ids(worker, [1, 2, 3])


def test_rows_of_one_timestamp_wait_together(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], pg_database: str
) -> None:
    """Where a position cannot stand between them, none is read before all may be."""
    run(TABLE)
    begin(**{**BOTH, "mode": "timestamp"}, **{"tidings.late.commits": "wait"})
    worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
    worker.stop()
    run("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
    with psycopg.connect(pg_database) as late:
        late.execute("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
        run("INSERT INTO ev (updated) VALUES ('2026-01-01Z')")
        worker.resume()
        with pytest.raises(AssertionError):
            quick_wait(worker, lambda: bool(ids(worker)))
        late.commit()
    worker.wait_for(lambda: len(ids(worker)) >= 3, "three rows")
    worker.stop()
    assert sorted(ids(worker)) == [1, 2, 3]


def quick_wait(worker: MemoryWorker, condition: Callable[[], bool]) -> None:
    """A second and a half is 75 polls."""
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("not within 1.5 s")


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_crash_between_equal_timestamps_loses_nothing(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], mode: str, seed: int
) -> None:
    """One connector loses the rest of them: its offset is the row's own timestamp. Numbers and crashes are random."""
    chance = random.Random(seed)
    run(TABLE)
    begin(**{**BOTH, "mode": mode}, **{"batch.max.rows": "2"})
    worker.wait_for(lambda: worker.state == "RUNNING", "RUNNING")
    rows = 0
    for second in range(4):
        count = chance.randint(1, 6)
        with worker.crash_at(chance.choice(POINTS), skip=chance.randint(0, 2)) as happened:
            run(
                f"INSERT INTO ev (updated) SELECT timestamptz '2026-01-01Z' + interval '{second} s'"
                f" FROM generate_series(1, {count})"
            )
            rows += count
            worker.wait_for(
                lambda: (happened.is_set() and worker.state == "FAILED") or len(set(ids(worker))) == rows,  # noqa: B023
                "a crash, or all rows",
            )
        if happened.is_set():  # behind the last row, maybe: the task has yet to end by it
            worker.wait_for(lambda: worker.state == "FAILED", "FAILED")
            assert isinstance(worker.error, Crash)
            worker.resume()
    worker.wait_for(lambda: set(ids(worker)) == set(range(1, rows + 1)), "every row")


def test_types_are_exact(worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]) -> None:
    run(
        """CREATE TABLE ev (id int PRIMARY KEY, small smallint NOT NULL, many bigint, price numeric(10,2), bare numeric,
        whole numeric(5,0), real real, double float8, yes bool, day date, clock time, naive timestamp, zoned timestamptz,
        doc jsonb, uuid uuid, words text[], numbers int[], raw bytea, money money, span interval, kind char(3))""",
        """INSERT INTO ev VALUES (1, 2, 3, 4.50, 1.5, 77, 1.5, 2.25, true, '1969-12-31', '10:11:12.123456',
        '2026-07-01 03:00:00.123456', '2026-07-01 03:00:00.123456+03', '{"a": 1}', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
        '{a,NULL,b}', '{1,2}', '\\x0102', 5, '1 day', 'xy')""",
        "INSERT INTO ev (id, small) VALUES (2, 3)",
    )
    begin(
        mode="incrementing",
        **{"incrementing.column.name": "id", "table.whitelist": "ev", "db.timezone": "Europe/Helsinki"},
        **{"value.converter.schemas.enable": "true"},
    )
    worker.wait_for(lambda: len(worker.kafka.topics.get("q-ev", [])) == 2, "two rows")
    (schema, first), (_, second) = [
        (data["schema"], data["payload"])
        for data in (json.loads(record[1]) for record in worker.kafka.topics["q-ev"])
    ]
    assert first == {
        "id": 1, "small": 2, "many": 3, "price": "AcI=", "bare": {"scale": 1, "value": "Dw=="}, "whole": "TQ==",
        "real": 1.5, "double": 2.25, "yes": True, "day": -1, "clock": 36672123, "naive": 1782864000123,
        "zoned": 1782864000123, "doc": '{"a": 1}', "uuid": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "words": ["a", None, "b"], "numbers": [1, 2], "raw": "AQI=", "money": "$5.00", "span": "1 day", "kind": "xy ",
    }  # fmt: skip
    assert {name for name, value in second.items() if value is not None} == {"id", "small"}
    assert schema["name"] == "ev"
    fields = {field["field"]: field for field in schema["fields"]}
    assert [name for name, field in fields.items() if not field["optional"]] == ["id", "small"]
    assert fields["price"]["name"] == "org.apache.kafka.connect.data.Decimal"
    assert fields["naive"]["name"] == "org.apache.kafka.connect.data.Timestamp"


@pytest.mark.parametrize(
    ("mapping", "kinds"),
    [
        ("none", ["bytes", "bytes", "bytes", "bytes", "bytes", "struct"]),
        ("precision_only", ["int8", "int32", "bytes", "bytes", "bytes", "struct"]),
        ("best_fit", ["int8", "int32", "bytes", "double", "bytes", "struct"]),
        ("best_fit_eager_double", ["int8", "int32", "bytes", "double", "double", "struct"]),
    ],
)
def test_numeric_mapping(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None], mapping: str, kinds: list[str]
) -> None:
    run(
        "CREATE TABLE ev (id serial, a numeric(2,0), b numeric(9,0), c numeric(19,0), d numeric(10,2), e numeric(20,2), f numeric)",
        "INSERT INTO ev (a, b, c, d, e, f) VALUES (1, 2, 3, 4.25, 5.25, 1.5)",
    )
    begin(mode="incrementing", **{"numeric.mapping": mapping, "value.converter.schemas.enable": "true"})
    worker.wait_for(lambda: bool(worker.kafka.topics.get("q-ev")), "a row")
    fields = json.loads(worker.kafka.topics["q-ev"][0][1])["schema"]["fields"]
    assert [field["type"] for field in fields[1:]] == kinds


@pytest.mark.parametrize(
    ("granularity", "first", "second"),
    [
        ("connect_logical", 1782864000123, -1),
        ("micros_long", 1782864000123456, -1),
        ("micros_string", "1782864000123456", "-1"),
        ("micros_iso_datetime_string", "2026-07-01T03:00:00.123456", "1970-01-01T01:59:59.999999"),
        ("nanos_long", 1782864000123456000, -1000),
        ("nanos_string", "1782864000123456000", "-1000"),
        ("nanos_iso_datetime_string", "2026-07-01T03:00:00.123456000", "1970-01-01T01:59:59.999999000"),
    ],
)
def test_timestamps_are_told_to_the_microsecond(
    worker: MemoryWorker,
    run: Callable[..., None],
    begin: Callable[..., None],
    granularity: str,
    first: int | str,
    second: int | str,
) -> None:
    run(
        "CREATE TABLE ev (id int PRIMARY KEY, updated timestamptz NOT NULL, naive timestamp, all_of timestamp[])",
        """INSERT INTO ev VALUES (1, '2026-07-01 03:00:00.123456+03', '2026-07-01 03:00:00.123456', '{2026-07-01 03:00:00.123456}'),
        (2, '1969-12-31 23:59:59.999999Z', '1970-01-01 01:59:59.999999', NULL)""",
    )
    begin(
        mode="incrementing",
        **{
            "incrementing.column.name": "id",
            "timestamp.granularity": granularity,
            "db.timezone": "Europe/Helsinki",
        },
    )
    worker.wait_for(lambda: len(worker.kafka.topics.get("q-ev", [])) == 2, "two rows")
    newer, older = worker.values("q-ev")
    assert (newer["updated"], newer["naive"], newer["all_of"]) == (first, first, [first])
    assert (older["updated"], older["naive"]) == (second, second)


def test_a_timestamp_that_fits_no_int64_of_nanoseconds_is_told(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(
        "CREATE TABLE ev (id int PRIMARY KEY, far timestamptz)",
        "INSERT INTO ev VALUES (1, '2300-01-01 00:00:00Z')",
    )
    begin(mode="incrementing", **{"incrementing.column.name": "id", "timestamp.granularity": "nanos_long"})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert "column far" in str(worker.error)


def test_tables_and_their_columns_are_chosen_by_patterns(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(
        "CREATE TABLE ev (id int PRIMARY KEY, updated timestamptz NOT NULL)",
        "CREATE TABLE sale (number int NOT NULL, made timestamptz, changed timestamptz NOT NULL)",
        "CREATE TABLE sale_old (number int)",
        "CREATE TABLE other (id int)",
        "INSERT INTO ev VALUES (2, '2026-01-01Z'), (1, '2026-01-02Z')",
        "INSERT INTO sale VALUES (8, NULL, '2026-01-05Z'), (7, '2026-01-03Z', '2026-01-09Z')",
    )
    begin(
        mode="timestamp+incrementing",
        **{
            "table.include.list": r".*\.public\.ev, .*\.public\.sale.*",
            "table.exclude.list": r".*_old",
            "timestamp.columns.mapping": r".*\.sale:[made|changed],.*:[updated]",
            "incrementing.column.mapping": r".*\.sale:number,.*:id",
        },
    )
    await_ids(worker, [2, 1])
    worker.wait_for(lambda: len(worker.values("q-sale")) == 2, "two sales")
    assert [value["number"] for value in worker.values("q-sale")] == [7, 8]
    assert "q-other" not in worker.kafka.topics


def test_a_table_without_columns_in_the_mapping_is_told(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run("CREATE TABLE ev (id int PRIMARY KEY, updated timestamptz NOT NULL)")
    begin(mode="timestamp", **{"timestamp.columns.mapping": ".*sale:[updated]"})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    assert re.search(r"public\.ev fits no pattern of timestamp\.columns\.mapping", str(worker.error))


def test_a_suffix_bounds_what_a_statement_reads(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) SELECT n::text FROM generate_series(1, 5) AS n")
    begin(**BOTH, **{"query.suffix": "LIMIT 2"})
    await_ids(worker, [1, 2, 3, 4, 5])


def test_a_masked_query_is_read_and_is_not_shown(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a'), ('b')")
    begin(
        mode="incrementing",
        **{"incrementing.column.name": "id", "query.masked": "SELECT * FROM ev WHERE id > 1"},
    )
    worker.wait_for(lambda: ids(worker, "q-") == [2], "the query's row")
    (option,) = [option for option in OPTIONS if option.name == "query.masked"]
    assert option.secret


def test_a_query_may_have_a_where_of_its_own(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a%s'), ('b'), ('a%s')")
    begin(
        mode="incrementing",
        query="SELECT id, note AS text FROM ev WHERE note LIKE 'a%' ORDER BY note;",
        **{"incrementing.column.name": "id"},
    )
    worker.wait_for(lambda: ids(worker, "q-") == [1, 3], "the rows of the query")
    assert worker.values("q-")[0] == {"id": 1, "text": "a%s"}
    (stored,) = wait_offsets(worker)
    assert stored == {"partition": {"query": "query"}, "offset": {"incrementing": 3}}


def wait_offsets(worker: MemoryWorker) -> list[dict[str, Any]]:
    worker.wait_for(lambda: bool(worker.offsets()), "an offset")
    return worker.offsets()


def test_bulk_reads_everything_each_time(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a'), ('b')")
    begin(mode="bulk", **{"batch.max.rows": "1"})
    with pytest.raises(AssertionError):
        quick_wait(worker, lambda: worker.state == "FAILED")
    worker.stop()  # sends what has no position, too
    assert ids(worker)[:6] == [1, 2, 1, 2, 1, 2]
    assert worker.offsets() == []


def test_the_key_is_null_or_the_primary_key(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a')")
    begin(mode="incrementing")
    await_ids(worker, [1])
    assert worker.kafka.topics["q-ev"][0][0] is None
    worker.stop()
    worker.reset_offsets()
    begin(mode="incrementing", **{"tidings.record.key": "primary.key"})
    await_ids(worker, [1, 1])
    assert json.loads(worker.kafka.topics["q-ev"][1][0]) == {"id": 1}


def test_new_tables_and_columns_are_found(
    worker: MemoryWorker, run: Callable[..., None], begin: Callable[..., None]
) -> None:
    run(TABLE, "INSERT INTO ev (note) VALUES ('a')")
    begin(mode="incrementing", **{"table.poll.interval.ms": "50"})
    await_ids(worker, [1])
    run("CREATE TABLE other (id bigserial PRIMARY KEY)", "INSERT INTO other VALUES (default)")
    worker.wait_for(lambda: ids(worker, "q-other") == [1], "the new table")
    run("ALTER TABLE ev ADD COLUMN more int NOT NULL DEFAULT 7", "INSERT INTO ev (note) VALUES ('b')")
    await_ids(worker, [1, 2])
    assert worker.values("q-ev")[1]["more"] == 7


@pytest.mark.parametrize(
    ("table", "options", "told"),
    [
        ("CREATE TABLE ev (id bigint)", {"incrementing.column.name": "id"}, r"validate\.non\.null=false"),
        ("CREATE TABLE ev (id bigint PRIMARY KEY)", {}, r"incrementing\.column\.name"),
        ("CREATE TABLE ev (id bigserial)", {"incrementing.column.name": "nr"}, "no column nr"),
        ("CREATE TABLE ev (id bigserial)", {"tidings.record.key": "primary.key"}, "no primary key"),
        (
            "CREATE TABLE ev (id bigserial, v date); INSERT INTO ev (v) VALUES ('infinity')",
            {},
            "column v of table",
        ),
        (
            "CREATE TABLE ev (id bigserial, v date); INSERT INTO ev (v) VALUES ('0044-03-15 BC')",
            {},
            "column v of table",
        ),
        (
            "CREATE TABLE ev (id text NOT NULL)",
            {"incrementing.column.name": "id"},
            "table .*ev: a query failed: operator does not exist",
        ),
        (
            "CREATE TABLE ev (id bigserial, at text NOT NULL)",
            {"mode": "timestamp", "timestamp.column.name": "at"},
            "table .*ev: a query failed: operator does not exist",
        ),
        (
            "CREATE TABLE ev (id bigserial); CREATE SCHEMA s; CREATE TABLE s.ev (id bigserial)",
            {},
            "share the topic q-ev",
        ),
    ],
    ids=[
        "null",
        "no counted column",
        "no such column",
        "no key",
        "infinity",
        "before Christ",
        "text",
        "text as time",
        "two schemas",
    ],
)
def test_what_cannot_be_read_is_told(
    worker: MemoryWorker,
    run: Callable[..., None],
    begin: Callable[..., None],
    table: str,
    options: Any,
    told: str,
) -> None:
    run(table)
    begin(**{"mode": "incrementing", **options})
    with pytest.raises(AssertionError, match="the task failed"):
        worker.wait_for(lambda: False, "a failure")
    error = worker.error
    assert error is not None
    assert re.search(told, f"{error} {getattr(error, 'hint', '')}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "timestamp"}, "timestamp.column.name"),
        ({"mode": "bulk", "query": "SELECT 1", "table.whitelist": "a"}, "table.whitelist"),
        (
            {"mode": "bulk", "connection.url": "jdbc:oracle:thin:@host:1521/x"},
            "'oracle', which is not supported",
        ),
        ({"mode": "bulk", "connection.url": "jdbc:postgresql://h/x?prepareThreshold=0"}, "prepareThreshold"),
        ({"mode": "bulk", "connection.url": "jdbc:postgresql://h/x?password=p"}, "connection.password"),
        ({"mode": "bulk", "connection.url": "postgresql://u:p@h/x"}, "connection.password"),
        ({"mode": "bulk", "db.timezone": "Mars/Olympus"}, "db.timezone"),
        *(({"mode": "bulk", name: "1"}, name) for name in REFUSED),
        *(({"mode": "bulk", option.name: "never"}, option.name) for option in FIXED),
        ({"mode": "bulk", "tidings.reconciliation.interval.ms": "1"}, "tidings.reconciliation.interval.ms"),
        (
            {"mode": "incrementing", "tidings.reconciliation.interval.ms": "1"},
            "tidings.reconciliation.deletes",
        ),
        ({"mode": "bulk", "tidings.late.commits": "wait"}, "tidings.late.commits"),
        ({"mode": "bulk", "dialect.name": "MySqlDatabaseDialect"}, "dialect.name is of mariadb"),
        ({"mode": "bulk", "transaction.isolation.mode": "READ_UNCOMMITTED"}, "transaction.isolation.mode"),
        ({"mode": "bulk", "table.exclude.list": "a"}, "table.exclude.list"),
        ({"mode": "bulk", "table.include.list": "a("}, "table.include.list"),
        ({"mode": "bulk", "table.include.list": "a", "table.whitelist": "a"}, "table.include.list"),
        ({"mode": "timestamp", "timestamp.columns.mapping": "a:b"}, "timestamp.columns.mapping"),
        ({"mode": "incrementing", "incrementing.column.mapping": "a:[b]"}, "incrementing.column.mapping"),
        (
            {"mode": "incrementing", "incrementing.column.mapping": "a:b", "incrementing.column.name": "b"},
            "incrementing.column.mapping",
        ),
        ({"mode": "bulk", "query": "SELECT 1", "query.masked": "SELECT 2"}, "query.masked"),
        ({"mode": "bulk", "query": "SELECT 1", "table.include.list": "a"}, "leave out table.include.list"),
        ({"mode": "timestamp", "timestamp.column.name": "u", "query.suffix": "limit 3"}, "query.suffix"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(
    begin: Callable[..., None], options: Any, told: Any
) -> None:
    with pytest.raises(OptionError, match=told.replace(".", r"\.")):
        begin(**options)


@pytest.mark.listing
def test_every_option_stands_on_the_page_once() -> None:
    shown = [option.name for options in PAGE.sections.values() for option in options]
    shown += [option.name for option in PAGE.own]
    assert sorted(shown) == sorted(option.name for option in OPTIONS if option.name != SHARE)


def test_tables_are_spread_over_tasks() -> None:
    connector = JdbcSource()
    config = {"connection.url": "postgresql://h/d", "mode": "bulk", "topic.prefix": "q"}
    assert len(connector.task_configs(config, 3)) == 3
    assert len(connector.task_configs({**config, "table.whitelist": "a,b"}, 3)) == 2
    assert len(connector.task_configs({**config, "query": "SELECT 1"}, 3)) == 1


def test_a_result_is_let_go_when_the_server_has_ended_the_session(
    pg_database: str, run: Callable[..., None]
) -> None:
    given = psycopg.conninfo.conninfo_to_dict(pg_database)
    url = f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}"
    login = {"connection.user": str(given["user"]), "connection.password": str(given.get("password") or "")}
    config = {"connection.url": url, **login}
    database = Postgres(read_address(config), ZoneInfo("UTC"))
    result = database.open("SELECT pg_backend_pid() AS pid", "", [])
    ((pid,),) = result.fetch(1)
    run(f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(QueryError, match="a query cannot be ended"):
        result.close()
    del result
    gc.collect()  # psycopg warns of a cursor that is still open
    database.close()
