"""MariaDB as a process: its binary log says what columns are called, and it survives a crash."""

from pathlib import Path

import pymysql

from tidings_stack.mariadb import MariaDbServer


def ask(server: MariaDbServer, statement: str) -> tuple[tuple[object, ...], ...]:
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="admin", password=server.password, autocommit=True
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())


def test_it_logs_rows_with_names_and_keeps_them_through_a_crash(
    mariadb: MariaDbServer, unique_name: str
) -> None:
    assert ask(mariadb, "SELECT @@log_bin, @@binlog_format, @@binlog_row_metadata") == ((1, "ROW", "FULL"),)
    ((scratch,),) = ask(mariadb, "SELECT @@tmpdir")
    assert mariadb.directory in Path(scratch).parents, (
        "else another server's start removes its temporary tables"
    )
    ask(mariadb, f"CREATE DATABASE {unique_name}")
    ask(mariadb, f"CREATE TABLE {unique_name}.t (id INT PRIMARY KEY)")
    ask(mariadb, f"INSERT INTO {unique_name}.t VALUES (7)")
    ((before,),) = ask(mariadb, "SELECT @@gtid_binlog_pos")
    mariadb.kill()
    mariadb.start()
    assert ask(mariadb, f"SELECT id FROM {unique_name}.t") == ((7,),)
    assert ask(mariadb, "SELECT @@gtid_binlog_pos") == ((before,),)
    ask(mariadb, f"DROP DATABASE {unique_name}")
