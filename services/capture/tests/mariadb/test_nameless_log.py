"""MariaDB's log that does not name columns (``binlog_row_metadata`` MINIMAL and NO_LOG)."""

import random
from dataclasses import fields

import pytest
from mariadb_parts import EVERY_TYPE, Database
from mariadb_values import insert, random_values
from mariadb_worker import Config, changes, topic
from nameless_log import MemoryLog, NamelessLog

from tidings_capture.mysql.binlog.gtid import GtidPosition
from tidings_capture.mysql.flavours.mariadb import MARIADB
from tidings_capture.mysql.history.kept import kept_at
from tidings_capture.mysql.history.topic import SchemaHistory
from tidings_capture.mysql.offset import Offset
from tidings_capture.mysql.schemas.catalog import Column
from tidings_capture.mysql.schemas.ddl import touches
from tidings_connect.errors import OffsetError
from tidings_connect.testing.memory_worker import MemoryWorker


class TestNamelessLog(NamelessLog):
    values = ("MINIMAL", "NO_LOG")

    @pytest.fixture(params=values)
    def value(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def test_every_type_is_as_in_the_snapshot(
        self, database: Database, config: Config, worker: MemoryWorker, nameless: None
    ) -> None:
        chance = random.Random(5)
        database.run(EVERY_TYPE, *(insert(random_values(chance)) for _ in range(20)))
        database.run(
            "INSERT INTO kinds (last) VALUES (NULL)",
            "CREATE TABLE v (id INT PRIMARY KEY, e ENUM('a\\\\b', 'x''y', 'l\\n'))",
        )
        database.run("INSERT INTO v VALUES (1, 'a\\\\b'), (2, 'x''y'), (3, 'l\\n')")
        database.run("ALTER TABLE v ADD SYSTEM VERSIONING")
        worker.put(config)
        ((count,),) = database.run("SELECT COUNT(*) FROM kinds")
        worker.wait_for(lambda: len(changes(worker, topic(database, "v"))) == 3, "the snapshot")
        database.run("SET SESSION system_versioning_alter_history = KEEP")
        database.run(
            "UPDATE kinds SET last = COALESCE(last, 0) + 1", "UPDATE v SET id = id + 10 ORDER BY id DESC"
        )
        worker.wait_for(
            lambda: (
                len(changes(worker, topic(database, "kinds"))) == 2 * int(count)
                and len(changes(worker, topic(database, "v"))) == 12
            ),
            "the changes",
        )
        kinds = changes(worker, topic(database, "kinds"))
        read = {after["id"]: after for op, _, after in kinds if op == "r"}
        assert {before["id"]: before for op, before, _ in kinds if op == "u"} == read
        assert [(op, (a or b)["e"]) for op, b, a in changes(worker, topic(database, "v")) if op and op != "r"] == [
            ("d", "l\n"), ("c", "l\n"), ("d", "x'y"), ("c", "x'y"), ("d", "a\\b"), ("c", "a\\b"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "touched"),
    [
        ("ALTER TABLE T ADD x INT", True),
        ("ALTER TABLE `t` ADD x INT", True),
        ("RENAME TABLE d.a TO d.t", True),
        ("ALTER TABLE tt ADD x INT", False),
        ("CREATE TABLE u LIKE t", False),
        ("CREATE OR REPLACE TABLE t LIKE u", True),
        ("DROP DATABASE d", True),
        ("DROP DATABASE e", False),
        ("CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW DELETE FROM u", False),
        ("TRUNCATE TABLE t", False),
        ("GRANT SELECT ON d.t TO x", False),
        ("SET STATEMENT lock_wait_timeout = 1 FOR ALTER TABLE t FORCE", True),
    ],
)
def test_what_a_definition_may_have_altered(statement: str, touched: bool) -> None:
    assert touches(statement, "d", ("d", "t")) is touched


def test_a_history_of_another_use_is_refused() -> None:
    log = MemoryLog()
    for value, told in (
        (b"[]", "not a JSON object"),
        (b'{"position": {"gtids": "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5"}}', "has no position"),
    ):
        log.records = [value]
        with pytest.raises(OffsetError, match=told):
            kept_at(SchemaHistory("p", log).records(), GtidPosition(), MARIADB)


def test_what_a_snapshot_says_counts_at_its_place_and_what_was_read_before_it_below() -> None:
    """The log is read up to a snapshot that begins again: the history has the snapshot first, and then the definitions before it."""
    log = MemoryLog()
    history = SchemaHistory("p", log)
    column = {"name": "x", **{f.name: None for f in fields(Column) if f.name != "name"}}

    def table(name: str) -> dict[str, object]:
        one = {
            "database": "d",
            "name": "t",
            "columns": [{**column, "name": name}],
            "primary": [],
            "unique": [],
            "created": None,
        }
        return {"tidings_tables": {'["d","t"]': one}}

    def place(sequence: int) -> Offset:
        return Offset(GtidPosition.read(f"0-1-{sequence}"))

    statement = [("d", "ALTER TABLE t RENAME COLUMN x TO y")]
    history.keep({**table("first"), "tidings_place": "0-1-3"}, place(3))
    history.keep({**table("snapshot"), "tidings_anew": True}, place(8))
    history.define(statement, place(4), 1, {"tidings_tables": {'["d","t"]': None}, "tidings_gtid": "0-1-5"})
    history.define(statement, place(8), 1, {**table("behind"), "tidings_gtid": "0-1-9"})

    def known(sequence: int) -> str | None:
        found, _ = kept_at(history.records(), place(sequence).gtids, MARIADB)
        told = found["d", "t"]
        return None if told is None else told.columns[0].name

    assert [known(at) for at in (3, 4, 5, 7, 8, 9)] == ["first", "first", None, None, "snapshot", "behind"]
