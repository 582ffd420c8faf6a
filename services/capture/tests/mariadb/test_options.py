"""What of MariaDB's connector needs no server: options that are refused by name, statements told apart, the shortest floats."""

import struct

import pytest
from mariadb_worker import Config

from tidings_capture.mysql.binlog.statements import Kind, kind_of
from tidings_capture.mysql.connector import MariaDbConnector
from tidings_capture.mysql.encoding.fields import shortest_float
from tidings_capture.mysql.settings.options import OBEYED, REFUSED
from tidings_connect.errors import OptionError
from tidings_connect.testing.memory_worker import MemoryWorker


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"include.schema.changes": "often"}, "include.schema.changes"),
        ({"snapshot.locking.mode": "custom"}, "snapshot.locking.mode"),
        ({"snapshot.lock.timeout.ms": "0"}, "snapshot.lock.timeout.ms"),
        ({"post.processors": "a"}, "post.processors"),
        ({"topic.prefix": "a b"}, "topic.prefix"),
        ({"max.queue.size": "9", "max.batch.size": "9"}, "max.queue.size"),
        ({"skipped.operations": "none,t"}, "skipped.operations"),
        ({"skipped.operations": "x"}, "skipped.operations"),
        ({"column.mask.with.3.letters": "a.b.c"}, "column.mask.with.3.letters"),
        ({"column.mask.hash.CRC.with.salt.s": "a.b.c"}, "the digest CRC"),
        ({"topic.naming.strategy": "io.debezium.schema.SchemaRegexTopicNamingStrategy"}, "topic.regex"),
        ({"guardrail.collections.max": "5"}, "guardrail.collections.max"),
        ({"snapshot.mode": "custom"}, "snapshot.mode"),
        ({"time.precision.mode": "adaptive"}, "time.precision.mode"),
        ({"database.server.id": "0"}, "database.server.id"),
        ({"table.include.list": "a", "table.exclude.list": "b"}, "table.exclude.list"),
        ({"database.hostnam": "x"}, "did you mean database.hostname"),
    ],
)
def test_options_that_are_not_obeyed_are_refused_by_name(config: Config, options: Config, word: str) -> None:
    with MemoryWorker(MariaDbConnector(), "c") as worker, pytest.raises(OptionError) as raised:
        worker.put({**config, **options})
    assert word in str(raised.value)


def test_what_is_refused_may_have_the_value_that_is_debeziums_default(config: Config) -> None:
    told = {name: values[-1] if values else "" for name, values in REFUSED.items()}
    told |= {option.name: option.default for option in OBEYED if option.default is not None}
    assert MariaDbConnector().problems({**told, **config, "name": "x", "connector.class": "y"}) == {}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, None),
        ({"kafka.topic": "t", "kafka.bootstrap.servers": "b:1", "kafka.recovery.attempts": "3"}, None),
        ({"kafka.topic": "t"}, "kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "b:1"}, "kafka.topic"),
        (
            {"kafka.topic": "t", "kafka.bootstrap.servers": "b:1", "producer.sasl.mechanism": "GSSAPI"},
            "kafka.topic",
        ),
    ],
)
def test_a_history_is_not_needed_but_may_be_named(config: Config, options: Config, named: str | None) -> None:
    history = {f"schema.history.internal.{name}": value for name, value in options.items()}
    problems = MariaDbConnector().problems({**config, "name": "x", "connector.class": "y", **history})
    assert list(problems) == ([] if named is None else [f"schema.history.internal.{named}"])


def test_another_kind_of_history_is_refused_by_name(config: Config) -> None:
    file = {"schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory"}
    problems = MariaDbConnector().problems({**config, "name": "x", "connector.class": "y", **file})
    assert list(problems) == ["schema.history.internal"]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (b"BEGIN", Kind.BEGIN), (b"COMMIT", Kind.COMMIT), (b"ROLLBACK", Kind.ROLLBACK), (b"SAVEPOINT a", Kind.SAVEPOINT),
        (b"ROLLBACK TO `a`", Kind.BACK_TO_SAVEPOINT), (b" /* x */ insert into t values (1)", Kind.ROWS),
        (b"/*!100101 UPDATE*/ t", Kind.ROWS), (b"-- x\n# y\nDELETE FROM t", Kind.ROWS), (b"XA PREPARE 'a'", Kind.XA),
        (b"XA COMMIT X'78',X'',1", Kind.XA_COMMIT), (b"xa rollback 'a'", Kind.XA_ROLLBACK),
        (b"CREATE TABLE t (a INT)", Kind.OTHER), (b"alter table t add b int", Kind.OTHER), (b"", Kind.ROWS),
        (b"BEGIN NOT ATOMIC", Kind.ROWS), (b"(SELECT 1)", Kind.ROWS),
    ],
)  # fmt: skip
def test_statements_are_told_apart(statement: bytes, kind: Kind) -> None:
    assert kind_of(statement) is kind


@pytest.mark.parametrize("short", [0.1, 3.4028235e38, -1e-30, 1234.567, 16777216.0, 1.4e-45, 0.0])
def test_floats_are_the_shortest_that_are_the_same(short: float) -> None:
    assert shortest_float(struct.unpack("<f", struct.pack("<f", short))[0]) == short
