"""What query sources make of PostgreSQL's values: types, numbers, timestamps, keys."""

import json
from collections.abc import Callable

import pytest
from query_parts import TABLE, await_ids

from tidings_connect.testing.memory_worker import MemoryWorker


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
