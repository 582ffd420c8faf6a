"""A table may call its columns as the job calls its own: it becomes what it would be under other names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from lakelab.json_topics import change, envelope, record

from tidings_envelope.toast import UNAVAILABLE
from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.history.history_sql import DUCKDB, SPARK, VALID, Dialect, as_of_query
from tidings_lakehouse.reading.duck import duck_lake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.settings import HistorySettings, WarehouseSettings
from tidings_lakehouse.topics import CATALOG, log_of

if TYPE_CHECKING:
    from lakelab.lake import Lake
    from lakelab.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.stack]
OWN = (
    "op", "offset", "partition", "timestamp", "topic_id", "unavailable", "key", "before", "after", "snapshot",
    "incremental", "lsn", "tx_id", "total_order", "last_commit_lsn", "headers", "changed_at", "schema_id",
    "domain", "reason", "raw_key", "raw_value", "record_key", "record_value", "value", "value_id", "key_id",
    "topic", "unknown", "newest", "c", "p", "f", "l", "t", "s", "x", "v", "o", "n", "same", "since", "cut",
    "cuts", "deletes", "is_read", "again", "starts", "truncates", "next_c", "next_p", "next_at", "e_tx",
    "e_lsn", "records", "timed", "shown", "source", "v0", "k0", "at", "rows_", "ended", "held",
)  # fmt: skip
"""What the job and the statements of histories call columns and relations of theirs."""
_PLAIN = tuple(f"plain_{number}" for number in range(len(OWN)))


def _fields(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {"name": names[0], "type": "long"},
        *({"name": name, "type": ["null", "string"], "default": None} for name in names[1:]),
    ]


def _of(statement: str, names: tuple[str, ...], dialect: Dialect) -> str:
    return f"SELECT {', '.join(map(dialect.name, names))} FROM ({statement})"


@pytest.mark.parametrize(("small", "first"), [(0, 0), (10_000, 1)], ids=["spark", "driver"])
def test_a_table_may_have_columns_of_our_names(
    lake: Lake, topics: Topics, reader: WarehouseSettings, unique_name: str, small: int, first: int
) -> None:
    """In the current state, as of a moment and in the history, for both engines; also where a value was not logged."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_small_records": small})
    own = (*OWN[first:], *OWN[:first])  # the first one is the key
    tables = {
        names: topics.table(f"{unique_name}.public.{table}_{unique_name}", fields=_fields(names))
        for table, names in (("own", own), ("plain", _PLAIN))
    }
    marker = topics.table(f"{unique_name}.public.other_{unique_name}", fields=_fields(("id", "note")))

    def change(op: str, number: int, text: str | None, lsn: int, snapshot: str = "false") -> None:
        for names, table in tables.items():
            row = {name: text and f"{text} {place}" for place, name in enumerate(names)} | {names[0]: number}
            if text == UNAVAILABLE:
                row |= dict.fromkeys(names[1:], UNAVAILABLE)
            table.change(op, row, None if op == "r" else lsn - 5, lsn, snapshot=snapshot)

    for number in range(5):
        change("r", number, "read", 100, "last")
    topics.flush()
    lake.drain()
    change("u", 1, "set", 110)
    change("d", 2, "set", 120)
    change("u", 3, UNAVAILABLE, 130)
    change("c", 7, None, 140)
    topics.flush()
    lake.drain()
    change("u", 4, "late", 150)
    for table in tables.values():
        table.truncate(155, 160)
    change("c", 9, "new", 170)
    change("u", 9, UNAVAILABLE, 180)
    marker.change("c", {"id": 1, "note": None}, 185, 190)
    topics.flush()
    lake.drain()

    def held(names: tuple[str, ...]) -> list[tuple[Any, ...]]:
        return sorted(lake.rows(_of(f"SELECT * FROM {tables[names].table}", names, SPARK)), key=repr)

    assert held(own) == held(_PLAIN)
    assert [(row[0], row[1]) for row in held(own)] == [(9, "new 1")]
    assert lake.rows(f"SELECT reason FROM tidings.quarantine WHERE topic LIKE '{unique_name}.%'") == []
    settings = HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse, source=unique_name)
    with duck_lake(settings) as duck:
        source = SourceTables(duck, unique_name)

        def pasts(names: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
            table, found = tables[names].table, []
            for position in (100, 128, 145, 152, 200):
                asked = as_of_query(source.shape(table), DUCKDB, position)
                found.append(sorted(duck.execute(_of(asked, names, DUCKDB)), key=repr))
                if position != 145:
                    continue
                asked = as_of_query(source.shape(table, named=f"{CATALOG}."), SPARK, position)
                by_spark = sorted(lake.rows(_of(asked, names, SPARK)), key=repr)
                apart = [
                    (name, one, other)
                    for row, same in zip(by_spark, found[-1], strict=True)
                    for name, one, other in zip(names, row, same, strict=True)
                    if one != other
                ]
                assert apart == []
            whole = _of(source.history_statement(table, DUCKDB), (*names, *VALID[:2]), DUCKDB)
            return [*found, sorted(duck.execute(whole), key=repr)]

        found = pasts(own)
        assert found == pasts(_PLAIN)
    assert [len(rows) for rows in found] == [5, 4, 5, 5, 1, 11]


ODD = (
    "a.b", "a b", "a`b", 'a"b', "a'b", "größe", "1st", "select", "a,b", "a;b", "a/b", "a\\b", "a$b", "a{b}",
    "a%sb", "Upper", "a-b", "a=b", "a(b)", "a[0]", "a:b", "*", "a#b", "a\tb", " a", "a ", "a|b", "a  b", "日本",
)  # fmt: skip
"""What PostgreSQL lets a column be called, and JSON can tell."""


@pytest.mark.parametrize("odd", [ODD, (*ODD, "upper")], ids=["told apart by all", "but for capitals"])
@pytest.mark.parametrize("small", [0, 10_000], ids=["spark", "driver"])
def test_a_table_may_have_columns_of_any_name(
    lake: Lake, topics: Topics, reader: WarehouseSettings, unique_name: str, small: int, odd: tuple[str, ...]
) -> None:
    """DuckDB takes names that differ in capitals for one, and is not asked about them."""
    lake.settings = lake.settings.model_copy(update={"lakehouse_small_records": small})
    topic = f"{unique_name}.public.odd_{unique_name}"
    table = f"technical.odd_{unique_name}"
    topics.create(topic)
    names = ("key.id", *odd)
    fields = [
        {"type": "int64", "optional": False, "field": names[0]},
        *({"type": "string", "optional": True, "field": name} for name in odd),
    ]
    key_schema = {"type": "struct", "fields": fields[:1], "optional": False, "name": f"{topic}.Key"}

    def row(number: int, text: str) -> dict[str, Any]:
        return {names[0]: number} | {name: f"{text} {place}" for place, name in enumerate(odd)}

    def write(op: str, number: int, text: str, lsn: int) -> None:
        key = record(key_schema, {names[0]: number})
        told = change(lsn, row(number, text), op)
        if op == "d":
            told |= {"before": told["after"], "after": None}
        topics.produce(topic, key, record(envelope(topic, fields), told))

    for number in range(3):
        write("c", number, "new", 100 + number)
    topics.flush()
    lake.drain()
    write("u", 1, "set", 110)
    write("d", 2, "set", 120)
    topics.flush()
    lake.drain()
    wanted = [tuple(row(0, "new").values()), tuple(row(1, "set").values())]
    assert sorted(lake.rows(_of(f"SELECT * FROM {table}", names, SPARK))) == wanted
    assert lake.rows(f"SELECT reason FROM tidings.quarantine WHERE topic = '{topic}'") == []
    settings = HistorySettings(lakehouse_warehouse=reader.lakehouse_warehouse, source=unique_name)
    with duck_lake(settings) as duck:
        source = SourceTables(duck, unique_name)
        asked = as_of_query(source.shape(table, named=f"{CATALOG}."), SPARK, 150)
        assert sorted(lake.rows(_of(asked, names, SPARK))) == wanted
        if odd == ODD:
            asked = as_of_query(source.shape(table), DUCKDB, 150)
            assert sorted(duck.execute(_of(asked, names, DUCKDB))) == wanted
            assert len(duck.answer(f"SELECT * FROM {table}_log").rows) == 5
            return
        told = "'Upper' and 'upper' of {} are one to DuckDB"
        for asked in (table, log_of(table)):
            with pytest.raises(QueryError, match=told.format(asked)):
                duck.answer(f"SELECT count(*) FROM {asked}")
        with pytest.raises(QueryError, match=told.format(log_of(table))):
            source.history_statement(table, DUCKDB)
