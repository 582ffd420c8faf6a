"""MariaDB's rows encoded straight from the log: the same bytes as by way of records, for every type, option and format."""

import contextlib
import random
import time
from types import SimpleNamespace
from typing import Any, Final

import pytest
from mariadb_parts import EVERY_TYPE, Database
from mariadb_values import EDGES, insert, random_values

from tidings_capture.mysql.binlog import events as log
from tidings_capture.mysql.binlog.row_code import RowsEvent, read_rows_event
from tidings_capture.mysql.binlog.table_map import table_id
from tidings_capture.mysql.encoding.records import Numbers, Place, TablePlan
from tidings_capture.mysql.schemas.tables import Tables, Version
from tidings_capture.mysql.settings.config import MariaDbConfig, read_config
from tidings_capture.mysql.snapshots import snapshot as snapshot_module
from tidings_capture.mysql.snapshots.rows import EncodedRecords
from tidings_capture.mysql.snapshots.snapshot import Snapshot
from tidings_connect.converters.encoding import AvroConverter, Converter, JsonConverter
from tidings_connect.data.records import Record
from tidings_connect.data.text import connect_text
from tidings_connect.transforms.encoding import Encoding
from tidings_envelope.json_codec import DecimalFormat, JsonCodec

NOW: Final = 1_795_000_000_123_456_789


class Registry:
    """Gives each schema a number."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], int] = {}

    def register(self, subject: str, schema: str, **_: Any) -> int:
        return self.ids.setdefault((subject, schema), len(self.ids) + 1)


def converters(form: str) -> tuple[Converter, Converter]:
    if form == "avro":
        registry: Any = Registry()
        return AvroConverter(registry, is_key=True), AvroConverter(registry, is_key=False)
    numeric = JsonCodec(decimal_format=DecimalFormat.NUMERIC, replace_null_with_default=False)
    key = JsonConverter(JsonCodec(), schemas_enable=form == "schemas")
    return key, JsonConverter(numeric if form == "numeric" else JsonCodec(), schemas_enable=form == "schemas")


@pytest.fixture(autouse=True)
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: NOW)
    monkeypatch.setattr(snapshot_module, "time", SimpleNamespace(time=lambda: 1_795_000_000))


def config_of(database: Database, options: dict[str, str]) -> MariaDbConfig:
    return read_config(
        {
            "database.hostname": "127.0.0.1",
            "database.port": str(database.endpoint.port),
            "database.user": "admin",
            "database.password": database.endpoint.password,
            "topic.prefix": "p%d",
            **options,
        }
    )


def by_records(
    plan: TablePlan, rows: RowsEvent, cells: list[Any], place: Place, numbers: Numbers | None, ways: Any
) -> list[Record]:
    found: list[Record] = []
    for row in range(len(cells) // 2 if rows.op == "u" else len(cells)):
        place.row = row
        if rows.op == "u":
            records = plan.update(cells[2 * row], cells[2 * row + 1], place, numbers)
        else:
            records = (plan.insert if rows.op == "c" else plan.delete)(cells[row], place, numbers)
        for record in records:
            key = ways[0](record.topic, record.key_schema, record.key, trusted=True)
            value = ways[1](record.topic, record.value_schema, record.value, trusted=True)
            headers = [(h.key, connect_text(h.schema, h.value).encode()) for h in record.headers]
            found.append((key, None if record.value is None else value, headers or None))
    return found


class Compared:
    """Both ways over a part of the log.

    Args:
        options: of the connector.
        form: of keys and values.
    """

    def __init__(self, database: Database, options: dict[str, str], form: str) -> None:
        self._database = database
        self._config = config_of(database, options)
        self._converters = converters(form)
        self.rows = self.direct = 0

    def run(self, start: Any) -> None:
        tables = Tables(self._config, self._converters)
        ways = tuple(map(Encoding, self._converters))
        versions: dict[int, Version | None] = {}
        counted = [Numbers("0-1-2", 0, {}) if self._config.transactions else None for _ in range(2)]
        place = Place(seconds=1_700_000_000, server_id=1, gtid="0-1-2", file="b.000001", position=4711)
        for event in self._database.events(start):
            if event.type == log.TABLE_MAP:
                versions[table_id(event)] = tables.version(event)
            elif event.type in log.ROWS:
                version = versions[table_id(event)]
                assert version is not None
                assert version.encoder is not None
                rows = read_rows_event(event)
                direct = version.encoder.records(rows, place, counted[0])
                cells = version.rows.read(rows, "here")
                wanted = by_records(version.plan, rows, cells, place, counted[1], ways)
                self.rows += 1
                if direct is None:
                    counted[0] = (
                        None
                        if counted[1] is None
                        else Numbers("0-1-2", counted[1].total, {**counted[1].by_table})
                    )
                    continue
                records, changes = direct
                assert changes == (len(cells) // 2 if rows.op == "u" else len(cells))
                for made, record in zip(records, wanted, strict=True):
                    assert made == record
                self.direct += 1
        tables.close()


EVERY_OPTION: Final = {
    "decimal.handling.mode": ("precise", "string", "double"),
    "time.precision.mode": (
        "adaptive_time_microseconds",
        "connect",
        "isostring",
        "microseconds",
        "nanoseconds",
    ),
    "bigint.unsigned.handling.mode": ("long", "precise"),
    "binary.handling.mode": ("bytes", "base64", "hex"),
    "provide.transaction.metadata": ("true", "false"),
    "tombstones.on.delete": ("true", "false"),
    "message.key.columns": ("", "(.*).kinds:de,vc", "(.*).kinds:id,dt6,ts,tm6", "(.*).kinds:u,biu"),
    "column.exclude.list": ("", "(.*).de,(.*).vc"),
    "column.mask.with.4.chars": ("", "(.*).(vc|e|lt|iu)"),
    "column.mask.hash.SHA-256.with.salt.s": ("", "(.*).(vl|s|c|js)"),
    "column.truncate.to.2.chars": ("", "(.*).(tx|bl|vb|ts6|de|id|da|b12|u)"),
    "datatype.propagate.source.type": ("", ".*"),
    "schema.name.adjustment.mode": ("none", "avro", "avro_unicode"),
    "field.name.adjustment.mode": ("none", "avro", "avro_unicode"),
    "skip.messages.without.change": ("false", "true"),
    "topic.naming.strategy": tuple(
        f"io.debezium.schema.{kind}TopicNamingStrategy" for kind in ("Default", "SchemaRegex")
    ),
    "topic.regex": (".*",),
    "topic.replacement": ("all",),
    "extended.headers.enabled": ("true", "false"),
}


@pytest.mark.parametrize("form", ["json", "schemas", "numeric", "avro"])
def test_the_direct_way_writes_the_same(database: Database, form: str) -> None:
    chance = random.Random(form)
    database.run(EVERY_TYPE)
    start = database.position()
    for place in range(max(map(len, EDGES.values()))):
        database.run(insert({name: found[place % len(found)] for name, found in EDGES.items()}))
    # one event of many rows with few sets of nulls, and rows with more sets than have functions of their own
    database.run("BEGIN", *[insert(random_values(chance)) for _ in range(90)], "COMMIT")
    database.run(
        "INSERT INTO kinds (vc, de) SELECT CONCAT('t ', id, '😀\\t%s'), id / 7 FROM kinds WHERE id < 60",
        "UPDATE kinds SET vl = 'other', d = -0.01, dt3 = '0000-00-00' WHERE id BETWEEN 3 AND 40",
        "UPDATE kinds SET id = id + 1000 WHERE id = 2",
        "UPDATE kinds SET lt = CONCAT(COALESCE(lt, ''), 'more'), vc = IF(id % 2, vc, CONCAT(vc, '!')) WHERE id BETWEEN 31 AND 50",
        "INSERT INTO kinds (ts3, ts6, dt2, da) VALUES (0, 0, '0000-00-00', '0000-00-00'), (NULL, NULL, '2026-00-10 10:00', NULL)",
        "DELETE FROM kinds WHERE id BETWEEN 5 AND 30",
    )
    for round_ in range(4):
        options = {name: chance.choice(values) for name, values in EVERY_OPTION.items()} if round_ else {}
        compared = Compared(database, options, form)
        compared.run(start)
        assert compared.direct > 0.9 * compared.rows, options


def test_a_table_without_a_key_and_names_with_signs(database: Database) -> None:
    database.run("CREATE TABLE `50%d` (`a%` INT, `b%b` VARCHAR(9) DEFAULT 'x%', c DATE)")
    start = database.position()
    database.run(
        "INSERT INTO `50%d` VALUES (1, '%d', '2026-11-23'), (NULL, NULL, NULL)", "UPDATE `50%d` SET c = NULL"
    )
    compared = Compared(database, {}, "json")
    compared.run(start)
    assert compared.direct == compared.rows == 2


def test_a_row_that_is_cut_off_goes_the_other_way(database: Database) -> None:
    database.run("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(99), c DECIMAL(10, 2))")
    start = database.position()
    database.run("INSERT INTO t VALUES (1, REPEAT('x', 50), 1.5), (2, 'y', -7)")
    tables = Tables(config_of(database, {}), converters("json"))
    version = None
    for event in database.events(start):
        if event.type == log.TABLE_MAP:
            version = tables.version(event)
        elif event.type in log.ROWS:
            whole = read_rows_event(event)
            assert version is not None
            assert version.encoder is not None
            numbers = Numbers("0-1-2", 0, {})
            for end in range(whole.start + 1, len(whole.data)):
                cut = RowsEvent(whole.op, whole.data[:end], whole.start, whole.width, whole.images)
                found = version.encoder.records(cut, Place(), numbers)
                # an end between two rows is none that can be seen
                assert found is None or (len(found[0]), found[1]) == (1, 1)
                assert numbers.total == (0 if found is None else 1)
                numbers.total = 0
                numbers.by_table.clear()
            short = RowsEvent(whole.op, whole.data, whole.start, whole.width, (b"\x03",))
            assert version.encoder.records(short, Place(), numbers) is None
    assert version is not None
    tables.close()


BINARY: Final = ("b1", "b5", "b12", "b64", "vb", "bn", "tb", "bl", "mb", "lb", "g", "p", "b16", "bz")
LONG: Final = ("cl", "vl", "tx", "vz")
ODD_TEXTS: Final = (
    "CONCAT('a', CHAR(7), 'b')",
    "CONCAT('q\"', CHAR(92), CHAR(9))",
    "'%d %b {}'",
    "'häß'",
    "'x'",
)


def whole_rows(chance: random.Random, count: int) -> list[str]:
    """Rows without nulls and bytes, nearly all of them with short cells only."""
    rows = []
    for _ in range(count):
        values = {name: chance.choice(EDGES[name]) for name in EDGES if name not in BINARY + LONG}
        values |= {name: value for name, value in random_values(chance).items() if name in values}
        values |= {name: chance.choice(ODD_TEXTS) for name in LONG}
        values["d"] = chance.choice(("12.50", "7", f"{chance.uniform(0, 10 ** chance.randint(-5, 9)):.17e}"))
        if chance.random() < 0.2:
            values[chance.choice(LONG[1:])] = f"REPEAT('ü\\n', {chance.randint(100, 900)})"
        rows.append(insert(values).replace(" kinds ", " texts "))
    return rows


@pytest.mark.parametrize("form", ["json", "schemas", "numeric", "avro"])
def test_a_snapshot_writes_the_same_directly(database: Database, form: str) -> None:
    chance = random.Random(form)
    database.run(
        EVERY_TYPE,
        "CREATE TABLE other (a INT, b VARCHAR(9))",
        "INSERT INTO other VALUES (1, NULL), (NULL, '😀')",
    )
    for place in range(max(map(len, EDGES.values()))):
        database.run(insert({name: found[place % len(found)] for name, found in EDGES.items()}))
    database.run("BEGIN", *[insert(random_values(chance)) for _ in range(40)], "COMMIT")
    database.run(
        "CREATE TABLE texts LIKE kinds",
        f"ALTER TABLE texts {', '.join(f'DROP COLUMN {name}' for name in BINARY)}, MODIFY vz TEXT",
        *whole_rows(chance, 60),
    )
    both = converters(form)
    ways = tuple(map(Encoding, both))
    for round_ in range(4):
        options = {name: chance.choice(values) for name, values in EVERY_OPTION.items()} if round_ else {}
        options |= {
            "database.include.list": database.name,
            "snapshot.fetch.size": "7",
            "include.schema.changes": "false",
        }
        config, written, direct = config_of(database, options), [], 0
        for converters_ in (None, both):
            found = []
            with contextlib.closing(Snapshot(config, direct=converters_)) as snapshot:
                while some := snapshot.read():
                    for one in some:
                        if isinstance(one, EncodedRecords):
                            found += [(one.topic, *record) for record in one.records]
                            direct += len(one.records)
                            continue
                        key = ways[0](one.topic, one.key_schema, one.key, trusted=True)
                        value = ways[1](one.topic, one.value_schema, one.value, trusted=True)
                        headers = [(h.key, connect_text(h.schema, h.value).encode()) for h in one.headers]
                        found.append((one.topic, key, value, headers or None))
            written.append(found)
        for wanted, made in zip(*written, strict=True):  # a difference of all of them takes minutes to show
            assert made == wanted, options
        assert direct == len(written[0]) == 2 + 60 + int(database.run("SELECT COUNT(*) FROM kinds")[0][0])
