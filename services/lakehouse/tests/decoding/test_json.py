"""Topics of JSON with schemas make the tables that Avro makes of the same changes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from lakelab.json_topics import ROW, change, envelope, key, record
from lakelab.lake import Lake
from lakelab.schemas import ORDERS
from lakelab.topics import Topics
from pyspark.sql import functions as sf

from tidings_envelope.decimals import EXACT, decimal_to_bytes
from tidings_lakehouse.formats.json_records import unscaled_decimal
from tidings_lakehouse.spark.kafka import Brokers
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_stack.capture import CaptureWorkers
from tidings_stack.connect import connector_settings
from tidings_stack.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField

    from tidings_stack.capture import CaptureWorker

pytestmark = pytest.mark.spark

JSON = "org.apache.kafka.connect.json.JsonConverter"
_TABLE = """
CREATE TABLE {table} (
    id bigint, part varchar(10), PRIMARY KEY (id, part), flag boolean, small smallint, n int NOT NULL DEFAULT 7, ratio double precision,
    share real, price numeric(10,2), exact numeric(38,4), whole numeric(25), wide numeric(60,3), free numeric, note text, code uuid,
    doc jsonb, raw bytea, day date, at time, moment timestamp, milli timestamp(3), zoned timestamptz, tags text[], marks int[],
    prices numeric(10,2)[], pairs hstore, big text, span interval, bits bit(12), place point
)"""
_ROWS = r"""
INSERT INTO {table} VALUES
(1, 'a', true, -3, 5, 0.1, 0.1, 12.34, -9999999999999999999999999999999999.9999, 9999999999999999999999999,
 123456789012345678901234567890.123, 1.50, 'placéd "}},"payload":{{" ☃ 😀', '5e8a4e64-7f43-4b57-b0a9-7c4dd1c0d0b2',
 '{{"schema":{{}},"payload":1}}', '\x00ff7f80', '2024-02-29', '23:59:59.123456', '2024-02-29 12:00:00.123456',
 '0001-01-01 00:00:00.5', '2024-02-29 12:00:00.1+02', ARRAY['a', NULL, ''], ARRAY[1, NULL], ARRAY[1.25, NULL],
 'a=>1,b=>NULL', repeat('x', 10000), '1 day 2 hours', B'101010101010', '(1.5,-2)'),
(2, 'b', NULL, NULL, 7, 'NaN', '-Infinity', -0.01, -0.0001, -1, NULL, NULL, NULL, NULL, NULL, NULL, 'infinity', NULL,
 '-infinity', 'infinity', 'infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(-9223372036854775808, '', false, 32767, -2147483648, '-Infinity', 'NaN', -99999999.99,
 9999999999999999999999999999999999.9999, -9999999999999999999999999, -0.001, 0.10, '', NULL, 'null', '', '0001-01-01', '00:00',
 '9999-12-31 23:59:59.999999', '1969-12-31 23:59:59.999', '0001-01-01 00:00:00+00', '{{}}', '{{}}', '{{}}', '', '', '0',
 B'000000000000', '(0,0)'),
(4, 'd', true, 0, 0, 1e300, 1e-30, 0, 0.0000, 18446744073709551616, 0, 0, 'e', NULL, '[1.10, 1e400]', '\x', '1969-12-31', '24:00',
 '1900-01-01', NULL, NULL, NULL, NULL, NULL, NULL, repeat('y', 9000), NULL, NULL, NULL),
(5, 'e', true, 0, 0, 5e-324, 3.4e38, 1, -922337203685477.5808, -18446744073709551617, 0, -12345678901234567890.5, 'e', NULL, '1',
 '\x', '1970-01-01', '00:00', '1900-01-01', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
_OWN = {
    "topic_id",
    "partition",
    "offset",
    "timestamp",
    "schema_id",
    "headers",
    "__commit_lsn",
    "__lsn",
    "__changed_at",
    "last_commit_lsn",
}
"""Columns of tables that say where a record stands, or in which connector's stream."""
_OF_STREAM = {"lsn", "tx_id", "changed_at"}
"""...and those that differ for rows of a snapshot, of which each connector has its own."""


def _told(column: StructField) -> str:
    name = f"`{column.name}`"
    return f"if(snapshot, null, {name}) AS {name}" if column.name in _OF_STREAM else name


class Both:
    """One table that two connectors capture, one as Avro, one as JSON with schemas."""

    def __init__(self, lake: Lake, database: str, name: str, checkpoints: Path) -> None:
        self.table, self._database = f"t_{name}", database
        self.lakes = {kind: _lake_of(lake, f"{name}{kind}", checkpoints / kind) for kind in ("avro", "json")}
        self._brokers = Brokers(lake.session, KafkaLogin(lake.settings.kafka_access, local=False))

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def drain(self, records: int) -> None:
        """Write what is on the topics, when both have so many records of the table."""
        for lake in self.lakes.values():
            topic = f"{lake.settings.source}.public.{self.table}"
            pattern = topic.replace(".", r"\.")

            def has_come(pattern: str = pattern, topic: str = topic) -> bool:
                return sum(self._brokers.ends(pattern).get(topic, {}).values()) >= records

            wait_for(f"{records} records on {topic}", has_come)
            lake.drain()

    def tables(self, kind: str) -> tuple[str, str]:
        """The current state and the log."""
        topic = f"{self.lakes[kind].settings.source}.public.{self.table}"
        name = self.lakes[kind].rows(f"select table_name from tidings.topics where topic = '{topic}'")[0][0]
        return name, f"{name}_log"

    def told(self, kind: str) -> dict[str, list[str]]:
        """Columns and rows of both tables, but for what names the topic."""
        lake = self.lakes[kind]
        found = {}
        for part, name in zip(("state", "log"), self.tables(kind), strict=True):
            frame = lake.session.table(name)
            columns = [one for one in frame.schema.fields if one.name not in _OWN]
            whole = f"to_json(struct({', '.join(map(_told, columns))}), map('ignoreNullFields', 'false'))"
            found[part] = [f"{one.name} {one.dataType.simpleString()}" for one in columns]
            found[part] += sorted(str(row[0]) for row in lake.rows(f"select {whole} from {name}"))
        quarantine = f"select reason from tidings.quarantine where topic like '{lake.settings.source}.%'"
        found["quarantine"] = [str(row) for row in lake.rows(quarantine)]
        return found


def _lake_of(lake: Lake, source: str, checkpoint: Path) -> Lake:
    update = {
        "source": source,
        "lakehouse_checkpoint": str(checkpoint),
        "lakehouse_offsets_topic": f"{source}-offset",
    }
    return Lake(lake.session, lake.settings.model_copy(update=update))


@pytest.fixture
def both(
    lake: Lake, pg_database: str, kafka_bootstrap: str, registry_url: str, unique_name: str, tmp_path: Path
) -> Iterator[Both]:
    """With the event trigger, and rows in the first snapshot."""
    made = Both(lake, pg_database, unique_name, tmp_path)
    command = [str(Path(sys.executable).with_name("tidings-capture")), "ddl", "install", pg_database]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    made.sql("CREATE EXTENSION hstore", _TABLE.format(table=made.table))
    made.sql(_ROWS.format(table=made.table))
    converters = {
        "avro": {"": "io.confluent.connect.avro.AvroConverter", ".schema.registry.url": registry_url},
        "json": {"": JSON, ".schemas.enable": "true"},
    }
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        worker = workers.start(workers.properties(unique_name, {"offset.flush.interval.ms": "100"}))
        for kind, options in converters.items():
            _create(worker, made, pg_database, kind, options)
        yield made
        for one in made.lakes.values():
            worker.request("DELETE", f"/connectors/{one.settings.source}")


def _create(worker: CaptureWorker, both: Both, database: str, kind: str, converter: dict[str, str]) -> None:
    source = both.lakes[kind].settings.source
    config = connector_settings(
        database,
        **{
            "topic.prefix": source,
            "slot.name": source,
            "publication.name": source,
            "publication.autocreate.mode": "all_tables",
            "table.include.list": f"public.{both.table}",
            "provide.transaction.metadata": "true",
            "tidings.schema.changes": "true",
            "hstore.handling.mode": "map",
            "skipped.operations": "none",
            **{f"{side}.converter{more}": to for side in ("key", "value") for more, to in converter.items()},
        },
    )
    status, body = worker.request("PUT", f"/connectors/{source}/config", config)
    assert status == 201, body
    worker.wait_task(source, "RUNNING")


@pytest.mark.turns
@pytest.mark.stack
@pytest.mark.timeout(900)
def test_a_table_is_the_same_by_both_formats(both: Both) -> None:
    """Every type; values out of line; deletes, changed keys and TRUNCATE; columns renamed, added, made wider; the watermark."""
    table = both.table
    both.drain(5)
    for part in ("state", "log", "quarantine"):
        assert both.told("json")[part] == both.told("avro")[part]
    assert both.told("json")["quarantine"] == []
    both.sql(
        f"UPDATE {table} SET n = 20 WHERE id = 1",  # whose `big` is not logged
        f"DELETE FROM {table} WHERE id = 2",
        f"UPDATE {table} SET id = 44 WHERE id = 4",
        f"ALTER TABLE {table} RENAME COLUMN note TO memo",
        f"ALTER TABLE {table} ADD COLUMN channel text NOT NULL DEFAULT 'w\u00e9b'",
        f"ALTER TABLE {table} ADD COLUMN fee numeric(10,2) NOT NULL DEFAULT -0.05",
        f"ALTER TABLE {table} ALTER COLUMN share TYPE double precision",
        f"INSERT INTO {table} (id, part, share) VALUES (6, 'f', 0.3)",
    )
    both.drain(12)
    for kind in ("avro", "json"):
        name = both.tables(kind)[0]
        found = both.lakes[kind].rows(f"select id, length(big), channel, fee from {name}")
        assert next(row for row in found if row[0] == 1) == (1, 10000, "w\u00e9b", Decimal("-0.05"))
    assert both.told("json") == both.told("avro")
    for lake in both.lakes.values():
        lake.forget()
    both.sql(f"TRUNCATE {table}", f"INSERT INTO {table} (id, part) VALUES (7, 'g')")
    both.drain(14)
    told = both.told("json")
    assert told == both.told("avro")
    assert told["quarantine"] == []
    for kind, lake in both.lakes.items():
        name = both.tables(kind)[0]

        def watermark(lake: Lake = lake, name: str = name) -> int | None:
            lake.drain()
            found = lake.rows(f"select commit_lsn from tidings.watermark where table_name = '{name}'")
            return found[0][0] if found else None

        assert wait_for("a watermark at rest", watermark) > 0


@pytest.mark.stack
def test_what_is_not_json_with_its_schema_is_set_aside(
    lake: Lake, topics: Topics, unique_name: str, size: str
) -> None:
    """...with a reason that does not hold what is in it; whoever writes the two parts otherwise is understood."""
    topic = f"{unique_name}.public.o_{unique_name}"
    avro = topics.table(topic, [*ORDERS[:1], *ORDERS[2:4]])
    schema = envelope(topic)
    one = {"id": 1, "note": "n", "amount": "BNI="}
    odd = [{**field, "field": "a `b.c"} if field["field"] == "note" else field for field in ROW]
    good = [
        record(schema, change(10, one)),
        json.dumps({"payload": change(20, {**one, "id": 2}), "schema": schema}).encode(),
        b" " + json.dumps({"schema": schema, "payload": change(30, {**one, "id": 3})}).encode(),
        record(envelope(topic, odd), change(40, {"id": 4, "a `b.c": "odd", "amount": None})),
        record({**schema, "doc": 'a \\ "}},"payload":'}, change(50, {**one, "id": 5})),
    ]
    unfit = "value: the payload does not fit the schema that comes with it"
    bad = [
        (json.dumps(change(60, one)).encode(), "value: JSON without a schema"),
        (record(None, change(60, one)), "value: JSON without a schema"),
        (b'{"schema":{"type":"struct"', "value: JSON without a schema"),
        (b"secret", "value: neither in the wire format"),
        (record({"type": "struct"}, change(60, one)), "value: its schema has a struct without fields"),
        (record({"type": "int32"}, 7), "value: its schema is not that of a"),
        (good[0][:-30], unfit),
        (record(schema, None), unfit),
        (record(schema, {}), unfit),
        (record(schema, {**change(60, one), "op": None}), unfit),
        (record(schema, change(60, {**one, "id": "secret"})), unfit),
        (record(schema, change(60, {**one, "id": 1 << 63})), unfit),
        (record(schema, change(60, {**one, "amount": 12.34})), unfit),
        (record(schema, change(60, {**one, "amount": "se"})), unfit),
        (good[0].replace(b'"n"', b'"\xff"'), unfit),
        (record(schema, change(60, {**one, "amount": "f" * 12})), "value: "),
    ]
    for number, value in enumerate(good):
        topics.produce(topic, key(topic, number + 1), value)
    for value, _ in bad:
        topics.produce(topic, key(topic, 1), value)
    topics.produce(topic, b'{"id":1}', good[0])
    avro.change("c", {"id": 6, "note": "as Avro", "amount": Decimal("12.34")}, 60, 70)
    topics.flush()
    lake.drain()
    table = f"technical.o_{unique_name}"
    odd_name = next(name for name in lake.session.table(table).columns if name.startswith("a "))
    quoted = "`" + odd_name.replace("`", "``") + "`"
    assert lake.rows(f"select id, note, {quoted}, amount from {table} order by id") == [
        (1, "n", None, Decimal("12.34")),
        (2, "n", None, Decimal("12.34")),
        (3, "n", None, Decimal("12.34")),
        (4, None, "odd", None),
        (5, "n", None, Decimal("12.34")),
        (6, "as Avro", None, Decimal("12.34")),
    ]
    ids = lake.rows(f"select distinct schema_id from {table}_log order by schema_id")
    assert ids == [(None,), (avro.value_id,)]
    found = lake.rows(
        f"select reason, key, value from tidings.quarantine where topic = '{topic}' order by offset"
    )
    assert [row[2] for row in found] == [*(value for value, _ in bad), good[0]]
    for (reason, _, _), wanted in zip(
        found, [*(reason for _, reason in bad), "key: JSON without a schema"], strict=True
    ):
        assert reason.startswith(wanted)
        assert "secret" not in reason


@pytest.mark.parametrize(
    ("precision", "scale"), [(1, 0), (10, 2), (18, 0), (18, 18), (19, 0), (19, 7), (37, 3), (38, 0), (38, 38)]
)
def test_decimals_of_any_size(session: SparkSession, precision: int, scale: int) -> None:
    edges = [
        0,
        1,
        127,
        128,
        255,
        256,
        (1 << 31),
        (1 << 63) - 1,
        1 << 63,
        1 << 64,
        (1 << 64) - 1,
        (1 << 96) + 5,
    ]
    largest = 10**precision - 1
    numbers = sorted({n for edge in [*edges, largest] for n in (edge, -edge, edge - 1) if abs(n) <= largest})
    data = [(decimal_to_bytes(Decimal(n).scaleb(-scale, EXACT), scale), str(n)) for n in numbers]
    frame = session.createDataFrame([(bytearray(raw), text) for raw, text in data], "raw binary, text string")
    value = unscaled_decimal(frame.raw, precision, scale)
    rows = frame.select(value, "text").collect()
    for found, text in rows:
        assert found == Decimal(text).scaleb(-scale, EXACT)
    assert (
        session.createDataFrame([(None,)], "raw binary")
        .select(unscaled_decimal(sf.col("raw"), precision, scale))
        .first()[0]
        is None
    )
