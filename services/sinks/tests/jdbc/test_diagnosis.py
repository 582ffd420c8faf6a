"""`tidings doctor` on sinks of tables: each right that is missing is found, with the statement that gives it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from diagnosing import Diagnose
from sink_targets import ask_mariadb, connection_options, mariadb_options

from tidings_stack.mariadb import MySqlLikeServer

Target = Callable[..., list[tuple[Any, ...]]]
UPSERT = {
    "connector.class": "JdbcSink", "insert.mode": "upsert", "primary.key.mode": "record_key", "primary.key.fields": "id",
    "delete.enabled": "true",
}  # fmt: skip


@pytest.fixture
def weak(pg_database: str, target: Target, unique_name: str) -> Iterator[dict[str, str]]:
    """A sink whose user may do nothing."""
    target(
        f"CREATE ROLE {unique_name} LOGIN PASSWORD 'secret-word'; REVOKE CREATE ON SCHEMA public FROM PUBLIC"
    )
    login = {"connection.username": unique_name, "connection.password": "secret-word"}
    yield UPSERT | connection_options(pg_database) | login
    target(f"DROP OWNED BY {unique_name}; DROP ROLE {unique_name}")


def test_postgresql_rights(
    weak: dict[str, str], target: Target, unique_name: str, diagnose: Diagnose
) -> None:
    found = diagnose(weak)
    assert set(found) == {"no-right", "no-table"}
    assert f"GRANT CREATE ON SCHEMA public TO {unique_name}" in found["no-right"]
    assert set(diagnose(weak | {"schema.evolution": "basic"})) == {"no-right"}
    target(f"GRANT CREATE ON SCHEMA public TO {unique_name}")
    assert diagnose(weak | {"schema.evolution": "basic"}) == {}
    assert set(diagnose(weak)) == {"no-table"}
    # A table of somebody else.
    target("CREATE TABLE t (id int, note text)")
    found = diagnose(weak)
    assert set(found) == {"no-right", "no-key"}
    assert f'GRANT SELECT, INSERT, UPDATE, DELETE ON "t" TO {unique_name}' in found["no-right"]
    target(f"GRANT SELECT, INSERT, UPDATE, DELETE ON t TO {unique_name}; CREATE UNIQUE INDEX ON t (id)")
    assert diagnose(weak) == {}
    assert set(diagnose(weak | {"schema.evolution": "basic"})) == {"not-owner"}
    assert set(diagnose(weak | {"truncate.enabled": "true"})) == {"no-right"}
    assert "no column key" in diagnose(weak | {"primary.key.fields": "key"})["no-column"]
    assert set(diagnose(weak | {"collection.name.format": "of_nobody.t", "schema.evolution": "basic"})) == {
        "no-schema"
    }
    # Positions that somebody else has made.
    target("CREATE TABLE positions (consumer_group text)")
    found = diagnose(weak | {"tidings.positions.table": "positions"})
    assert f'GRANT SELECT, INSERT, UPDATE ON "positions" TO {unique_name}' in found["no-right"]
    # The server takes no writes, or not this user.
    target(f"ALTER ROLE {unique_name} SET default_transaction_read_only = on")
    assert set(diagnose(weak)) == {"read-only"}
    assert set(diagnose(weak | {"connection.password": "wrong"})) == {"login-refused"}
    assert set(diagnose(weak | {"connection.url": "jdbc:postgresql://127.0.0.1:1/d"})) == {"unreachable"}
    # Nothing was made.
    assert target("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tidings%'") == [(0,)]


@pytest.mark.parametrize("mariadb_server", ["mariadb", "mysql"], indirect=True)
def test_mariadb_rights(
    mariadb_server: MySqlLikeServer,
    mariadb_database: str,
    in_mariadb: Target,
    unique_name: str,
    diagnose: Diagnose,
) -> None:
    login = {"connection.username": unique_name, "connection.password": "secret-word"}
    config = UPSERT | mariadb_options(mariadb_server, mariadb_database) | login
    ask_mariadb(mariadb_server, None, f"CREATE USER {unique_name} IDENTIFIED BY 'secret-word'")
    try:
        assert set(diagnose(config)) == {"login-refused"}  # it may not even see the database
        ask_mariadb(mariadb_server, None, f"GRANT SELECT ON `{mariadb_database}`.* TO {unique_name}")
        in_mariadb("CREATE TABLE t (id int PRIMARY KEY)")
        found = diagnose(config)
        assert set(found) == {"no-right"}
        assert (
            f"GRANT INSERT, UPDATE, DELETE ON `{mariadb_database}`.`t` TO '{unique_name}'@'%'"
            in found["no-right"]
        )
        ask_mariadb(
            mariadb_server, None, f"GRANT INSERT, UPDATE, DELETE ON `{mariadb_database}`.`t` TO {unique_name}"
        )
        found = diagnose(config)
        assert "CREATE, INSERT, UPDATE, DELETE" in found["no-right"]
        assert "tidings_sink_positions" in found["no-right"]
        pattern = mariadb_database.replace("_", "\\_")  # as administrators write it
        ask_mariadb(
            mariadb_server, None, f"GRANT CREATE, INSERT, UPDATE, DELETE ON `{pattern}`.* TO {unique_name}"
        )
        assert diagnose(config) == {}
        assert "ALTER" in diagnose(config | {"schema.evolution": "basic"})["no-right"]
        assert set(diagnose(config | {"topics": "other"})) == {"no-table"}
        assert set(diagnose(config | {"connection.password": "wrong"})) == {"login-refused"}
    finally:
        ask_mariadb(mariadb_server, None, f"DROP USER {unique_name}")


@pytest.mark.parametrize("mariadb_server", ["mariadb", "mysql"], indirect=True)
def test_rights_by_a_role(
    mariadb_server: MySqlLikeServer, mariadb_database: str, unique_name: str, diagnose: Diagnose
) -> None:
    login = {"connection.username": unique_name, "connection.password": "secret-word"}
    config = (
        UPSERT | mariadb_options(mariadb_server, mariadb_database) | login | {"schema.evolution": "basic"}
    )
    role, every = f"r{unique_name}", " TO " if mariadb_server.name == "mysql" else " FOR "
    for statement in (
        f"CREATE USER {unique_name} IDENTIFIED BY 'secret-word'",
        f"CREATE ROLE {role}",
        f"GRANT ALL PRIVILEGES ON `{mariadb_database}`.* TO {role}",
        f"GRANT {role} TO {unique_name}",
        f"SET DEFAULT ROLE {role}{every}{unique_name}",
    ):
        ask_mariadb(mariadb_server, None, statement)
    try:
        assert diagnose(config) == {}
    finally:
        ask_mariadb(mariadb_server, None, f"DROP USER {unique_name}")
        ask_mariadb(mariadb_server, None, f"DROP ROLE {role}")


def test_a_file_of_sqlite(tmp_path: Path, diagnose: Diagnose) -> None:
    config = UPSERT | {"connection.url": f"jdbc:sqlite:{tmp_path}/a/t.db", "schema.evolution": "basic"}
    assert set(diagnose(config)) == {"no-directory"}
    (tmp_path / "a").mkdir()
    assert diagnose(config) == {}
    assert not (tmp_path / "a/t.db").exists()
    (tmp_path / "a/t.db").write_text(
        "not a database, and longer than a header of SQLite's, which has a hundred bytes or so" * 9
    )
    assert set(diagnose(config)) == {"target"}
