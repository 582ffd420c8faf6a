"""Options of MariaDB's connector beside Debezium's, on the same tables and log: names, masks, source types, times, unchanged rows."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from binlog.kinds import kinds, kinds_table
from binlog.options import Compared
from mariadb_parts import Database
from side_by_side import rest

from tidings_capture.mysql.connector import MariaDbConnector, MySqlConnector
from tidings_stack.connect import ConnectServer

ODD = (
    "CREATE TABLE `odd-näme` (`a-b` INT PRIMARY KEY COMMENT 'the key', `1x` VARCHAR(9) COMMENT 'it''s', `über` INT, `p_q` INT,"
    " `x.y` ENUM('a', 'b')) COMMENT 'of a table'"
)
ODD_ROWS = ("INSERT INTO `odd-näme` VALUES (1, 'a', 1, 1, 'a')", "UPDATE `odd-näme` SET `über` = 2")
TEXTS = (
    "CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(40), v VARCHAR(300) NOT NULL, s VARCHAR(5), t TEXT, tiny TINYTEXT, e ENUM('first', 'second'),"
    " m SET('x', 'y', 'z'), j JSON, n INT, d DECIMAL(9, 2), vb VARBINARY(50), bl BLOB, bn BINARY(8), b BIT(12), ts TIMESTAMP(3) NULL, da DATE,"
    " lat VARCHAR(50) CHARACTER SET latin1)"
)
TEXT_ROWS = (
    (
        "INSERT INTO texts VALUES (1, 'abcdefgh', 'Grüße 😀😀😀 und mehr', 'abcde', REPEAT('long ', 100), 'tiny text', 'second', 'x,z',"
        " '{\"a\": 1}', 1234567, 1234.56, x'0102030405', x'0102030405060708', x'0102', 4000, '2026-01-02 03:04:05.678', '2026-01-02',"
        " 'größer')"
    ),
    "INSERT INTO texts (id, v) VALUES (2, '')",
    "UPDATE texts SET v = 'other', t = NULL WHERE id = 1",
    "UPDATE texts SET t = 'back', s = NULL WHERE id = 1",
    "DELETE FROM texts WHERE id = 2",
)
TIMES = (
    (
        "CREATE TABLE times (id INT PRIMARY KEY, da DATE, dn DATE NOT NULL DEFAULT '2020-01-02', tm TIME, tm3 TIME(3), tm6 TIME(6) NOT NULL"
        " DEFAULT '01:02:03.000004', dt DATETIME, dt3 DATETIME(3), dt6 DATETIME(6), dd DATETIME(6) NOT NULL DEFAULT '2020-01-02 03:04:05.6',"
        " ts TIMESTAMP(6) NULL, y YEAR)"
    ),
    (
        "INSERT INTO times VALUES (1, '2026-01-02', '1999-12-31', '23:59:59', '00:00:00.001', '12:00:00.5', '2026-01-02 00:00:00',"
        " '2026-01-02 03:04:05.670', '2026-01-02 03:04:05.000001', '1969-12-31 23:59:59.999999', '2026-01-02 03:04:05.600001', 2026)"
    ),
    "INSERT INTO times (id) VALUES (2)",
)
TIME_ROWS = (
    (
        "INSERT INTO times VALUES (3, '1000-01-01', '9999-12-31', '24:00:00', '00:00:00', '00:00:00', '1677-09-22 00:00:00',"
        " '2262-04-11 23:47:16.854', '2262-04-11 00:00:00', '2200-01-02 03:04:05.000001', '2026-01-02 03:04:05.600001', 1901)"
    ),
    "UPDATE times SET tm = '00:00:01' WHERE id = 1",
)
ZERO_TIMES = (
    "INSERT INTO times VALUES (5, '0000-00-00', '0000-00-00', NULL, NULL, '00:00:00', '0000-00-00', NULL, NULL, '0000-00-00', NULL, 2000)",
)
BEYOND = (
    "INSERT INTO times (id, tm, dt) VALUES (6, '-00:00:01', '9999-12-31 23:59:59')",
    "INSERT INTO times (id, tm3, dt6) VALUES (7, '838:59:59.5', '1000-01-01')",
)


NAMES: dict[str, tuple[dict[str, str], str]] = {
    "avro": (
        {
            "schema.name.adjustment.mode": "avro",
            "field.name.adjustment.mode": "avro",
            "extended.headers.enabled": "false",
            "datatype.propagate.source.type": ".+",
        },
        "odd-n_me",
    ),
    "unicode": (
        {
            "schema.name.adjustment.mode": "avro_unicode",
            "field.name.adjustment.mode": "avro_unicode",
            "topic.naming.strategy": "io.debezium.schema.DefaultUnicodeTopicNamingStrategy",
            "column.propagate.source.type": ".*1x",
        },
        "odd-n_u00e4me",
    ),
    "regex": (
        {
            "topic.naming.strategy": "io.debezium.schema.DefaultRegexTopicNamingStrategy",
            "topic.regex": "(.*)[.](.*)[.]odd.*",
            "topic.replacement": "$1.$2.all",
            "datatype.propagate.source.type": ".*VARCHAR",
        },
        "all",
    ),
}


@pytest.mark.parametrize("case", NAMES)
def test_names(case: str, compared: Compared, unique_name: str) -> None:
    options, table = NAMES[case]
    database = unique_name if case != "unicode" else unique_name.replace("_", "_u005f")
    found = compared.differences(options, (ODD, ODD_ROWS[0]), ODD_ROWS[1:], {f"{database}.{table}": 2})
    assert not found, "\n".join(found[:30])


MASKS: dict[str, Any] = {
    "mask": {"column.mask.with.4.chars": r".*\.texts\.(?!id).*"},
    "hash": {
        "column.mask.hash.SHA-256.with.salt.pepper": r".*\.texts\.(c|s|t|e|n)",
        "column.mask.hash.v2.MD5.with.salt.pepper": r".*\.texts\.(v|m|j|lat|ts)",
    },
    "truncate": {"column.truncate.to.3.chars": r".*\.texts\.(?!id).*"},
    "truncate texts": {
        "column.truncate.to.3.chars": r".*\.texts\.(?!id).*",
        "decimal.handling.mode": "string",
        "binary.handling.mode": "hex",
    },
    "described": {"datatype.propagate.source.type": ".*", "skip.messages.without.change": "true"},
}


@pytest.mark.parametrize("case", MASKS)
def test_masks(case: str, compared: Compared, unique_name: str) -> None:
    found = compared.differences(
        MASKS[case], (TEXTS, TEXT_ROWS[0]), TEXT_ROWS[1:], {f"{unique_name}.texts": 6}
    )
    assert not found, "\n".join(found[:30])


@pytest.mark.parametrize("mode", ["isostring", "microseconds", "nanoseconds"])
def test_times(mode: str, compared: Compared, unique_name: str) -> None:
    found = compared.differences(
        {"time.precision.mode": mode}, TIMES, (*TIME_ROWS, *ZERO_TIMES), {f"{unique_name}.times": 5}
    )
    assert not found, "\n".join(found[:30])


@pytest.mark.parametrize("mode", ["isostring", "connect"])
def test_times_that_a_mode_has_no_place_for(mode: str, compared: Compared, unique_name: str) -> None:
    found = compared.differences({"time.precision.mode": mode}, TIMES, BEYOND, {f"{unique_name}.times": 4})
    assert not found, "\n".join(found[:30])


def test_every_type_is_described(compared: Compared, unique_name: str) -> None:
    chance = random.Random(7)
    found = compared.differences(
        {"datatype.propagate.source.type": ".*", "column.truncate.to.2.chars": r".*\.kinds\.v.*"},
        (kinds_table(), kinds(chance)),
        (kinds(chance), kinds(chance)),
        {f"{unique_name}.kinds": 3},
    )
    assert not found, "\n".join(found[:30])


UNCHANGED = (
    "UPDATE plain SET b = b + 0, hidden = 'x'",
    "UPDATE plain SET hidden = 'y', b = 5 WHERE id = 2",
    "BEGIN",
    "UPDATE plain SET hidden = 'z'",
    "UPDATE plain SET b = 7 WHERE id = 1",
    "COMMIT",
    "UPDATE plain SET id = 4, hidden = 'moved' WHERE id = 3",
    "DELETE FROM plain WHERE id = 1",
)


def test_unchanged_rows_are_left_out(compared: Compared, unique_name: str) -> None:
    found = compared.differences(
        {"skip.messages.without.change": "true", "column.exclude.list": r".*\.plain\.hidden"},
        (
            "CREATE TABLE plain (id INT PRIMARY KEY, b INT, hidden TEXT)",
            "INSERT INTO plain VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')",
        ),
        UNCHANGED,
        {f"{unique_name}.plain": 10, "transaction": 8},
    )
    # Of every second record, a BEGIN, Debezium tells the time of the event before it: another second now and then.
    found = [one for one in found if not re.search(r"transaction#\d*[02468]\[1\]\.payload\.ts_ms", one)]
    assert not found, "\n".join(found[:30])


def test_heartbeats_and_their_action(compared: Compared, unique_name: str, database: Database) -> None:
    options = {
        "heartbeat.interval.ms": "300",
        "heartbeat.topics.prefix": "dead",
        "topic.heartbeat.prefix": f"{unique_name}.beats",
    }
    tables = (
        "CREATE TABLE acts (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)",
        "CREATE TABLE starts (id INT AUTO_INCREMENT PRIMARY KEY, t TEXT)",
        "CREATE TABLE one (id INT PRIMARY KEY)",
        "INSERT INTO one VALUES (1)",
    )
    own = {  # Debezium's snapshot locks the server, and would wait for itself
        "heartbeat_action_query": f"INSERT INTO {unique_name}.acts (t) VALUES ('beat; beat')",
        "database_initial_statements": f"INSERT INTO {unique_name}.starts (t) VALUES ('a;;b');SET @x = 1",
    }
    found = compared.differences(
        options, tables, (), {f"{unique_name}.one": 1, f"beats.{unique_name}": 2}, **own
    )
    # How many beats there are, and of when, is each side's own; so is where its snapshot stood beside what the beats do.
    of_beats = [one for one in found if ".beats." in one and not one.endswith(" records")]
    assert [one for one in of_beats if "payload.ts_ms" not in one] == []
    assert set(database.run("SELECT DISTINCT t FROM acts")) == {("beat; beat",)}
    assert set(database.run("SELECT DISTINCT t FROM starts")) == {("a;b",)}


MODES = (
    {"decimal.handling.mode": "double", "bigint.unsigned.handling.mode": "precise"},
    {"decimal.handling.mode": "string", "binary.handling.mode": "base64"},
    {"binary.handling.mode": "base64-url-safe", "time.precision.mode": "connect"},
)


@pytest.mark.parametrize("options", MODES, ids=["double", "base64", "base64-url-safe"])
def test_handling_modes(options: dict[str, str], compared: Compared, unique_name: str) -> None:
    chance = random.Random(str(options))
    rows = tuple(kinds(chance) for _ in range(12))
    found = compared.differences(
        options, (kinds_table(), *rows[:4]), rows[4:], {f"{unique_name}.kinds": len(rows)}
    )
    assert not found, "\n".join(found[:30])


SHAPES = (
    "POINT(1 2)", "LINESTRING(0 0,1 1,2.5 -3)", "POLYGON((0 0,4 0,4 4,0 0),(1 1,2 1,2 2,1 1))", "MULTIPOINT(1 2,3 4)",
    "MULTILINESTRING((0 0,1 1),(2 2,3 3))", "MULTIPOLYGON(((0 0,4 0,4 4,0 0)),((5 5,6 5,6 6,5 5)))",
    "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))",
)  # fmt: skip


def test_every_kind_of_shape(compared: Compared, unique_name: str) -> None:
    names = [shape.partition("(")[0] for shape in SHAPES]
    columns = ", ".join(f"{name.lower()}_ {name}" for name in names)
    values = ", ".join(f"ST_GeomFromText('{shape}', 4326)" for shape in SHAPES)
    others = ", ".join(f"({number}, ST_GeomFromText('{shape}'))" for number, shape in enumerate(SHAPES))
    found = compared.differences(
        {},
        (
            f"CREATE TABLE shapes (id INT PRIMARY KEY, {columns}, any_ GEOMETRY)",
            f"INSERT INTO shapes VALUES (90, {values}, NULL)",
        ),
        (f"INSERT INTO shapes VALUES (91, {values}, NULL)", f"INSERT INTO shapes (id, any_) VALUES {others}"),
        {f"{unique_name}.shapes": 2 + len(SHAPES)},
    )
    assert not found, "\n".join(found[:30])


@pytest.mark.parametrize("connector", [MariaDbConnector(), MySqlConnector()], ids=["mariadb", "mysql"])
def test_every_option_of_debeziums_is_known(connector: MariaDbConnector, plugins: ConnectServer) -> None:
    """And takes Debezium's default, but for three, of which an installation has to decide."""
    told = {"connector.class": connector.class_name, "name": "x", "topic.prefix": "x"}
    url = f"{plugins.url}/connector-plugins/{connector.class_name}/config/validate"
    _, answer = rest(url, "PUT", told)
    defaults = {one["definition"]["name"]: one["definition"]["default_value"] for one in answer["configs"]}
    assert len(defaults) > 120
    names = {
        name.replace("(d+)", "3").replace("([^.]+)", "MD5").replace("(.+)", "s"): name for name in defaults
    }
    needed = {"name": "x", **dict.fromkeys(("database.hostname", "database.user", "topic.prefix"), "x")}
    config = {name: defaults[known] for name, known in names.items() if defaults[known]} | told | needed
    problems = connector.problems(config)
    assert not problems, problems
    unknown = [
        name
        for name in names
        if any(
            "is not an option" in text
            for text in connector.problems({**told, **needed, name: "x"}).get(name, ())
        )
    ]
    assert unknown == []


DOMAIN = 7


@pytest.fixture
def own_domain(database: Database) -> Iterator[None]:
    """The server has no other domain's commits in its log afterwards."""
    yield
    database.forget_domain(DOMAIN)


@pytest.mark.parametrize(
    "options",
    [
        {"gtid.source.includes": "0-1,9-.*"},
        {"gtid.source.excludes": "0-99, 7-.*"},
        {"gtid.source.excludes": "7-.*", "gtid.source.filter.dml.events": "false"},
    ],
    ids=["includes", "excludes", "unfiltered"],
)
@pytest.mark.usefixtures("own_domain")
def test_sources_of_transactions(options: dict[str, str], compared: Compared, unique_name: str) -> None:
    """A session writes as another server, and in other domains; a definition counts whosever it is."""
    rows = (
        "INSERT INTO t VALUES (1, 'a')",
        "SET SESSION server_id = 99",
        "INSERT INTO t VALUES (2, 'b')",
        "ALTER TABLE t ADD more INT",
        "UPDATE t SET more = id",
        f"SET SESSION gtid_domain_id = {DOMAIN}",
        "INSERT INTO t VALUES (3, 'c', 3)",
        "SET SESSION server_id = 1, gtid_domain_id = 0",
        "INSERT INTO t VALUES (4, 'd', 4)",
        "DELETE FROM t WHERE id = 2",
    )
    filtered = "gtid.source.filter.dml.events" not in options
    tables = ("CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(9))", "INSERT INTO t VALUES (0, '')")
    found = compared.differences(options, tables, rows, {f"{unique_name}.t": 5 if filtered else 10})
    assert not found, "\n".join(found[:30])
