"""Tables of MySQL whose place a copy takes in mid-stream, in traffic, by triggers as pt-online-schema-change does it, or under a lock."""

from pathlib import Path

from mariadb_worker import Config, changes, running, topic
from mysql_parts import MySqlDatabase
from table_swaps import EXCHANGED, captured, follows, swap_by_triggers, traffic


def test_a_copy_that_triggers_keep_takes_the_place_of_a_table(
    database: MySqlDatabase, config: Config
) -> None:
    swap_by_triggers(database, config)


def test_a_copy_takes_the_place_of_a_locked_table(database: MySqlDatabase, config: Config) -> None:
    """As gh-ost's: writers wait while the copy becomes equal, and go on with it."""
    with captured(database, config) as worker:
        with traffic(database) as written:
            database.run(
                "CREATE TABLE _a_gho LIKE a",
                "ALTER TABLE _a_gho ADD COLUMN y VARCHAR(9) DEFAULT 'y' FIRST",
                "INSERT INTO _a_gho (id, n) SELECT id, n FROM a WHERE id < 500",
                "LOCK TABLES a WRITE, _a_gho WRITE",
                "DELETE FROM _a_gho",
                "INSERT INTO _a_gho (id, n) SELECT id, n FROM a",
                "RENAME TABLE a TO _a_del, _a_gho TO a",
                "UNLOCK TABLES",
                "DROP TABLE _a_del",
            )
        follows(worker, database, written)


def test_rows_that_come_about_in_other_ways(database: MySqlDatabase, config: Config, tmp_path: Path) -> None:
    """By LOAD DATA, through a view, from a temporary table, in a partition that is exchanged or truncated, behind an instant change."""
    file = tmp_path / "rows"
    file.write_text("1\tone\n2\t\\N\n")
    tmp_path.chmod(0o755)
    database.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (100),"
        " PARTITION b VALUES LESS THAN (200))",
        "CREATE VIEW seen AS SELECT id, v FROM t",
    )
    only = {"table.include.list": rf"{database.name}\.t", "snapshot.mode": "no_data"}
    with running({**config, **only}) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        database.run(
            f"LOAD DATA INFILE '{file}' INTO TABLE t",
            "INSERT INTO seen VALUES (3, 'view')",
            "CREATE TEMPORARY TABLE passing AS SELECT 4 AS id, 'temp' AS v",
            "INSERT INTO t SELECT * FROM passing",
            "DROP TEMPORARY TABLE passing",
            "INSERT INTO t VALUES (150, 'b')",
            "ALTER TABLE t TRUNCATE PARTITION a",
            *EXCHANGED,
            "ALTER TABLE t ADD COLUMN x INT DEFAULT 7, ALGORITHM=INSTANT",
            "UPDATE t SET id = 152 WHERE id = 150",
        )
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 9, "the changes")
        found = changes(worker, topic(database, "t"))
    assert found == [
        *(
            ("c", None, {"id": i, "v": v})
            for i, v in ((1, "one"), (2, None), (3, "view"), (4, "temp"), (150, "b"))
        ),
        ("u", {"id": 60, "v": "in"}, {"id": 60, "v": "seen"}),
        ("d", {"id": 150, "v": "b", "x": 7}, None),
        (None, None, None),
        ("c", None, {"id": 152, "v": "b", "x": 7}),
    ]
