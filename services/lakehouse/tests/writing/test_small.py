"""Small batches are written in the driver, others by Spark's tasks: whatever comes, the tables are the same."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lakelab.json_topics import GivenTopics, JsonTopics
from lakelab.lake import Lake
from lakelab.random_changes import DAY, LATER, NOON, NUMBER, WIDE, random_changes
from lakelab.topics import MarkerTopic, TableTopic, Topics

from tidings_lakehouse.decoding.batches import surveyed
from tidings_lakehouse.decoding.never_null import PROPERTY
from tidings_lakehouse.errors import SecondWriterError
from tidings_lakehouse.layout_rules import layout_rules
from tidings_lakehouse.maintaining.maintenance import Maintenance
from tidings_lakehouse.spark.small import LocalRows, is_local
from tidings_lakehouse.spark.small_files import SmallFiles
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.table_counts import row_count
from tidings_lakehouse.tables.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SEEDS = [int(seed) for seed in os.environ.get("TIDINGS_SMALL_SEEDS", "3").split(",")]
EVENT = {
    "type": "record",
    "name": "Placed",
    "namespace": "shop",
    "fields": [
        {"name": "order_id", "type": "long"},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "sku", "type": {"type": "string", "logicalType": "uuid"}},
                        {
                            "name": "price",
                            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
                        },
                    ],
                },
            },
        },
        {"name": "placed_at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    ],
}


@pytest.fixture
def lakes(lake: Lake, unique_name: str, tmp_path: Path) -> list[Lake]:
    """Two jobs with a source each; the first one's batches are small, the second one's are not."""
    return [
        _lake_of(lake, f"{unique_name}{letter}", tmp_path / letter, records)
        for letter, records in (("s", 10_000), ("t", 0))
    ]


def _lake_of(lake: Lake, source: str, checkpoint: Path, records: int) -> Lake:
    update = {"source": source, "lakehouse_checkpoint": str(checkpoint), "lakehouse_small_records": records}
    return Lake(lake.session, lake.settings.model_copy(update=update))


@pytest.mark.turns
@pytest.mark.stack
@pytest.mark.parametrize("seed", SEEDS)
def test_changes_make_the_same_tables(lakes: list[Lake], topics: Topics, seed: int) -> None:
    """Late, repeated and broken records, TRUNCATE, values not logged, columns that come, go and change; numbers that do not fit; a start
    anew; the first one's small files put together."""
    dated = Topics(topics.bootstrap, topics.registry)
    for one in lakes:
        chosen = {"lakehouse_types": ".*=numeric(2)", "lakehouse_infinite": ".*=null"}
        one.settings = one.settings.model_copy(update=chosen)
    tables = [
        TableTopic(
            dated, f"{one.settings.source}.public.o_{one.settings.source}", [*WIDE, NUMBER], partitions=2
        )
        for one in lakes
    ]
    markers = [MarkerTopic(dated, one.settings.source) for one in lakes]
    for turn in range(3):
        for number, (one, table) in enumerate(zip(lakes, tables, strict=True)):
            if turn == 2:
                table.use([*LATER, NUMBER])
                one.forget()
            random_changes(random.Random(f"{seed} {turn}"), table, turn)
            markers[number].end(turn, 100 * turn + 50, **{table.topic.rpartition(".")[2]: 3})
            dated.flush()
            one.drain()
    for number, (one, table) in enumerate(zip(lakes, tables, strict=True)):
        assert _is_written_here(one, f"{table.table}_log") is (number == 0)
    for name in ("{}", "{}_log"):
        small, large = (
            _told(one, name.format(table.table)) for one, table in zip(lakes, tables, strict=True)
        )
        assert small == large
    assert lakes[0].rows(f"select 1 from {tables[0].table} where anything is not null")
    marked = "after.ordered_at is null and after.ordered_at__infinite = 'infinity'"
    assert lakes[0].rows(f"select 1 from {tables[0].table}_log where {marked}")
    misfit = "reason like 'after.anything: the number does not fit decimal(38,2)%'"
    quarantined = f"select 1 from tidings.quarantine where {misfit} and topic = '{tables[0].topic}'"
    assert lakes[0].rows(quarantined)
    # Iceberg's own writers are those of Spark's, too, where small files are put together; some of these have fewer columns.
    assert _put_together(lakes[0], f"{tables[0].table}_log")
    _put_together(lakes[0], tables[0].table)
    for name in ("{}", "{}_log"):
        joined, apart = (
            _rows(one, name.format(table.table)) for one, table in zip(lakes, tables, strict=True)
        )
        assert joined == apart
        joined, apart = (
            _measured(one, name.format(table.table)) for one, table in zip(lakes, tables, strict=True)
        )
        assert joined == apart


def _put_together(lake: Lake, name: str) -> int:
    commits, files = Commits(lake.session), SmallFiles(lake.session)
    return commits.looked_at(name, lambda held: files.put_together(held, 2))


@pytest.mark.long
@pytest.mark.stack
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("schemas", ["brought", "given"])
def test_json_makes_the_same_tables_as_avro(
    lakes: list[Lake], topics: Topics, seed: int, schemas: str, tmp_path: Path
) -> None:
    """One lake's topics are Avro, the other's JSON, whose schemas are in the records or in files."""
    json_topics = JsonTopics(topics.bootstrap, topics.registry)
    if schemas == "given":
        json_topics = GivenTopics(topics.bootstrap, topics.registry, tmp_path / "schemas")
        given = {"lakehouse_schemas": json_topics.directory}
        lakes[1].settings = lakes[1].settings.model_copy(update=given)
    kinds = [Topics(topics.bootstrap, topics.registry), json_topics]
    for one in lakes:
        one.settings = one.settings.model_copy(update={"lakehouse_small_records": 10_000 * (seed % 2)})
    tables = [
        TableTopic(kind, f"{one.settings.source}.public.o_{one.settings.source}", WIDE, partitions=2)
        for one, kind in zip(lakes, kinds, strict=True)
    ]
    markers = [MarkerTopic(kind, one.settings.source) for one, kind in zip(lakes, kinds, strict=True)]
    for turn in range(3):
        for one, table, marker, kind in zip(lakes, tables, markers, kinds, strict=True):
            if turn == 2:
                table.use(LATER)
                if schemas == "brought":  # the file has the newest only
                    one.forget()
            random_changes(random.Random(f"{seed} {turn}"), table, turn, kinds="cccuuuuddrrit!x")
            marker.end(turn, 100 * turn + 50, **{table.topic.rpartition(".")[2]: 3})
            kind.flush()
            one.drain()
    for name in ("{}", "{}_log"):
        avro, with_schemas = (
            _told(one, name.format(table.table)) for one, table in zip(lakes, tables, strict=True)
        )
        # Nobody checks the values of JSON against its schema, so that it requires none but the key's.
        assert [row for row in with_schemas if PROPERTY not in row] == [
            row for row in avro if PROPERTY not in row
        ]
    assert lakes[0].rows(f"select 1 from {tables[0].table}")


@pytest.mark.long
@pytest.mark.stack
def test_events_make_the_same_table(lakes: list[Lake], topics: Topics) -> None:
    """With ids that come again in the same batch and in later ones, without times, and broken ones."""
    dated = Topics(topics.bootstrap, topics.registry)
    names = []
    for one in lakes:
        one.streams = ["business"]
        event = f"placed_{one.settings.source}"
        topic = f"{one.settings.source}.{event}.v1"
        dated.create(topic, 2)
        names.append((topic, f"business.{event}_v1"))
    for turn in range(2):
        for one, (topic, _) in zip(lakes, names, strict=True):
            _events(random.Random(turn), dated, topic)
            one.drain()
    small, large = (_told(one, name) for one, (_, name) in zip(lakes, names, strict=True))
    assert small == large
    assert [_is_written_here(one, name) for one, (_, name) in zip(lakes, names, strict=True)] == [True, False]


def _events(chance: random.Random, topics: Topics, topic: str) -> None:
    schema = topics.register(f"{topic}-value", EVENT)
    for _ in range(10):
        id_ = chance.randrange(12)
        topics.timestamp_ms = NOON + chance.randrange(3) * DAY
        moment = dt.datetime(2024, 1, 1 + id_, tzinfo=dt.UTC)
        headers = {"ce_id": f"e{id_}", "ce_source": "/shop", "ce_type": "x", "ce_specversion": "1.0"}
        if id_ % 4:
            headers["ce_time"] = moment.isoformat()
        if chance.random() < 0.3:
            headers["ce_more"] = "m"
        if chance.random() < 0.1:
            del headers["ce_id"]
        line = {"sku": "5e8a4e64-7f43-4b57-b0a9-7c4dd1c0d0b2", "price": Decimal("1.20")}
        value = {
            "order_id": id_,
            "lines": [line] * chance.randrange(3),
            "placed_at": chance.choice([None, moment]),
        }
        body = b"junk" if chance.random() < 0.1 else topics.encode(schema, value)
        topics.produce(topic, b"1", body, [(k, v.encode()) for k, v in headers.items()], chance.randrange(2))
    topics.flush()


_MEASURES = ("lower_bounds", "upper_bounds", "null_value_counts", "value_counts", "column_sizes")
_OF_FILES = re.compile(r"files|size|partition|manifest|entries|tidings\.(writer|query-id)")


def _is_written_here(lake: Lake, table: str) -> bool:
    """Whether all files of a table were written in the driver; all or none are."""
    paths = [path for (path,) in lake.rows(f"select file_path from {table}.files")]
    found = {re.search(r"/00000-0-[0-9a-f]{32}-", path) is not None for path in paths}
    assert len(found) == 1
    return found.pop()


def _rows(lake: Lake, table: str) -> list[str]:
    """What a table holds, but for names and numbers of its own."""
    columns = [
        f"`{name}`"
        for name in lake.session.table(table).columns
        if not re.fullmatch(r"(__)?(topic_id|schema_id)", name)
    ]
    whole = f"to_json(struct({', '.join(columns)}), map('ignoreNullFields', 'false'))"
    rows = sorted(str(row) for row in lake.rows(f"select {whole} from {table}"))
    assert row_count(lake.session, table) == len(rows)
    return [row.replace(lake.settings.source, "S") for row in rows]


def _measured(lake: Lake, table: str) -> list[str]:
    """The columns of whose values the files' metadata tell, and what kind of it."""
    columns = [f"array_sort(array_distinct(flatten(collect_list(map_keys({kind})))))" for kind in _MEASURES]
    return [str(row) for row in lake.rows(f"select {', '.join(columns)} from {table}.data_files")]


def _told(lake: Lake, table: str) -> list[str]:
    """All that a table holds and says of itself, and what the job says of it, but for names and numbers of its own."""
    frame = lake.session.table(table)
    source, topic = (
        lake.settings.source,
        lake.session.sql(f"show tblproperties {table}('tidings.topic')").first()[1],
    )
    found = [frame.schema.json(), *_rows(lake, table), *_history(lake, table), *_layout(lake, table)]
    quarantine = f"""
        select partition, offset, timestamp, regexp_replace(reason, 'schema [0-9]+', ''), length(key), length(value), headers
        from tidings.quarantine where topic like '{source}.%' order by partition, offset"""
    found += map(str, lake.rows(quarantine))
    found += map(
        str,
        lake.rows(
            "select table_name, commit_lsn, newest_commit_lsn, newest_lsn, newest_changed_at, batch_id"
            f" from tidings.watermark where topic = '{topic}' order by table_name"
        ),
    )
    markers = f"select partition, offset, status, tx_id, commit_lsn, data_collections from tidings.transaction_log where topic = '{source}.transaction'"
    if lake.session.catalog.tableExists("tidings.transaction_log"):
        found += sorted(map(str, lake.rows(markers)))
    noted = Commits(lake.session).noted(table)
    found.append(
        re.sub(r"[\w-]{22}/", "", json.dumps({**noted, "log": {**noted.get("log", {}), "topic_id": ""}}))
    )
    return [text.replace(source, "S") for text in found]


def _history(lake: Lake, table: str) -> list[str]:
    """Operations and summaries of the snapshots, the newest first."""
    snapshots = {
        row[0]: row
        for row in lake.rows(f"select snapshot_id, parent_id, operation, summary from {table}.snapshots")
    }
    one = lake.rows(f"select snapshot_id from {table}.refs where name = 'main'")[0][0]
    found = []
    while one is not None:
        _, one, operation, summary = snapshots[one]
        told = {key: value for key, value in sorted(summary.items()) if not _OF_FILES.search(key)}
        found.append(f"{operation} {told}")
    return found


def _layout(lake: Lake, table: str) -> list[str]:
    """How files are laid out, what their metadata tell, and the table's properties."""
    partition = "to_json(partition), " if "partition" in lake.session.table(f"{table}.files").columns else ""
    files = lake.rows(f"""
        select content, {partition}spec_id, sort_order_id, file_format, sum(record_count),
        array_sort(array_distinct(flatten(collect_list(map_keys(null_value_counts))))) from {table}.files group by all""")
    properties = lake.rows(f"show tblproperties {table}")
    kept = [row for row in properties if not re.search(r"snapshot|owner|tidings\.progress", row[0])]
    return [*sorted(map(str, files)), *map(str, sorted(kept))]


def test_only_small_batches_are(session: SparkSession) -> None:
    """Their rows are kept in memory, and a table has a file open for each of their days."""
    local = LocalRows(session, 3)

    def is_small(records: int, *, size: int = 1, header: int = 1, days: int = 0) -> bool:
        frame = session.range(records).selectExpr(
            "'t' AS topic",
            "0 AS partition",
            "id AS offset",
            f"timestamp_seconds(1709294400 + id * {days} * 86400) AS timestamp",
            "cast(null AS binary) AS key",
            f"cast(repeat('x', {size}) AS binary) AS value",
            f"array(struct('h' AS key, cast(repeat('x', {header}) AS binary) AS value)) AS headers",
        )
        with surveyed(frame, local) as (kept, _):
            return kept.here is not None

    assert is_small(2, days=30)
    assert not is_small(3)
    assert not is_small(2, size=5_000_000)
    assert not is_small(2, header=5_000_000)
    assert not is_small(2, days=31)


def _one_row(session: SparkSession) -> DataFrame:
    """Of a table of two columns, in memory."""
    frame = session.sql("SELECT * FROM VALUES (7, 'x') AS (partition, offset)")
    assert is_local(frame)
    return frame


@pytest.mark.parametrize(
    ("layout", "is_ours"),
    [
        ("WRITE ORDERED BY partition, offset", True),
        ("WRITE ORDERED BY offset", False),
        ("WRITE ORDERED BY partition, offset DESC", False),
        ("ADD PARTITION FIELD bucket(64, partition)", True),
        ("ADD PARTITION FIELD bucket(65, partition)", True),  # one row opens one file
        ("ADD PARTITION FIELD partition", False),
        ("ADD COLUMN mine int", False),
    ],
)
def test_tables_that_somebody_has_laid_out_are_spark_s(
    session: SparkSession, unique_name: str, layout: str, *, is_ours: bool
) -> None:
    rows, commits = _one_row(session), Commits(session)
    table = Table(session, f"technical.{unique_name}", "t", commits)
    table.ensure(rows.schema)
    session.sql(f"ALTER TABLE {table.name} {layout}")
    assert commits.append(table.name, rows, None) is is_ours
    table.append(rows)
    assert session.table(table.name).select("partition", "offset").count() == 1 + is_ours


def test_rows_of_more_buckets_than_may_be_open_are_spark_s(session: SparkSession, unique_name: str) -> None:
    rows = session.sql("SELECT id AS partition FROM range(65)").select("partition")
    rows = LocalRows(session, 1000).collected(rows)
    commits = Commits(session, layout_rules(".*=bucket(65)"))
    table = Table(session, f"technical.{unique_name}", "t", commits)
    table.ensure(rows.schema, keys=["partition"])
    assert not commits.append(table.name, rows, None)
    assert commits.append(table.name, rows.limit(64), None)


def test_a_second_writer_and_a_compaction_before_an_append(session: SparkSession, unique_name: str) -> None:
    """The one is found, and nothing is written; behind the other the rows are as good, also when it has let the snapshot go."""
    rows, commits = _one_row(session), Commits(session)
    table = Table(session, f"technical.{unique_name}", "t", commits)
    table.ensure(rows.schema)
    for _ in range(5):
        table.append(rows)
    maintenance = Maintenance(session, commits, commits=1, keep_snapshots=1, keep_seconds=0)
    table.append(rows, {"note": 1}, lambda: maintenance.compact(table.name))
    assert session.table(table.name).count() == 6
    assert session.table(f"{table.name}.files").count() == 2
    assert commits.noted(table.name) == {"note": 1}
    other = Commits(session.newSession())
    other.open(table.name)
    with pytest.raises(SecondWriterError, match=table.name):
        table.append(rows, {"note": 2}, lambda: _check(other.append(table.name, rows, None)))
    assert session.table(table.name).count() == 7


def test_upkeep_that_a_write_has_overtaken_is_repeated(
    session: SparkSession, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write has put the manifests together that the upkeep was about to replace: nothing is wrong with the table."""
    rows, commits = _one_row(session), Commits(session)
    table = Table(session, f"technical.{unique_name}", "t", commits)
    table.ensure(rows.schema)
    session.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '2')")
    for _ in range(3):
        table.append(rows)
    maintenance = Maintenance(session, commits, commits=1, keep_snapshots=1, keep_seconds=0)
    called: list[str] = []
    call = maintenance._call

    def overtaken(procedure: str, name: str, arguments: str) -> Any:
        called.append(procedure)
        if procedure == "rewrite_manifests" and called.count(procedure) == 1:
            util = session._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
            held = util.loadIcebergTable(session._jsparkSession, name)
            manifest = held.currentSnapshot().dataManifests(held.io()).get(0)
            table.append(rows)
            held.refresh()
            held.rewriteManifests().deleteManifest(manifest).commit()  # what Spark's procedure ends with
        return call(procedure, name, arguments)

    monkeypatch.setattr(maintenance, "_call", overtaken)
    maintenance.compact(table.name)
    assert called.count("rewrite_manifests") == 2
    assert "expire_snapshots" in called
    assert session.table(table.name).count() == 4


def _check(done: bool) -> None:
    assert done
