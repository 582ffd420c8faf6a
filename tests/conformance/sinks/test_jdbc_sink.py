"""Our JDBC sink beside Debezium's: the same connector JSON and the same records, compared table by table and row by row.

A script with what streams hold, two random streams, and the known differences (docs/sinks.md), which are asserted with what
each side makes of them. For long random runs: ``python -m tests.conformance.jdbc_sinks``.
"""

import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jdbc_sinks.cases import run_case
from jdbc_sinks.sides import Debezium, Outcome, differences, run_ours
from jdbc_sinks.stream import Column, Sent, Table, envelope, flat, key_of
from jdbc_sinks.values import UNAVAILABLE, VALUES, Values, decimal

from tidings_stack.connect import ConnectServer
from tidings_stack.postgres import create_database, drop_database

COPY = {
    "insert.mode": "upsert",
    "primary.key.mode": "record_key",
    "delete.enabled": "true",
    "truncate.enabled": "true",
    "schema.evolution": "basic",
}
INT = Values("int32", {"type": "int32"}, (1, 2))
TEXT = Values("string", {"type": "string"}, ("a",))
BARE = Values(
    "bare",
    {
        "type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "version": 1,
        "fields": [{"type": "int32", "optional": False, "field": "scale"}, {"type": "bytes", "optional": False, "field": "value"}],
    },
    (),
)  # fmt: skip


@pytest.fixture
def debezium(plugins: ConnectServer, kafka_bootstrap: str) -> Debezium:
    return Debezium(plugins.url, kafka_bootstrap)


@pytest.fixture
def both(
    debezium: Debezium, pg_url: str, unique_name: str
) -> Iterator[Callable[..., tuple[Outcome, Outcome]]]:
    """Runs records past both sinks: `both(options, records)`."""
    names = [f"{unique_name}_{side}" for side in ("theirs", "ours")]
    urls = [create_database(pg_url, name) for name in names]

    def run(options: dict[str, str], records: list[Sent]) -> tuple[Outcome, Outcome]:
        theirs = debezium.run(unique_name, urls[0], options, records)
        return theirs, run_ours(unique_name, urls[1], options, records)

    yield run
    for name in names:
        drop_database(pg_url, name)


def test_a_script_of_every_kind(both: Callable[..., tuple[Outcome, Outcome]], unique_name: str) -> None:
    table = Table(
        f"{unique_name}.public.all",
        [Column("id", INT, optional=False)],
        [Column(f"c_{v.name}", v) for v in VALUES],
    )
    rows: list[dict[str, Any]] = [
        {"id": number, **{f"c_{v.name}": v.values[number % len(v.values)] for v in VALUES}}
        for number in range(5)
    ]
    rows.append({"id": 5, **{f"c_{v.name}": None for v in VALUES}})
    records: list[Sent] = [(table.topic, key_of(table, row), envelope(table, "c", None, row)) for row in rows]

    def change(op: str, before: Any, after: Any) -> None:
        records.append((table.topic, key_of(table, after or before), envelope(table, op, before, after)))

    def delete(row: Any) -> None:
        change("d", row, None)
        records.append((table.topic, key_of(table, row), None))

    change("u", rows[0], {**rows[1], "id": 0})
    delete(rows[2])
    change("c", None, rows[2])  # insert, delete, insert of a key within a batch
    delete(rows[3])
    change("c", None, {**rows[3], "id": 33})  # a key change
    table.columns.append(Column("added", TEXT, default="of old"))
    change("u", rows[4], {**rows[4], "added": "new"})
    del table.columns[0]
    change(
        "c",
        None,
        {name: value for name, value in rows[4].items() if name != "c_int8"} | {"id": 7, "added": None},
    )
    theirs, ours = both(COPY, records)
    assert (theirs.error, ours.error) == (None, None)
    assert not differences(theirs.tables, ours.tables)
    (found,) = ours.tables.values()
    assert len(found.rows) == 7


def test_random_streams(debezium: Debezium, pg_url: str, unique_name: str) -> None:
    seed = int(os.environ.get("TIDINGS_SEED", "") or random.SystemRandom().randrange(10**6))
    print(f"TIDINGS_SEED={seed}")
    for number in range(2):
        result = run_case(seed + number, f"{unique_name}n{number}", pg_url, debezium, 60)
        assert result.kind in {"same", "both"}, (seed + number, result.case.options, *result.lines)


def test_known_differences(both: Callable[..., tuple[Outcome, Outcome]], unique_name: str) -> None:
    interval = Values("interval", {"type": "string", "name": "io.debezium.time.Interval", "version": 1}, ())
    table = Table(
        f"{unique_name}.public.known",
        [Column("id", INT, optional=False)],
        [Column("bare", BARE), Column("span", interval), Column("big", TEXT)],
    )
    digits = {"scale": 9, "value": decimal(12_345_678_901_234_567_890_123_456_789)}
    row = {"id": 1, "bare": digits, "span": "P1Y2M3DT4H5M6.7S", "big": "kept"}
    records: list[Sent] = [
        (table.topic, key_of(table, row), envelope(table, "c", None, row)),
        (table.topic, key_of(table, row), envelope(table, "u", row, {**row, "big": UNAVAILABLE})),
    ]
    theirs, ours = both(COPY, records)
    assert (theirs.error, ours.error) == (None, None)
    (its,), (own,) = theirs.tables.values(), ours.tables.values()
    assert {name: column[0] for name, column in own.columns.items()} == {
        "id": "integer", "bare": "numeric", "span": "interval", "big": "text",
    }  # fmt: skip
    assert own.rows == [("12345678901234567890.123456789", "kept", "1", "1 year 2 mons 3 days 04:05:06.7")]
    assert {name: column[0] for name, column in its.columns.items()} == {
        "id": "integer", "bare": "double precision", "span": "text", "big": "text",
    }  # fmt: skip
    assert its.rows == [("1.2345678901234567e+19", UNAVAILABLE, "1", "P1Y2M3DT4H5M6.7S")]


def test_where_only_theirs_fails(both: Callable[..., tuple[Outcome, Outcome]], unique_name: str) -> None:
    """A column that comes later, with the record's place as the key, and a struct."""
    table = Table(f"{unique_name}.public.t", [Column("id", INT, optional=False)], [Column("a", TEXT)])
    records: list[Sent] = [(table.topic, None, flat(table, {"id": 1, "a": "x"}))]
    table.columns.append(Column("b", TEXT))
    records.append((table.topic, None, flat(table, {"id": 2, "a": "y", "b": "z"})))
    theirs, ours = both({"primary.key.mode": "kafka", "schema.evolution": "basic"}, records)
    assert theirs.error is not None
    assert "Failed to find column 'b'" in theirs.error
    assert ours.error is None
    (own,) = ours.tables.values()
    assert [json.dumps(row) for row in own.rows] == [
        json.dumps([str(offset), "0", table.topic, a, b, str(offset + 1)])
        for offset, a, b in ((0, "x", None), (1, "y", "z"))
    ]


def test_a_truncate_of_a_table_that_is_not_there(
    both: Callable[..., tuple[Outcome, Outcome]], unique_name: str
) -> None:
    """Only Debezium's fails: it makes the table first, and a TRUNCATE has no key."""
    table = Table(f"{unique_name}.public.t", [Column("id", INT, optional=False)], [Column("a", TEXT)])
    row = {"id": 1, "a": "x"}
    records: list[Sent] = [
        (table.topic, None, envelope(table, "t", None, None)),
        (table.topic, key_of(table, row), envelope(table, "c", None, row)),
    ]
    theirs, ours = both(COPY, records)
    assert theirs.error is not None
    assert "Configured primary key mode 'record_key' cannot have null schema" in theirs.error
    assert ours.error is None
    (own,) = ours.tables.values()
    assert own.rows == [("x", "1")]
