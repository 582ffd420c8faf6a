"""Transforms: options and their errors, the intermediate form, what fails and in which words, one's own classes."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidings_capture.postgres.encoding.transform_output import TransformedOutput
from tidings_capture.postgres.settings.options import check_options
from tidings_connect.converters.encoding import make_converter
from tidings_connect.limits import ConnectorLimits, limited
from tidings_connect.transforms.chain import TransformError, check_transforms, make_chain
from tidings_connect.transforms.intermediate import IntermediateConverter
from tidings_connect.transforms.kinds import PREDICATES, TRANSFORMS
from tidings_connect.transforms.record import SourceRecord
from tidings_envelope import semantic
from tidings_envelope.schema import ConnectSchema, ConnectType

KAFKA = "org.apache.kafka.connect.transforms."
DEBEZIUM = "io.debezium.transforms."
ROW = semantic.struct(
    "t.Value", [("id", ConnectSchema(ConnectType.INT32)), ("name", semantic.OPTIONAL_STRING)]
).as_optional()
ENVELOPE = semantic.envelope("t.Envelope", ROW)
SOURCE = {field.name: None for field in semantic.POSTGRES_SOURCE.fields} | {
    "version": "3.7", "connector": "postgresql", "name": "t", "ts_ms": 1, "db": "d", "schema": "public", "table": "t",
    "lsn": 0x1_0000_0002,
}  # fmt: skip
JSON = {
    f"{kind}.converter{option}": value
    for kind in ("key", "value")
    for option, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "false"))
}


def event(op: str = "c", before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {**SOURCE, **source}, "transaction": None, "op": op,
            "ts_ms": 5, "ts_us": 5, "ts_ns": 5}  # fmt: skip


def record(value: Any = None, schema: Any = ENVELOPE, key: Any = None, **changes: Any) -> Any:
    made = SourceRecord("t.public.t", None, None, key, schema if value is not None else None, value, None, [])
    return made._replace(**changes)


def chain(*transforms: Any, predicates: tuple[Any, ...] = ()) -> Any:
    """A chain of ``(type, options)``."""
    config = {"transforms": ",".join(f"t{i}" for i in range(len(transforms)))}
    for i, (kind, options) in enumerate(transforms):
        config |= {f"transforms.t{i}.type": kind, **{f"transforms.t{i}.{k}": v for k, v in options.items()}}
    return make_chain(config)


def apply(made: Any, one: Any) -> Any:
    return made.apply(one, "a record")


# Options


@pytest.mark.parametrize(
    ("options", "option", "words"),
    [
        ({"transforms": "a"}, "transforms.a.type", 'Missing required configuration "transforms.a.type" which has no'),
        ({"transforms": "a", "transforms.a.type": "com.example.X"}, "transforms.a.type",
         "Invalid value com.example.X for configuration transforms.a.type: Class com.example.X could not be found."),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}Cast"}, "transforms.a.type", "Cast$Key or"),
        ({"transforms": "a", "transforms.a.type": f"{DEBEZIUM}EnforceRecordSize"}, "transforms.a.type", "not implemented"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}HoistField$Key"}, "transforms.a.field",
         'Missing required configuration "transforms.a.field" which has no default value.'),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}RegexRouter", "transforms.a.regex": "(",
          "transforms.a.replacement": "x"}, "transforms.a.regex", "Invalid regex"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}RegexRouter", "transforms.a.regex": "(.*)",
          "transforms.a.replacement": "$2"}, "transforms.a.replacement", "No group 2"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}Cast$Value", "transforms.a.spec": "a:int9"},
         "transforms.a.spec", "Invalid type found in casting spec: int9"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}SetSchemaMetadata$Value", "transforms.a.schema.version": "x"},
         "transforms.a.schema.version", "Invalid value x for configuration transforms.a.schema.version: Not a number"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}InsertField$Value"}, "transforms.a.type", "No field insertion"),
        ({"transforms": "a", "transforms.a.type": f"{DEBEZIUM}ExtractNewRecordState", "transforms.a.drop.tombstones": "x"},
         "transforms.a.drop.tombstones", "no such option"),
        ({"transforms": "a", "transforms.a.type": f"{DEBEZIUM}ExtractNewRecordState",
          "transforms.a.delete.tombstone.handling.mode": "x"}, "transforms.a.delete.tombstone.handling.mode", "rewrite"),
        ({"transforms": "a", "transforms.a.type": f"{DEBEZIUM}Filter", "transforms.a.language": "jsr223.groovy",
          "transforms.a.condition": "true"}, "transforms.a.language", "jsr223.python"),
        ({"transforms": "a", "transforms.a.type": f"{DEBEZIUM}Filter", "transforms.a.language": "jsr223.python",
          "transforms.a.condition": "value.__class__"}, "transforms.a.condition", "starts with _"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}Filter", "transforms.a.negate": "true"},
         "transforms.a.negate", "defining a predicate to be negated"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}Filter", "transforms.a.predicate": "p"},
         "transforms.a.predicate", "predicates does not name it"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}Filter", "transforms.b.type": "x"}, "transforms.b.type",
         "transforms does not name b"),
        ({"transforms": "a,a", "transforms.a.type": f"{KAFKA}Filter"}, "transforms", "more than once"),
        ({"predicates": "p", "predicates.p.type": f"{KAFKA}predicates.TopicNameMatches"}, "predicates.p.pattern",
         'Missing required configuration "predicates.p.pattern"'),
        ({"transforms": "a", "transforms.a.type": "no.such.module:Class"}, "transforms.a.type", "cannot be imported"),
        ({"transforms": "a", "transforms.a.type": "json:JSONDecoder"}, "transforms.a.type", "not a subclass"),
        ({"transforms": "a", "transforms.a.type": f"{DEBEZIUM}TimezoneConverter", "transforms.a.converted.timezone": "Mars"},
         "transforms.a.converted.timezone", "America/Los_Angeles"),
        ({"transforms": "a", "transforms.a.type": f"{KAFKA}HeaderFrom$Value", "transforms.a.fields": "a,b",
          "transforms.a.headers": "a", "transforms.a.operation": "copy"}, "transforms.a.fields", "same number"),
    ],
)  # fmt: skip
def test_wrong_options_are_named(options: dict[str, str], option: str, words: str) -> None:
    with limited(ConnectorLimits(transform_modules=("no.such", "json"))):
        (text,) = check_transforms(options)[option]
        assert words in text
        assert text in check_options(options)[option]


@pytest.mark.listing
def test_every_class_is_known_by_its_java_name() -> None:
    assert f"{KAFKA}ReplaceField$Key" in TRANSFORMS
    assert f"{KAFKA}predicates.HasHeaderKey" in PREDICATES
    assert len(TRANSFORMS) == 10 * 2 + 6 + 11


# The intermediate form


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ConnectSchema(ConnectType.INT64), -(2**63)),
        (ConnectSchema(ConnectType.FLOAT32), 3.3),
        (ConnectSchema(ConnectType.FLOAT64), -0.1),
        (ConnectSchema(ConnectType.STRING, optional=True, default="d"), None),
        (ConnectSchema(ConnectType.STRING, optional=True, default="d"), "x\u00e9"),
        (ConnectSchema(ConnectType.BYTES, optional=True), b"\x00" * 100),
        (semantic.decimal(2).as_optional(), Decimal("-12345678901234567890.12")),
        (semantic.array(semantic.OPTIONAL_INT64), [1, None, -1] * 50),
        (
            ConnectSchema(ConnectType.MAP, keys=semantic.STRING, items=semantic.OPTIONAL_STRING),
            {"a": None, "b": "c"},
        ),
        (ENVELOPE, event(after={"id": 1, "name": None})),
        (semantic.struct("Odd-Name 1", [("a b", ConnectSchema(ConnectType.BOOLEAN))]), {"a b": True}),
    ],
)
def test_what_a_plan_writes_is_read_back(schema: Any, value: Any) -> None:
    converter = IntermediateConverter()
    converter.encoder("t", semantic.STRING)
    data = converter.encoder("t", schema)(value)
    found_schema, found = converter.read(data)
    assert found_schema is schema
    assert found == value
    assert not isinstance(value, dict) or list(found) == list(value)


def test_equal_keys_are_equal_bytes_whichever_plan_has_written_them() -> None:
    """By them a snapshot's rows are known among the stream's, whose plan is another."""
    converter = IntermediateConverter()
    key, other = (
        semantic.struct("t.Key", [("id", ConnectSchema(kind))])
        for kind in (ConnectType.INT32, ConnectType.INT64)
    )
    again = semantic.struct("t.Key", [("id", ConnectSchema(ConnectType.INT32))])
    written = [converter.encoder("t", schema)({"id": 7}) for schema in (key, other, again)]
    assert written[0] == written[2] != written[1]
    assert [converter.read(data)[0] for data in written] == [key, other, key]


# Records through the whole of it


class Producer:
    """Collects what is sent."""

    def __init__(self) -> None:
        self.sent = []

    def send_one(self, *args: Any) -> None:
        self.sent.append(args)


def output(made: Any) -> tuple[Any, ...]:
    producer, topics = Producer(), []
    converters = make_converter(JSON, is_key=True), make_converter(JSON, is_key=False)
    return TransformedOutput(made, converters, producer, topics.append), producer.sent, topics


def test_records_are_transformed_encoded_and_their_topics_made_once() -> None:
    made, sent, topics = output(chain((f"{KAFKA}RegexRouter", {"regex": ".*", "replacement": "else"})))
    encode = made.converter.encoder("t", ENVELOPE)
    made.send("t", [(None, encode(event(after={"id": 1, "name": "a"})), [("h", b"x")])])
    made.send("t", [(None, None, None)])
    assert topics == ["else"]
    (topic, key, value, headers, partition, timestamp), tombstone = sent
    assert (topic, key, headers, partition, timestamp) == ("else", None, [("h", b"x")], None, None)
    assert b'"after":{"id":1,"name":"a"}' in value
    assert tombstone == ("else", None, None, [], None, None)


def test_heartbeats_have_partition_zero_as_debeziums() -> None:
    made, sent, _ = output(chain((f"{KAFKA}InsertField$Value", {"partition.field": "p"})))
    made.send("h", [(None, made.converter.encoder("h", semantic.HEARTBEAT_VALUE)({"ts_ms": 1}), None)])
    assert sent[0][2] == b'{"ts_ms":1,"p":0}'
    assert sent[0][4] == 0


def test_a_source_s_record_has_no_offset() -> None:
    made, _, _ = output(chain((f"{KAFKA}InsertField$Value", {"offset.field": "o"})))
    with pytest.raises(TransformError, match="only sinks have them"):
        made.send(
            "t", [(None, made.converter.encoder("t", ENVELOPE)(event(after={"id": 1, "name": "a"})), None)]
        )


def test_a_dropped_record_makes_no_topic() -> None:
    made, sent, topics = output(chain((f"{KAFKA}Filter", {})))
    made.send("t", [(None, made.converter.encoder("t", semantic.STRING)("x"), None)])
    assert (sent, topics) == ([], [])


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Writes a module of transforms: `own(source)` returns its name."""

    def write(source: Any) -> str:
        name = f"own_transforms_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{name}.py").write_text(
            "from tidings_connect.transforms.record import DataError, Transform\n" + textwrap.dedent(source)
        )
        return name

    monkeypatch.syspath_prepend(str(tmp_path))
    with limited(ConnectorLimits(transform_modules=(f"own_transforms_{tmp_path.name.replace('-', '_')}",))):
        yield write
    for name in [name for name in sys.modules if name.startswith("own_transforms_")]:
        del sys.modules[name]


def test_a_transform_of_ones_own_gets_its_options(own: Callable[..., Any]) -> None:
    name = own(
        """
        class Suffix(Transform):
            def apply(self, record):
                return record.with_topic(record.topic + self.settings["suffix"])
        """
    )
    made = chain((f"{name}:Suffix", {"suffix": "-x"}))
    assert apply(made, record()).topic == "t.public.t-x"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return record.value['secret']", "KeyError in apply, line 4 of"),
        ("raise ValueError(record.value['after']['name'])", "ValueError in apply, line 4 of"),
        ("raise DataError('the name is no name')", "the name is no name"),
        (
            "return record.with_value(record.value_schema, {**record.value, 'op': 5})",
            "field op is of type int",
        ),
        ("return record.with_value(record.value_schema, {**record.value, 'op': None})", "required field op"),
        ("return record.with_value(record.value_schema, {**record.value, 'more': 5})", "does not have: more"),
        ("return record._replace(topic='')", "without a topic"),
        ("return record._replace(value_schema=None, value={1: object()})", "type object cannot be written"),
    ],
)
def test_a_broken_one_fails_with_its_name_and_the_position_and_no_value(
    own: Callable[..., Any], body: str, words: str
) -> None:
    name = own(f"class Broken(Transform):\n    def apply(self, record):\n        {body}\n")
    made, _, _ = output(chain((f"{name}:Broken", {})))
    data = made.converter.encoder("t", ENVELOPE)(event(after={"id": 1, "name": "hush-hush"}))
    with pytest.raises(TransformError) as caught:
        made.send("t.public.t", [(None, data, None)])
    text = str(caught.value)
    assert words in text
    assert "topic t.public.t at LSN 1/2" in text
    assert "hush" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


# Single transforms, where real Kafka Connect cannot be asked


def test_filter_and_router_by_expression() -> None:
    keep = {"language": "jsr223.python", "condition": "value.after.id > 1", "topic.regex": ".*public.*"}
    made = chain((f"{DEBEZIUM}Filter", keep))
    assert apply(made, record(event(after={"id": 1, "name": None}))) is None
    assert apply(made, record(event(after={"id": 2, "name": None}))) is not None
    assert apply(made, record(event(after={"id": 1, "name": None}), topic="other")) is not None
    assert apply(made, record()) is not None
    assert apply(chain((f"{DEBEZIUM}Filter", {**keep, "null.handling.mode": "drop"})), record()) is None
    route = {"language": "python", "topic.expression": "topic + '-' + value.op if value.op == 'c' else None"}
    made = chain((f"{DEBEZIUM}ContentBasedRouter", route))
    assert apply(made, record(event())).topic == "t.public.t-c"
    assert apply(made, record(event("u"))).topic == "t.public.t"
    with pytest.raises(TransformError, match="gives a int"):
        apply(chain((f"{DEBEZIUM}ContentBasedRouter", {**route, "topic.expression": "1"})), record(event()))


def test_only_a_time_that_is_null_becomes_its_default_in_another_zone() -> None:
    row = semantic.struct(
        "t.Row",
        [
            ("id", semantic.OPTIONAL_INT64),
            ("n", replace(semantic.OPTIONAL_INT64, default=7)),
            ("at", replace(semantic.MICRO_TIMESTAMP, optional=True, default=7_200_000_000)),
        ],
    ).as_optional()
    made = chain((f"{DEBEZIUM}TimezoneConverter", {"converted.timezone": "+02:00"}))
    value = event(after={"id": 1, "n": None, "at": None})
    found = apply(made, record(value, semantic.envelope("t.Envelope", row))).value["after"]
    assert found == {"id": 1, "n": None, "at": 0}


def test_schema_changes_are_filtered_by_kind() -> None:
    made = chain(
        (f"{DEBEZIUM}SchemaChangeEventFilter", {"schema.change.event.exclude.list": "DROP,DATABASE"})
    )
    schema = semantic.struct("io.debezium.connector.postgresql.SchemaChangeValue", [])
    for changes, kept in (
        ([{"type": "DROP"}], False),
        ([{"type": "ALTER"}], True),
        ([], False),
        (None, False),
    ):
        found = apply(made, record({"tableChanges": changes}, schema))
        assert (found is not None) is kept


def test_our_own_schema_changes_are_filtered_by_their_command() -> None:
    made = chain((f"{DEBEZIUM}SchemaChangeEventFilter", {"schema.change.event.exclude.list": "DROP,ALTER"}))
    schema = semantic.struct("tidings.capture.SchemaChange", [])
    kept = [
        command
        for command in ("CREATE TABLE", "ALTER TABLE", "DROP TYPE", "drop table", None)
        if apply(made, record({"command": command}, schema)) is not None
    ]
    assert kept == ["CREATE TABLE"]


def test_timestamp_router_takes_the_records_time() -> None:
    made = chain(
        (
            f"{KAFKA}TimestampRouter",
            {"topic.format": "${timestamp}_${topic}", "timestamp.format": "yyyy.MM.dd HH"},
        )
    )
    assert apply(made, record(timestamp=1_767_323_045_678)).topic == "2026.01.02 03_t.public.t"
    with pytest.raises(TransformError, match="Timestamp missing"):
        apply(made, record())


def test_field_paths_of_version_two() -> None:
    for path, version, found in (
        ("after.name", "V2", "a"), ("`after`.name", "V2", "a"), ("source.`lsn`", "V2", SOURCE["lsn"]),
    ):  # fmt: skip
        made = chain((f"{KAFKA}ExtractField$Value", {"field": path, "field.syntax.version": version}))
        assert apply(made, record(event(after={"id": 1, "name": "a"}))).value == found
    with pytest.raises(TransformError, match=r"Unknown field: after\.name"):
        apply(chain((f"{KAFKA}ExtractField$Value", {"field": "after.name"})), record(event()))


def test_a_delete_and_its_tombstone_share_headers_as_in_kafka_connect() -> None:
    options = {"delete.tombstone.handling.mode": "rewrite-with-tombstone", "add.headers": "op,table"}
    made, sent, _ = output(chain((f"{DEBEZIUM}ExtractNewRecordState", options)))
    headers = [("c", b"x")]
    data = made.converter.encoder("t", ENVELOPE)(event("d", before={"id": 1, "name": None}))
    made.send("t", [(None, data, headers), (None, None, headers)])
    assert [found[3] for found in sent] == [
        [("c", b"x"), ("__op", b"d"), ("__table", b"t")],
        [("c", b"x"), ("__op", b"d"), ("__table", b"t"), ("__op", b"d")],
    ]


def test_the_key_headers_of_a_changed_key_are_structs() -> None:
    key_schema = semantic.struct("t.Key", [("id", ConnectSchema(ConnectType.INT32))])
    made, sent, _ = output(
        chain(
            (
                f"{DEBEZIUM}HeaderToValue",
                {"headers": "__debezium.oldkey", "fields": "old", "operation": "move"},
            )
        )
    )
    key, value = (made.converter.encoder("t", schema) for schema in (key_schema, ENVELOPE))
    row = {"id": 1, "name": None}
    made.send(
        "t",
        [
            (key({"id": 1}), value(event("d", before=row)), [("__debezium.newkey", b'{"id":2}')]),
            (key({"id": 1}), None, [("__debezium.newkey", b'{"id":2}')]),
            (key({"id": 2}), value(event("c", after=row)), [("__debezium.oldkey", b'{"id":1}')]),
        ],
    )
    assert [found[3] for found in sent] == [[("__debezium.newkey", b'{"id":2}')]] * 2 + [[]]
    assert sent[2][2].endswith(b'"old":{"id":1}}')


def test_schemaless_values_are_written_as_json() -> None:
    made = chain((f"{KAFKA}HoistField$Value", {"field": "f"}))
    assert apply(made, record()).value == {"f": None}
    made, sent, _ = output(made)
    made.send("t", [(None, None, None)])
    assert sent[0][2] == b'{"f":null}'
