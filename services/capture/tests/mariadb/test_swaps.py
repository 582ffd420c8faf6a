"""Tables that are altered in mid-stream by copies that take their place, as pt-online-schema-change and gh-ost do it, in traffic; and
changes that come about in other ways than by single rows: partitions, views, temporary tables, sequences, LOAD DATA."""

import subprocess
from pathlib import Path

import pytest
from mariadb_parts import Database
from mariadb_worker import Config, changes, running, topic
from table_swaps import EXCHANGED, captured, follows, swap_by_triggers, traffic

from tidings_stack.tools import built_tool


def test_a_copy_that_triggers_keep_takes_the_place_of_a_table(database: Database, config: Config) -> None:
    swap_by_triggers(database, config)


def test_gh_ost_itself_changes_a_table(database: Database, config: Config, tmp_path: Path) -> None:
    """Release 1.1.6, which needs the server's older way of positions in the log (11.4 writes none within transactions)."""
    program = built_tool("gh-ost")
    if program is None:
        pytest.skip("there is no gh-ost: run `scripts/tools.sh gh-ost` (needs Go)")
    database.run("SET GLOBAL binlog_legacy_event_pos = ON")
    login = database.endpoint
    command = [
        str(program), "--host=127.0.0.1", f"--port={login.port}", f"--user={login.user}", f"--password={login.password}",
        f"--database={database.name}", "--table=a", "--alter=ADD COLUMN y VARCHAR(9) DEFAULT 'y' FIRST", "--allow-on-master",
        "--assume-rbr", "--execute", f"--serve-socket-file={tmp_path / 'socket'}", "--replica-server-id=90077",
        "--ok-to-drop-table", "--chunk-size=200",
    ]  # fmt: skip
    try:
        with captured(database, config) as worker:
            with traffic(database) as written:
                ended = subprocess.run(command, capture_output=True, timeout=90, check=False)
                assert ended.returncode == 0, ended.stderr[-2000:]
            # Sometimes gh-ost copies a row of MariaDB's as it was before a change that it read from the log before.
            follows(worker, database, written, exact=False)
    finally:
        database.run("SET GLOBAL binlog_legacy_event_pos = OFF")


def test_rows_that_come_about_in_other_ways(database: Database, config: Config, tmp_path: Path) -> None:
    """By LOAD DATA, through a view, from a temporary table, with a sequence's number, in a partition that is exchanged or truncated."""
    file = tmp_path / "rows"
    file.write_text("1\tone\n2\t\\N\n")
    tmp_path.chmod(0o755)
    partitioned = "(id INT PRIMARY KEY, v VARCHAR(9), w INT AS (id + 1) VIRTUAL, x INT INVISIBLE DEFAULT 7)"
    database.run(
        f"CREATE TABLE t {partitioned} PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (100), PARTITION b VALUES LESS THAN (200))",
        "CREATE VIEW seen AS SELECT id, v FROM t",
        "CREATE SEQUENCE numbers START WITH 50",
    )
    only = {
        "table.include.list": rf"{database.name}\.t",
        "snapshot.mode": "no_data",
        "provide.transaction.metadata": "false",
    }
    with running({**config, **only}) as worker:
        worker.wait_for(lambda: bool(worker.offsets()), "the start")
        database.run(
            f"LOAD DATA INFILE '{file}' INTO TABLE t (id, v)",
            "INSERT INTO seen VALUES (3, 'view')",
            "CREATE TEMPORARY TABLE passing AS SELECT 4 AS id, 'temp' AS v",
            "INSERT INTO t (id, v) SELECT * FROM passing",
            "DROP TEMPORARY TABLE passing",
            "INSERT INTO t (id, v) VALUES (NEXT VALUE FOR numbers, 'next')",
            "INSERT INTO t (id, v, x) VALUES (150, 'b', 8)",
            "ALTER TABLE t TRUNCATE PARTITION a",
            *EXCHANGED,
            "ALTER TABLE t MODIFY COLUMN v VARCHAR(20), ALGORITHM=INSTANT",
            "ALTER TABLE t MODIFY COLUMN v VARCHAR(20) AFTER w",
            "ALTER TABLE t RENAME COLUMN v TO z, ALTER COLUMN x SET DEFAULT 9",
            "INSERT INTO t (id, z) VALUES (151, 'moved')",
            "UPDATE t SET id = 152 WHERE id = 150",
        )
        worker.wait_for(lambda: len(changes(worker, topic(database, "t"))) >= 11, "the changes")
        found = changes(worker, topic(database, "t"))
    first = [(1, "one"), (2, None), (3, "view"), (4, "temp"), (50, "next")]
    assert found[:5] == [("c", None, {"id": i, "v": v, "w": i + 1, "x": 7}) for i, v in first]
    moved = {"id": 150, "w": 151, "z": "b", "x": 8}
    assert found[5:] == [
        ("c", None, {"id": 150, "v": "b", "w": 151, "x": 8}),
        ("u", {"id": 60, "v": "in", "w": 61, "x": 7}, {"id": 60, "v": "seen", "w": 61, "x": 7}),
        ("c", None, {"id": 151, "w": 152, "z": "moved", "x": 9}),
        ("d", moved, None),
        (None, None, None),
        ("c", None, {**moved, "id": 152, "w": 153}),
    ]
