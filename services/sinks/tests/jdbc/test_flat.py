"""The classes for flat records, Confluent's and Aiven's: every option is obeyed or refused by name, with their answers."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sink_targets import Sink, connection_options

from tidings_connect.config.option import Option
from tidings_connect.config.plugins import find_connector
from tidings_connect.testing.memory_worker import MemoryWorker
from tidings_connect.testing.sink_contract import SinkCase, SinkContract
from tidings_sinks.jdbc.connector import AivenJdbcSink, ConfluentJdbcSink
from tidings_sinks.jdbc.flat_options import AIVEN, CONFLUENT
from tidings_sinks.jdbc.settings import Naming

CONFIG = {"topics": "orders", "connection.url": "jdbc:postgresql://db/shop"}
OF_CONFLUENT = (
    "connection.url connection.user connection.password dialect.name connection.attempts connection.backoff.ms insert.mode"
    " batch.size delete.enabled table.types table.name.format pk.mode pk.fields fields.whitelist db.timezone db.timezone.date"
    " auto.create auto.evolve quote.sql.identifiers mssql.use.merge.holdlock max.retries retry.backoff.ms trim.sensitive.log"
)
OF_AIVEN = (
    "connection.url connection.user connection.password db.timezone dialect.name sql.quote.identifiers insert.mode batch.size"
    " delete.enabled table.name.format table.name.normalize topics.to.tables.mapping pk.mode pk.fields fields.whitelist"
    " auto.create auto.evolve max.retries retry.backoff.ms handle.tombstone"
)
CLASSES = [(ConfluentJdbcSink(), OF_CONFLUENT), (AivenJdbcSink(), OF_AIVEN)]
KEY = {"type": "struct", "optional": False, "fields": [{"type": "int32", "optional": False, "field": "id"}]}
JSON = "org.apache.kafka.connect.json.JsonConverter"


def problems(connector: ConfluentJdbcSink, **changes: str) -> dict[str, list[str]]:
    named = {name.replace("_", "."): text for name, text in changes.items()}
    return connector.problems(CONFIG | named | {"connector.class": connector.class_name})


@pytest.mark.listing
@pytest.mark.parametrize(("connector", "names"), CLASSES)
def test_each_option_is_obeyed_or_refused_by_name(connector: ConfluentJdbcSink, names: str) -> None:
    assert type(find_connector(connector.class_name)) is type(connector)
    known = {option.name for option in connector.own_options}
    for name in names.split():
        assert (name in known) != (name in connector.refused), name
    assert known - set(names.split()) == {"tidings.positions.table"}
    assert problems(connector) == {}


@pytest.mark.listing
@pytest.mark.parametrize("option", dict.fromkeys((*CONFLUENT, *AIVEN)), ids=lambda option: option.name)
def test_each_option_says_what_it_means(option: Option) -> None:
    assert option.documentation.endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("insert.mode", "replace", "Invalid value replace for configuration insert.mode: Invalid enumerator"),
        ("insert.mode", "Insert", "Invalid value Insert for configuration insert.mode: Invalid enumerator"),
        ("batch.size", "many", "Invalid value many for configuration batch.size: Not a number of type INT"),
        ("batch.size", "-1", "Invalid value -1 for configuration batch.size: Value must be at least 0"),
        ("pk.mode", "key", "Invalid value key for configuration pk.mode: Invalid enumerator"),
        ("delete.enabled", "1", "Invalid value 1 for configuration delete.enabled: Expected value to be either true or false"),
        ("db.timezone", "Mars/Olympus", "Invalid value Mars/Olympus for configuration db.timezone: Invalid time zone identifier"),
        ("max.retries", "-1", "Invalid value -1 for configuration max.retries: Value must be at least 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("connector", [connector for connector, _ in CLASSES])
def test_a_wrong_value_has_the_reference_s_answer(
    connector: ConfluentJdbcSink, name: str, value: str, answer: str
) -> None:
    assert problems(connector, **{name: value}) == {name: [answer]}


def test_options_that_do_not_go_together() -> None:
    confluent, aiven = ConfluentJdbcSink(), AivenJdbcSink()
    assert problems(confluent, delete_enabled="true") == {
        "pk.mode": ["'none' is invalid: Deletes are only supported for pk.mode 'record_key'"]
    }
    assert problems(aiven, delete_enabled="true") == {
        "delete.enabled": ["Delete support only works with pk.mode=record_key"]
    }
    assert set(problems(confluent, insert_mode="upsert")) == {"insert.mode"}
    assert set(problems(aiven, pk_mode="kafka", pk_fields="a,b")) == {"pk.fields"}
    assert set(problems(confluent, dialect_name="SqliteDatabaseDialect")) == {"dialect.name"}
    assert set(problems(confluent, dialect_name="OracleDatabaseDialect")) == {"dialect.name"}
    assert set(problems(confluent, max_retries="50", retry_backoff_ms="3000")) == {"max.retries"}
    assert set(problems(confluent, insert_mode="multi")) == {"insert.mode"}
    assert set(problems(aiven, topics_to_tables_mapping="a")) == {"topics.to.tables.mapping"}
    assert (
        "not implemented"
        in problems(confluent, mssql_use_merge_holdlock="true")["mssql.use.merge.holdlock"][0]
    )
    assert set(problems(confluent, table_types="SYNONYM")) == {"table.types"}


def test_what_the_options_mean() -> None:
    settings = AivenJdbcSink().read(
        "copy",
        CONFIG
        | {
            "insert.mode": "MULTI",
            "pk.mode": "kafka",
            "pk.fields": "t,p,o",
            "batch.size": "0",
            "table.name.normalize": "true",
            "topics.to.tables.mapping": "orders:shop.all_orders",
            "sql.quote.identifiers": "false",
        },
    )
    assert (settings.insert_mode, settings.batch, settings.naming) == ("insert", 1, Naming.NORMALIZED)
    assert (settings.kafka_columns, settings.key_fields) == (("t", "p", "o"), ())
    assert settings.tables == {"orders": "shop.all_orders"}
    assert not settings.quotes
    assert ConfluentJdbcSink().read("copy", CONFIG).quotes
    assert not ConfluentJdbcSink().read("copy", CONFIG | {"quote.sql.identifiers": "never"}).quotes


@pytest.fixture(params=[ConfluentJdbcSink, AivenJdbcSink])
def flat(request: pytest.FixtureRequest, pg_database: str) -> Iterator[Sink]:
    """A sink of each class on a worker in memory, for records with schemas."""
    connection = connection_options(pg_database)
    connection["connection.user"] = connection.pop("connection.username")
    schemas = {f"{side}.converter.schemas.enable": "true" for side in ("key", "value")}
    with MemoryWorker(request.param(), "sink") as worker:
        yield Sink(worker, {**connection, **schemas, "auto.create": "true", "auto.evolve": "true"})


def row(**fields: tuple[dict[str, Any], Any]) -> dict[str, Any]:
    """A flat record's value: each field as its schema and its value."""
    schemas = [{"optional": name != "id", **schema, "field": name} for name, (schema, _) in fields.items()]
    return {
        "schema": {"type": "struct", "optional": False, "fields": schemas},
        "payload": {name: value for name, (_, value) in fields.items()},
    }


def key(number: int) -> dict[str, Any]:
    return {"schema": KEY, "payload": {"id": number}}


INT = {"type": "int32"}
TEXT = {"type": "string"}
MOMENT = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}


def test_upserts_deletes_and_new_columns(flat: Sink, target: Callable[..., list[tuple[Any, ...]]]) -> None:
    flat.start("shop.public.orders", insert_mode="upsert", pk_mode="record_key", delete_enabled="true", db_timezone="Europe/Helsinki", table_name_format="public.of_Orders")  # fmt: skip
    moment = 1_767_312_000_000  # 2026-01-02 00:00 UTC
    flat.send("shop.public.orders", key(1), row(id=(INT, 1), Name=(TEXT, "a"), at=(MOMENT, moment)))
    flat.send("shop.public.orders", key(1), None)
    flat.send("shop.public.orders", key(1), row(id=(INT, 1), Name=(TEXT, "b"), at=(MOMENT, moment)))
    flat.send(
        "shop.public.orders", key(2), row(id=(INT, 2), Name=(TEXT, None), at=(MOMENT, None), more=(INT, 5))
    )
    flat.wait()
    assert target('SELECT id, "Name", at::text, more FROM "of_Orders" ORDER BY id') == [
        (1, "b", "2026-01-02 02:00:00", None),
        (2, None, None, 5),
    ]


def test_a_dot_of_the_topic_parts_schema_and_table(
    flat: Sink, target: Callable[..., list[tuple[Any, ...]]]
) -> None:
    target("CREATE SCHEMA other")
    flat.start("x.other.things", pk_mode="kafka")
    flat.send("x.other.things", None, row(id=(INT, 7)))
    flat.wait()
    assert target("SELECT * FROM other.things") == [("x.other.things", 0, 0, 7)]


def test_what_such_a_connector_does_not_take(
    flat: Sink, target: Callable[..., list[tuple[Any, ...]]]
) -> None:
    flat.start("t", errors_tolerance="all", errors_deadletterqueue_topic_name="letters", errors_deadletterqueue_context_headers_enable="true")  # fmt: skip
    envelope = row(before=(TEXT, None), after=(TEXT, None), op=(TEXT, "c"), source=(TEXT, None))
    flat.send("t", None, envelope)
    flat.send("t", None, None)
    flat.send("t", None, row(id=(INT, 1)))
    flat.wait()
    assert target("SELECT id FROM t") == [(1,)]
    told = json.dumps([str(headers) for _, _, headers in flat.worker.kafka.topics["letters"]])
    assert re.search("ExtractNewRecordState", told)
    assert re.search("deletes are not enabled", told)


@pytest.mark.parametrize(
    ("option", "words"), [("auto.create", "auto.create=true"), ("auto.evolve", "auto.evolve=true")]
)
def test_nothing_is_made_unless_it_is_allowed(
    flat: Sink, target: Callable[..., list[tuple[Any, ...]]], option: str, words: str
) -> None:
    if option == "auto.evolve":
        target("CREATE TABLE t (id int)")
    flat.config[option] = "false"
    flat.start("t")
    flat.send("t", None, row(id=(INT, 1), name=(TEXT, "a")))
    flat.worker.wait_for(lambda: flat.worker.error is not None, "the end of the task")
    assert words in f"{flat.worker.error} {getattr(flat.worker.error, 'hint', '')}"


class TestContract(SinkContract):
    @pytest.fixture
    def case(self, pg_database: str, target: Callable[..., list[tuple[Any, ...]]]) -> SinkCase:
        target("CREATE TABLE things (place bigserial, number integer NOT NULL)")
        connection = connection_options(pg_database)
        connection["connection.user"] = connection.pop("connection.username")
        return SinkCase(
            connector=ConfluentJdbcSink(),
            config={**connection, "table.name.format": "things"},
            numbers=lambda: [number for (number,) in target("SELECT number FROM things ORDER BY place")],
            repeats=False,
            changed={"batch.size": "2"},
            wrong=("pk.mode", "some"),
        )
