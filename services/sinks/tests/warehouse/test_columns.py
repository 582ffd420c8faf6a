"""Batches that are written column by column leave what the same batches leave that are written record by record."""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from column_records import AT, KEY, TEXT, AvroTopic, Ways, enveloped, stream, struct
from structlog.testing import capture_logs
from warehouse_parts import ask

from tidings_connect.task.sink import RetriableError, SinkContext, SinkRecord, TopicPartition
from tidings_connect.transforms.record import Header
from tidings_envelope.toast import UNAVAILABLE
from tidings_sinks.errors import BusyError
from tidings_sinks.jdbc.columns import KeptColumns
from tidings_sinks.positions import Claim
from tidings_sinks.warehouse import task as module
from tidings_sinks.warehouse.settings import read_settings
from tidings_sinks.warehouse.task import WarehouseTask

OTHER = AT._replace(partition=1)
Step = list[SinkRecord] | str


def made_task(config: dict[str, str], topic: AvroTopic | None, refused: list[int]) -> WarehouseTask:
    context = SinkContext("sink", 0, lambda record, _: refused.append(record.offset))
    if topic is not None:
        context = replace(context, read_again=topic.read_again)
    return WarehouseTask(read_settings("sink", config), context)


def written(
    file: Path, config: dict[str, str], steps: Sequence[Step], topic: AvroTopic | None = None
) -> tuple[Any, list[int]]:
    """What is in the table in the end, and which records were refused.

    Args:
        steps: batches, and what is done between them: flush, close, open (of `OTHER`).
        topic: offers the task columns first.
    """
    refused: list[int] = []
    given = {
        "connection.url": f"jdbc:duckdb:{file}",
        "schema.evolution": "basic",
        "batch.size": "1000",
        **config,
    }
    task = made_task(given, topic, refused)
    own, there, put_to = {AT, OTHER}, list[SinkRecord](), dict[TopicPartition, int]()

    def put(records: Sequence[SinkRecord]) -> None:
        batch = [record for record in records if record.original in own]
        if batch and topic is not None:
            topic.put(task, batch)
        elif batch:
            task.put(batch)
        put_to.update({record.original: record.offset + 1 for record in batch})

    def flush() -> None:
        task.flush({at: offset for at, offset in put_to.items() if at in own})

    def take_other() -> None:
        begin = (task.open([OTHER]) or {}).get(OTHER, 0)
        own.add(OTHER)
        put([record for record in there if record.original == OTHER and record.offset >= begin])

    task.open(own)
    for step in [*steps, "open", "flush"]:
        if step == "flush":
            flush()
        elif step == "close" and OTHER in own:
            own.discard(OTHER)
            task.close([OTHER])
        elif step == "open" and OTHER not in own:
            take_other()
        elif not isinstance(step, str):
            there += step
            put(step)
    task.stop()
    columns = ask(file, "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'shop_public_orders' ORDER BY ALL")  # fmt: skip
    selected = ", ".join(f'"{name}"' for name, _ in columns)
    return (columns, ask(file, f"SELECT {selected} FROM shop_public_orders ORDER BY ALL")), sorted(refused)


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chance = random.Random(seed)
    mode = chance.choice(["upsert"] * 4 + ["insert", "update"])
    key_mode = "none" if mode == "insert" and chance.random() < 0.5 else "record_key"
    deletes = key_mode == "record_key" and chance.random() < 0.7
    config = {"insert.mode": mode, "primary.key.mode": key_mode, "delete.enabled": str(deletes).lower()}
    records = stream(chance, 90, envelopes=chance.random() < 0.5, deletes=deletes)
    size = chance.choice([8, 20, 45])
    batches = [records[first : first + size] for first in range(0, len(records), size)]
    steps = list(chain.from_iterable((batch, "flush") for batch in batches))
    ways = Ways(monkeypatch, module)
    found = written(tmp_path / "columns.duckdb", config, steps)
    ways.by_records()
    assert found == written(tmp_path / "records.duckdb", config, steps), (config, size)
    print(f"{sum(ways.taken)} of {len(ways.taken)} batches by columns")


SEEDS = [int(seed) for seed in os.environ.get("TIDINGS_WAREHOUSE_SEEDS", "1,2,3,4,5,6,7,8").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_as_columns_writes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """With batches that are merged together, partitions that go and come, records between columns, and rows that the table refuses."""
    chance = random.Random(seed)
    mode = chance.choice(["upsert"] * 4 + ["insert", "update"])
    key_mode = "none" if mode == "insert" and chance.random() < 0.5 else "record_key"
    deletes = key_mode == "record_key" and chance.random() < 0.6
    config = {"insert.mode": mode, "primary.key.mode": key_mode, "delete.enabled": str(deletes).lower()}
    # What is refused depends on what is merged together, which is then the same.
    refuses = key_mode == "record_key" and chance.random() < 0.5
    config["batch.size"] = "1000" if refuses else chance.choice(["15", "1000"])
    records = stream(
        chance, 120, envelopes=chance.random() < 0.5, deletes=deletes, spoils=False, grows=not refuses
    )
    refusing = _refusing(records[0]) if refuses else None
    records = [_of(OTHER if int(record.key["id"]) % 2 else AT, record) for record in records]
    steps: list[Step] = []
    while records:
        size = chance.choice([1, 4, 12])
        steps.append(records[:size])
        del records[:size]
        if (what := chance.random()) < 0.4:
            steps.append("flush" if what < 0.25 or refuses else "close" if what < 0.32 else "open")
    topic = AvroTopic(monkeypatch)
    found = []
    for way in (topic, None):
        file = tmp_path / f"{way is None}.duckdb"
        if refusing is not None:
            ask(file, refusing)
        found.append(written(file, config, steps, way))
        Ways(monkeypatch, module).by_records()
    assert found[0] == found[1], config
    print(f"{sum(topic.taken)} of {len(topic.taken)} batches by columns, {len(found[0][1])} records refused")


def _refusing(record: SinkRecord) -> str | None:
    """A table that takes some of the numbers in rows like a record's; None where these have none."""
    value = record.value or {}
    row = value.get("after", value) or {}
    keys = "id INTEGER" if len(record.key) == 1 else "id VARCHAR, part VARCHAR"
    return f"CREATE TABLE shop_public_orders ({keys}, n INTEGER CHECK (n <> 8))" if "n" in row else None


def _of(at: TopicPartition, record: SinkRecord) -> SinkRecord:
    return record._replace(partition=at.partition, original=at)


@pytest.mark.parametrize("envelopes", [True, False])
def test_rows_and_deletes_of_one_schema_are_written_by_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, envelopes: bool
) -> None:
    row = struct(["n", "list"], optional=True)
    schema_of_value = enveloped(row) if envelopes else row

    def record(offset: int, number: int, n: int | None) -> SinkRecord:
        value: Any = None if n is None else {"n": n, "list": ["x"]}
        if envelopes and n is not None:
            value = {"before": None, "after": value, "source": {"table": "orders"}, "op": "u"}
        of_value = None if value is None else schema_of_value
        return SinkRecord(AT.topic, 0, KEY[1], {"id": number}, of_value, value, None, [], offset, AT)

    changes = [(1, 1), (2, 1), (2, None), (3, 1), (1, 2), (3, None), (3, 3), (4, None)]
    ways = Ways(monkeypatch, module)
    config = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
    records = [record(offset, *change) for offset, change in enumerate(changes)]
    (_, rows), refused = written(tmp_path / "one.duckdb", config, [records])
    assert (ways.taken, refused) == ([True], [])
    assert sorted((found[0], found[2]) for found in rows) == [(1, 2), (3, 3)]


def envelope(offset: int, number: int, row: dict[str, Any] | None, **more: Any) -> SinkRecord:
    """A record whose row has `n` and `t`, and what more it is given; None: a tombstone."""
    schema = enveloped(struct(["n", "t", *more.keys()], optional=True))
    value = {"before": None, "after": {**(row or {}), **more}, "source": {"table": "orders"}, "op": "u"}
    of_value = (None, None) if row is None else (schema, value)
    return SinkRecord(AT.topic, 0, KEY[1], {"id": number}, *of_value, None, [], offset, AT)


UPSERT = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}


@pytest.mark.parametrize(
    ("deletes", "second", "rows"),
    [
        ("true", envelope(2, 1, {"n": 2, "t": UNAVAILABLE}), [(1, 2, "a"), (2, 1, "b")]),
        ("true", envelope(2, 1, None), [(2, 1, "b")]),
        ("false", envelope(2, 1, None), [(1, 1, "a"), (2, 1, "b")]),
        ("true", envelope(2, 1, {"n": 2, "t": "c"}, yes=True), [(1, 2, "c", True), (2, 1, "b", None)]),
    ],
    ids=["not sent", "deleted", "a tombstone that is left alone", "a new column"],
)
def test_a_batch_that_waits_behind_another_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes: str, second: SinkRecord, rows: list[Any]
) -> None:
    topic = AvroTopic(monkeypatch)
    first = [envelope(0, 1, {"n": 1, "t": "a"}), envelope(1, 2, {"n": 1, "t": "b"})]
    behind = [second, envelope(3, 2, {"n": 1, "t": "b"}, **({"yes": None} if "yes" in str(second) else {}))]
    config = {**UPSERT, "delete.enabled": deletes}
    (_, found), refused = written(tmp_path / "one.duckdb", config, [first, behind], topic)
    assert (sorted(found), refused, topic.taken) == (rows, [], [True, True])


def test_no_more_is_merged_at_once_than_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    by_kept = module.by_kept_columns

    def counted(batch: Sequence[KeptColumns], *given: Any, **more: Any) -> Any:
        merged.append(sum(len(part.keys["id"]) for part in batch))
        return by_kept(batch, *given, **more)

    monkeypatch.setattr(module, "by_kept_columns", counted)
    records = [envelope(offset, offset, {"n": 1, "t": "a"}) for offset in range(20)]
    steps: list[Step] = [records[first : first + 4] for first in range(0, 20, 4)]
    topic = AvroTopic(monkeypatch)
    (_, rows), _ = written(tmp_path / "one.duckdb", {**UPSERT, "batch.size": "10"}, steps, topic)
    assert (merged, len(rows), all(topic.taken)) == ([8, 8, 4], 20, True)


def test_what_was_merged_by_a_commit_that_failed_is_not_merged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has the transaction, and the task does not know."""
    commit = module.DuckDatabase.commit
    failures = [BusyError("the disk is full")]

    def committed(database: module.DuckDatabase) -> None:
        commit(database)
        if failures and database.position("connect-sink", AT) not in (None, Claim(None, 1)):
            raise failures.pop()

    monkeypatch.setattr(module.DuckDatabase, "commit", committed)
    config = {"insert.mode": "insert", "primary.key.mode": "none", "flush.max.retries": "0"}
    file, topic = tmp_path / "one.duckdb", AvroTopic(monkeypatch)
    given = {"connection.url": f"jdbc:duckdb:{file}", "schema.evolution": "basic", **config}
    task = made_task(given, topic, [])
    task.open([AT])
    topic.put(task, [envelope(0, 1, {"n": 1, "t": "a"}), envelope(1, 2, {"n": 1, "t": "b"})])
    with pytest.raises(RetriableError, match="disk"):
        task.flush({AT: 2})
    task.flush({AT: 2})
    task.stop()
    assert topic.taken == [True]
    assert ask(file, "SELECT t FROM shop_public_orders ORDER BY t") == [("a",), ("b",)]


def test_events_that_are_deprecated_are_told_when_they_come_as_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = Header("ce_deprecated", TEXT, "true", b"true")
    records = [envelope(offset, offset, {"n": 1, "t": "a"}) for offset in range(2)]
    records = [record._replace(headers=[header]) for record in records]
    topic = AvroTopic(monkeypatch)
    with capture_logs() as logs:
        written(tmp_path / "one.duckdb", UPSERT, [records], topic)
    assert topic.taken == [True]
    assert [line["topic"] for line in logs if line["event"] == "events of a topic are deprecated"] == [
        AT.topic
    ]


def test_columns_that_turn_out_not_to_be_plain_are_taken_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such batches are read twice: columns first, and then as records."""
    monkeypatch.setattr(module, "by_kept_columns", lambda *_, **__: None)
    steps: list[Step] = []
    for offset in range(16):
        steps += [[envelope(offset, offset, {"n": 1, "t": "a"})], "flush"]
    topic = AvroTopic(monkeypatch)
    (_, rows), _ = written(tmp_path / "one.duckdb", UPSERT, steps, topic)
    assert len(rows) == 16
    assert [place for place, taken in enumerate(topic.taken) if taken] == [0, 2, 6, 14]


def test_no_columns_are_wanted_where_the_key_is_not_a_part_of_rows_or_keys(tmp_path: Path) -> None:
    given = {"connection.url": f"jdbc:duckdb:{tmp_path}/one.duckdb", "primary.key.mode": "record_header"}
    assert not made_task(given, None, []).takes_columns
    assert made_task({**given, "primary.key.mode": "record_key"}, None, []).takes_columns
