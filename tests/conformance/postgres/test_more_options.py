"""Options and their mistakes, side by side: one's own publication, strategies named Default, transforms of everything that is not
a change, Avro names without adjustment, and what is said about transforms that are configured wrongly."""

from typing import Any

import pytest
from side_by_side import rest, until
from transform_chain import DEBEZIUM, KAFKA, Chain

from tidings_stack.connect import POSTGRES_CONNECTOR, avro_converter_settings, connector_settings

SETUP = """
    CREATE TABLE whole (id int PRIMARY KEY, name text, n int);
    CREATE TABLE shard_1 (id int PRIMARY KEY, n int);
    CREATE TABLE shard_2 (id int PRIMARY KEY, n int);
    CREATE TABLE "odd name" (id int PRIMARY KEY, n int);
    CREATE TABLE not_published (id int PRIMARY KEY);
    INSERT INTO whole VALUES (1, 'a', 1), (2, NULL, 2);
    INSERT INTO shard_1 VALUES (1, 1);
    INSERT INTO shard_2 VALUES (1, 9)
"""
PUBLICATIONS = tuple(
    f'CREATE PUBLICATION {{{side}}} FOR TABLE whole, shard_1, shard_2, "odd name", zzend' for side in ("mine", "theirs")
)  # fmt: skip


def changes(first: int) -> list[str]:
    return [
        f"INSERT INTO whole VALUES ({first}, 'c', 3)",
        f"UPDATE whole SET name = 'd' WHERE id = {first}",
        f"INSERT INTO shard_1 VALUES ({first}, 2); INSERT INTO shard_2 VALUES ({first}, 8)",
        f'INSERT INTO "odd name" VALUES ({first}, 2)',
        f"INSERT INTO not_published VALUES ({first})",
        f"DELETE FROM whole WHERE id = {first}",
    ]


@pytest.mark.timeout(400)
def test_a_publication_of_ones_own_and_transforms_of_snapshot_rows_and_heartbeats(pair: Any) -> None:
    chain = Chain(
        **{
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "initial",
            "table.include.list": r"public\.whole,public\.shard_.*,public\.odd name",
            "topic.naming.strategy": "io.debezium.schema.DefaultRegexTopicNamingStrategy",
            "topic.regex": r"(.*)\.shard_\d+",
            "topic.replacement": "$1.shards",
            "topic.key.field.name": "shard",
            "heartbeat.interval.ms": "100",
            "provide.transaction.metadata": "true",
            "custom.metric.tags": "team=data,env=test",
            "custom.sanitize.pattern": ".*nothing.*",
        }
    )
    chain.add(f"{KAFKA}InsertHeader", header="site", value__literal="here")
    chain.on("whole", f"{DEBEZIUM}ExtractNewRecordState", add__fields="op,source.snapshot")
    chain.on("heartbeat.*", f"{KAFKA}HoistField$Value", field="beat")
    chain.on("heartbeat.*", f"{KAFKA}RegexRouter", regex=".*", replacement="{base}.heartbeats")
    chain.on("transaction", f"{KAFKA}ReplaceField$Value", exclude="data_collections")
    chain.options["predicates.p1.pattern"] = "__debezium-heartbeat.*"
    both = pair(chain.all(), SETUP, *PUBLICATIONS)
    both.run(changes(10))
    for side in (both.mine, both.theirs):
        until("a heartbeat", lambda side=side: both.counts(side).get(f"{both.mine.base}.heartbeats"))
    found = both.compare()
    assert len(found[f"{both.mine.base}.shards", 0]) == 4
    (_, beat, headers), *_ = found[f"{both.mine.base}.heartbeats", 0]
    assert b'"beat":{"ts_ms":0}' in beat
    assert ("site", b"here") in headers


@pytest.mark.timeout(400)
def test_strategies_named_default(compare: Any) -> None:
    for number, strategy in enumerate(("Default", "DefaultUnicode")):
        options = {
            "topic.naming.strategy": f"io.debezium.schema.{strategy}TopicNamingStrategy",
            "topic.delimiter": "-",
        }
        compare(options, SETUP if not number else [], [changes(10 + number)])


@pytest.mark.timeout(400)
def test_avro_that_no_parser_takes(pair: Any, registry_url: str) -> None:
    """Apicurio's own API does not look at what it registers: names that Avro does not allow, infinite defaults, and a default
    of ``{}``, which it refuses behind Confluent's API."""
    both = pair(
        avro_converter_settings(registry_url),
        """CREATE TABLE "1st" (id int PRIMARY KEY, empty jsonb DEFAULT '{}', most float8 DEFAULT 'Infinity',
            least real DEFAULT '-Infinity', none float8 DEFAULT 'NaN')""",
        suffix="-x",
    )
    both.run("""INSERT INTO "1st" VALUES (1)""", """INSERT INTO "1st" VALUES (2, NULL, NULL, NULL, NULL)""")
    records = both.compare()
    assert len(records[f"{both.mine.base}-x.public.1st", 0]) == 2


WRONG: dict[str, dict[str, str]] = {
    "no type": {},
    "no such class": {"type": "com.example.Nothing"},
    "missing": {"type": f"{KAFKA}RegexRouter"},
    "empty list": {"type": f"{KAFKA}MaskField$Value", "fields": ""},
    "no number": {"type": f"{KAFKA}SetSchemaMetadata$Value", "schema.version": "x"},
    "no boolean": {"type": f"{KAFKA}ValueToKey", "fields": "a", "replace.null.with.default": "perhaps"},
    "not one of": {"type": f"{KAFKA}TimestampConverter$Value", "target.type": "string!"},
    "wrong spec": {"type": f"{KAFKA}Cast$Value", "spec": "a:int7"},
    "wrong field": {"type": f"{KAFKA}ExtractField$Key", "field": "a", "field.syntax.version": "V9"},
    "no predicate": {"type": f"{KAFKA}Filter", "predicate": "nobody"},
}


@pytest.mark.timeout(400)
def test_what_is_said_of_wrong_transforms(pg_database: str, connect_url: str, worker_url: str) -> None:
    base = connector_settings(
        pg_database, **{"topic.prefix": "t", "connector.class": POSTGRES_CONNECTOR, "name": "t"}
    )
    told: dict[str, list[Any]] = {}
    for name, options in WRONG.items():
        config = base | {"transforms": "x"} | {f"transforms.x.{key}": value for key, value in options.items()}
        told[name] = []
        for url in (connect_url, worker_url):
            status, answer = rest(
                f"{url}/connector-plugins/{POSTGRES_CONNECTOR}/config/validate", "PUT", config
            )
            found = {
                one["value"]["name"]: one["value"]["errors"]
                for one in (answer["configs"] if status == 200 else [])
                if one["value"]["name"].startswith(("transforms", "predicates")) and one["value"]["errors"]
            }
            told[name].append((status, found if status == 200 else answer))
    # A predicate that nobody defines is found there when the task starts.
    assert told.pop("no predicate")[1][1].keys() == {"transforms.x.predicate"}
    for name, ((_, theirs), (_, mine)) in told.items():
        assert mine.keys() == theirs.keys(), name
        # Where theirs tells of Java's own exceptions, the option is enough.
        assert name in {"missing", "wrong spec"} or mine == theirs, name
