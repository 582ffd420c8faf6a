"""MySQL as a process: its binary log says what columns are called, and it survives a crash."""

import pymysql

from tidings_stack.mysql import MySqlServer


def ask(server: MySqlServer, statement: str) -> tuple[tuple[object, ...], ...]:
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="admin", password=server.password, autocommit=True
    )
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())


def test_it_logs_rows_with_names_and_keeps_them_through_a_crash(mysql: MySqlServer, unique_name: str) -> None:
    assert ask(mysql, "SELECT @@log_bin, @@binlog_format, @@binlog_row_metadata, @@gtid_mode") == (
        (1, "ROW", "FULL", "ON"),
    )
    ask(mysql, f"CREATE DATABASE {unique_name}")
    ask(mysql, f"CREATE TABLE {unique_name}.t (id INT PRIMARY KEY)")
    ask(mysql, f"INSERT INTO {unique_name}.t VALUES (7)")
    ((before,),) = ask(mysql, "SELECT @@gtid_executed")
    mysql.kill()
    mysql.start()
    assert ask(mysql, f"SELECT id FROM {unique_name}.t") == ((7,),)
    assert ask(mysql, "SELECT @@gtid_executed") == ((before,),)
    ask(mysql, f"DROP DATABASE {unique_name}")
