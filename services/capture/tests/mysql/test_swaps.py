"""Tables of MySQL whose place a copy takes in mid-stream, in traffic, by triggers as pt-online-schema-change does it, or under a lock."""

from mariadb_worker import Config
from mysql_parts import MySqlDatabase
from table_swaps import captured, follows, swap_by_triggers, traffic


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
