"""Single message transforms, side by side: chains with predicates, on Debezium and here, give the same records.

Many aliases are put into few connectors: a predicate gives each table transforms of its own.
"""

from typing import Any

import pytest
from transform_chain import DEBEZIUM, KAFKA, Chain, tables

from tidings_stack.connect import avro_converter_settings

JSON = "org.apache.kafka.connect.json.JsonConverter"


def unwrapping(chain: Chain) -> tuple[str, ...]:
    """ExtractNewRecordState and ExtractChangedRecordState; the tables."""
    unwrap = f"{DEBEZIUM}ExtractNewRecordState"
    chain.on("plain", unwrap)
    chain.on(
        "dropped", unwrap, delete__tombstone__handling__mode="drop", add__headers="op,source.table,db:DB"
    )
    chain.on(
        "rewritten",
        unwrap,
        delete__tombstone__handling__mode="rewrite",
        add__fields="op,table,lsn,source.snapshot:snap,transaction.id,total_order",
        replace__null__with__default="false",
    )
    chain.on(
        "kept",
        unwrap,
        delete__tombstone__handling__mode="rewrite-with-tombstone",
        add__fields="op:OP,ts_ms",
        add__fields__prefix="x.",
        add__headers="op,version",
        add__headers__prefix="h_",
    )
    chain.on(
        "deletes", unwrap, delete__tombstone__handling__mode="delete-to-tombstone", route__by__field="topic"
    )
    chain.on(
        "changed",
        f"{DEBEZIUM}ExtractChangedRecordState",
        header__changed__name="C",
        header__unchanged__name="U",
    )
    chain.on("changed", unwrap, drop__fields__header__name="U", drop__fields__from__key="true")
    chain.on("changed_all", f"{DEBEZIUM}ExtractChangedRecordState", header__unchanged__name="U")
    chain.on(
        "changed_all", unwrap, drop__fields__header__name="U", drop__fields__keep__schema__compatible="false"
    )
    chain.options["transforms.t3.add.fields"] = "op:OP"
    chain.add(f"{KAFKA}RegexRouter", regex="there", replacement="{base}.there")
    return "plain", "dropped", "rewritten", "kept", "deletes", "changed", "changed_all"


def kafkas_own(chain: Chain) -> tuple[str, ...]:
    """Kafka's transforms; the tables."""
    unwrap = f"{DEBEZIUM}ExtractNewRecordState"
    chain.predicate("moved", "HasHeaderKey", name="__debezium.newkey")
    for table in ("inserted", "replaced", "masked", "keyed", "casted", "times", "named"):
        # Most of these transforms cannot take a null value.
        chain.on(table, unwrap, delete__tombstone__handling__mode="drop")
    chain.on(
        "inserted",
        f"{KAFKA}InsertField$Value",
        topic__field="topic_name",
        static__field="s!",
        static__value="x",
    )
    chain.on("inserted", f"{KAFKA}InsertField$Value", partition__field="part?", timestamp__field="ts")
    chain.on("inserted", f"{KAFKA}InsertField$Key", static__field="site", static__value="here")
    chain.on("inserted", f"{KAFKA}InsertHeader", header="h1", value__literal="01")
    chain.on("inserted", f"{KAFKA}InsertHeader", header="h2", value__literal='{"a": [1, 2.50]}')
    chain.on("inserted", f"{KAFKA}InsertHeader", header="h3", value__literal="2026-01-02T03:04:05.678Z")
    chain.on("inserted", f"{KAFKA}InsertHeader", header="h4", value__literal=" a text ")
    chain.on("inserted", f"{KAFKA}DropHeaders", headers="__debezium.context.taskId,nothing")
    chain.on(
        "inserted",
        f"{KAFKA}HeaderFrom$Value",
        fields="name,amount,f4,at,ids,data",
        operation="copy",
        headers="hn,ha,hf,ht,hi,hd",
    )
    chain.on("inserted", f"{KAFKA}HeaderFrom$Value", fields="big,small", headers="hb,hs", operation="move")
    chain.on("replaced", f"{KAFKA}ReplaceField$Value", exclude="doc,mood", renames="name:title,big:huge")
    chain.on(
        "replaced",
        f"{KAFKA}ReplaceField$Value",
        include="id,title,huge,amount",
        replace__null__with__default="false",
    )
    chain.on("replaced", f"{KAFKA}ReplaceField$Key", renames="id:ident")
    chain.on("masked", f"{KAFKA}MaskField$Value", fields="name,small,f8,yes,free_,doc,ids,zoned")
    chain.on("masked", f"{KAFKA}MaskField$Value", fields="topic,mood", replacement="***")
    chain.on("masked", f"{KAFKA}MaskField$Value", fields="big,f4", replacement="42")
    chain.on("keyed", f"{KAFKA}ValueToKey", fields="name,id")
    chain.on("keyed", f"{KAFKA}ExtractField$Key", field="name")
    chain.on("keyed", f"{KAFKA}HoistField$Value", field="row")
    chain.on("keyed", f"{KAFKA}HoistField$Key", field="k")
    chain.on(
        "casted",
        f"{KAFKA}Cast$Value",
        spec="small:string,big:int8,amount:float64,f4:float64,f8:int32,yes:int16,data:string,day:int64,at:string,id:boolean",
    )
    chain.on("casted", f"{KAFKA}ExtractField$Key", field="id")
    chain.on("casted", f"{KAFKA}Cast$Key", spec="string")
    chain.on(
        "times",
        f"{KAFKA}TimestampConverter$Value",
        field="at",
        target__type="string",
        format="yyyy-MM-dd'T'HH:mm:ss.SSS EEE",
    )
    chain.on(
        "times",
        f"{KAFKA}TimestampConverter$Value",
        field="zoned",
        target__type="Timestamp",
        format="yyyy-MM-dd'T'HH:mm:ss.SSS",
    )
    chain.on(
        "times",
        f"{KAFKA}TimestampConverter$Value",
        field="big",
        target__type="Date",
        unix__precision="seconds",
    )
    chain.on("named", f"{KAFKA}SetSchemaMetadata$Value", schema__name="com.example.Row", schema__version="7")
    chain.on("named", f"{KAFKA}SetSchemaMetadata$Key", schema__name="com.example.Key")
    chain.on("flat", f"{KAFKA}Flatten$Value", delimiter="_")
    chain.on(
        "routed", f"{KAFKA}RegexRouter", regex=r"(?<prefix>.*)\.public\.(\w+)", replacement="${prefix}-$2"
    )
    chain.add(f"{KAFKA}InsertHeader", header="key", value__literal="moved", predicate="moved")
    chain.add(f"{KAFKA}InsertHeader", header="key", value__literal="-1.5e3", predicate="moved", negate="true")
    return "inserted", "replaced", "masked", "keyed", "casted", "times", "named", "flat", "routed"


@pytest.mark.timeout(400)
def test_rows(compare: Any) -> None:
    chain = Chain(**{"provide.transaction.metadata": "true", "skipped.operations": "none"})
    names = unwrapping(chain)
    names += kafkas_own(chain)
    setup, steps = tables(*names)
    found = compare(chain.all(), setup, [[*steps[0], "TRUNCATE plain", "TRUNCATE flat"]])
    assert sum(len(records) for (topic, _), records in found.items() if topic.endswith(".there")) == 5


def routers(chain: Chain) -> tuple[str, ...]:
    """Debezium's routers and the rest of its transforms; the tables."""
    router = f"{DEBEZIUM}ByLogicalTableRouter"
    chain.on(
        "shard_(a|b)",
        router,
        topic__regex=r"(.*)\.shard_(.*)",
        topic__replacement="$1.all_shards",
        key__field__regex=r".*\.(.*)",
        key__field__replacement="$1",
    )
    chain.on(
        "shard_c",
        f"{DEBEZIUM}ToLogicalTopicRouter",
        topic__regex=r"(.*)\.shard_(.*)",
        topic__replacement="$1-more",
        key__field__regex=r".*\.(.*)",
        key__field__replacement="$1",
        schema__name__adjustment__mode="avro",
    )
    chain.on(
        "shard_d",
        router,
        topic__regex=r"(.*)\.shard_(.*)",
        topic__replacement="$1.plain",
        key__enforce__uniqueness="false",
    )
    routing = f"{DEBEZIUM}partitions.PartitionRouting"
    chain.on(
        "java",
        routing,
        partition__payload__fields="change.name,after.big,change.f8,change.yes,source.ts_none",
        partition__topic__num="2",
    )
    chain.on(
        "java_more",
        routing,
        partition__payload__fields="change.amount,change.data,change.ids,change.f4,change.free_",
        partition__topic__num="2",
    )
    chain.on(
        "murmur",
        routing,
        partition__payload__fields="change.name,change.id",
        partition__topic__num="2",
        partition__hash__function="murmur",
    )
    chain.on("zoned_all", f"{DEBEZIUM}TimezoneConverter", converted__timezone="America/New_York")
    chain.on(
        "zoned_some",
        f"{DEBEZIUM}TimezoneConverter",
        converted__timezone="+05:30",
        include__list="source:zoned_some:at,zoned_some:before.zoned",
    )
    chain.on(
        "zoned_not",
        f"{DEBEZIUM}TimezoneConverter",
        converted__timezone="Europe/Berlin",
        exclude__list="source:zoned_not:at",
    )
    to_value = f"{DEBEZIUM}HeaderToValue"
    chain.predicate("gone", "RecordIsTombstone")
    chain.on("moved", f"{KAFKA}InsertHeader", header="site", value__literal="5")
    chain.on(
        "moved",
        to_value,
        headers="site,__debezium.context.taskId",
        fields="extra.site,source.task",
        operation="move",
    )
    chain.on(
        "copied",
        to_value,
        headers="__debezium.newkey",
        fields="old",
        operation="copy",
    )
    chain.on(
        "changes", f"{DEBEZIUM}SchemaChangeEventFilter", schema__change__event__exclude__list="CREATE,ALTER"
    )
    chain.on("filtered", f"{KAFKA}Filter")
    chain.add(f"{KAFKA}InsertHeader", header="gone", value__literal="true", predicate="gone")
    return (
        "shard_a",
        "shard_b",
        "shard_c",
        "shard_d",
        "java",
        "java_more",
        "murmur",
        "zoned_all",
        "zoned_some",
        "zoned_not",
        "moved",
        "copied",
        "changes",
        "filtered",
    )


OUTBOX = """
    CREATE TABLE {t} (
        id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text, type text, payload {p},
        at timestamp(3), ver int, part int, trace text
    )
"""


def outbox(chain: Chain) -> tuple[list[str], list[str]]:
    """The outbox router; SQL before and after the start."""
    router = f"{DEBEZIUM}outbox.EventRouter"
    chain.on("outbox", router, route__topic__replacement="{base}.outbox.${routedByValue}")
    chain.on(
        "expanded",
        router,
        route__topic__replacement="{base}.x.${routedByValue}",
        table__expand__json__payload="true",
        table__fields__additional__placement="type:header,type:header:eventType,trace:header:traceparent",
        route__tombstone__on__empty__payload="true",
        table__field__event__timestamp="at",
    )
    chain.on(
        "enveloped",
        router,
        route__topic__replacement="{base}.e.${routedByValue}",
        table__expand__json__payload="true",
        table__fields__additional__placement="type:envelope:kind,ver:envelope,part:partition",
        table__json__payload__null__behavior="optional_bytes",
        table__json__payload__empty__array__behavior="optional_string",
    )
    chain.on(
        "versioned",
        router,
        route__topic__regex="(.*)-(.*)",
        route__topic__replacement="{base}.v.$2",
        table__fields__additional__placement="type:envelope,missing:header",
        table__field__additional__missing="ignore",
        table__field__event__schema__version="ver",
        table__field__event__key="type",
    )
    # A change has no time of its own; an outbox event has one, by which it can be routed on.
    chain.on(
        "timed",
        router,
        route__topic__replacement="{base}.timed",
        table__field__event__timestamp="at",
    )
    chain.on(
        "timed",
        f"{KAFKA}TimestampRouter",
        topic__format="${topic}-at-${timestamp}",
        timestamp__format="yyyy.MM.dd'T'HH",
    )
    types = {
        "outbox": "text",
        "timed": "text",
        "expanded": "jsonb",
        "enveloped": "text",
        "versioned": "bytea",
    }
    setup = [OUTBOX.format(t=name, p=payload) for name, payload in types.items()]
    documents = [
        """'{"a": 1, "b": {"c": "x", "d": null, "e": [], "f": [1, 2], "g": [{"h": 1}, {"h": 2, "i": true}]}, "j": 1.5}'""",
        """'{"big": 5000000000, "nested": {"deep": {"deeper": [[1], [2]]}}, "mixed": [1, "a"]}'""",
        """'"just text"'""",
        "NULL",
        """'{"a": 2}'""",
    ]
    # It becomes the record's time: an old one would be deleted by the topic's retention.
    now = "(now() AT TIME ZONE 'UTC')::timestamp(3)"
    steps = []
    for table, kind in types.items():
        for number, document in enumerate(documents):
            text = document if kind != "bytea" or document == "NULL" else f"convert_to({document}, 'UTF8')"
            steps.append(
                f"INSERT INTO {table} VALUES ('00000000-0000-0000-0000-00000000000{number}', 'order-{number % 2}',"
                f" 'k{number}', 'Created', {text}, {now}, {number % 2}, 0, '00-abc')"
            )
        steps.append(f"UPDATE {table} SET type = 'x' WHERE aggregateid = 'k1'")
        steps.append(f"DELETE FROM {table}")
    return setup, steps


@pytest.mark.timeout(400)
def test_events(compare: Any) -> None:
    # Keys without schemas, whose names differ: else the records would be in other partitions.
    chain = Chain(
        **{
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
            "key.converter": JSON,
            "key.converter.schemas.enable": "false",
        }
    )
    names = routers(chain)
    outbox_setup, outbox_steps = outbox(chain)
    chain.on(
        "zoned_source",
        f"{DEBEZIUM}TimezoneConverter",
        converted__timezone="Asia/Kathmandu",
        include__list="source:zoned_source:source.ts_ms,zoned_source:source.ts_ns",
    )
    setup, steps = tables(*names)
    setup += [*outbox_setup, f"CREATE TABLE zoned_source (LIKE {names[0]} INCLUDING ALL)"]
    # Debezium shifts source's times twice where a changed key makes two events: so no changes here.
    far = [
        f"INSERT INTO {table} (id, at, zoned) VALUES (79, '0001-01-01', '9999-12-31 23:59:59.999999+00'),"
        " (80, '9999-12-31 23:59:59.999', '0001-01-01+00'), (81, '12345-06-07', '12345-06-07+00')"
        for table in ("zoned_all", "zoned_some", "zoned_not")
    ]
    steps = [[*steps[0], *outbox_steps, *far, "INSERT INTO zoned_source VALUES (1, 'a')"]]
    found = compare(chain.all(), setup, steps)
    assert len({partition for topic, partition in found if topic.endswith((".java", ".murmur"))}) > 1


def test_avro(compare: Any, registry_url: str) -> None:
    unwrap = f"{DEBEZIUM}ExtractNewRecordState"
    chain = Chain(**avro_converter_settings(registry_url))
    chain.on("plain", unwrap, add__fields="op")
    chain.on("rewritten", unwrap, delete__tombstone__handling__mode="rewrite-with-tombstone")
    chain.on("rewritten", f"{KAFKA}Cast$Value", spec="small:string,f4:float64")
    chain.on("flat", f"{KAFKA}Flatten$Value", delimiter="_")
    chain.on("keyed", unwrap, delete__tombstone__handling__mode="drop")
    chain.on("keyed", f"{KAFKA}ValueToKey", fields="name,id")
    chain.on("keyed", f"{KAFKA}ExtractField$Key", field="name")
    setup, steps = tables("plain", "rewritten", "flat", "keyed")
    compare(chain.all(), setup, steps)
