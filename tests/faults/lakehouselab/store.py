"""The tables, and writers who do to them whatever a table can suffer."""

import json
import random
import secrets
from typing import Any

import psycopg
from faultlab.writers import Writers
from psycopg import sql

KINDS = ("things", "shorts", "resting", "named", "pulse")
"""Captured tables, but for the signals: rows with values out of line; one that is truncated; one at rest; one whose column is
renamed; what ends a phase."""

_TABLES = """
CREATE TABLE things_{n} (id bigint PRIMARY KEY, n int NOT NULL, big text, free numeric, at timestamp NOT NULL DEFAULT '2024-02-03 04:05:06.789');
ALTER TABLE things_{n} ALTER COLUMN big SET STORAGE EXTERNAL;
CREATE TABLE shorts_{n} (id bigint PRIMARY KEY, n int NOT NULL, free numeric, at timestamptz);
CREATE TABLE resting_{n} (id bigint PRIMARY KEY, n int NOT NULL);
CREATE TABLE named_{n} (id bigint PRIMARY KEY, c0 int NOT NULL, n int);
CREATE TABLE pulse_{n} (id bigserial PRIMARY KEY, n int NOT NULL);
CREATE TABLE signals_{n} (id varchar(64) PRIMARY KEY, type varchar(32), data text);
CREATE SEQUENCE ids_{n};
INSERT INTO things_{n} SELECT nextval('ids_{n}'), i, repeat(md5(i::text), 100) FROM generate_series(1, 300) i;
INSERT INTO shorts_{n} SELECT nextval('ids_{n}'), i FROM generate_series(1, 50) i;
INSERT INTO resting_{n} SELECT nextval('ids_{n}'), i FROM generate_series(1, 20) i;
"""


_MOMENT = "YYYY-MM-DD HH24:MI:SS.US"


class Store:
    """The tables of one database; their names are its own, since all databases share a lake."""

    def __init__(self, url: str, name: str, kinds: tuple[str, ...] = KINDS) -> None:
        """All tables are written to; those of `kinds` are captured."""
        self.url, self.name, self._kinds = url, name, kinds
        self._renames = self._definitions = 0
        self._added: list[str] = []
        """Columns of `shorts` that had a default when they came."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLES.format(n=name))

    def tables(self) -> tuple[str, ...]:
        return tuple(f"{kind}_{self.name}" for kind in self._kinds)

    def rows(self, table: str, columns: str) -> set[tuple[Any, ...]]:
        """What the database holds."""
        with psycopg.connect(self.url, autocommit=True, options="-c timezone=UTC") as connection:
            return set(connection.execute(f"SELECT {columns} FROM {table}").fetchall())

    def columns(self, table: str, *, is_state: bool = True, is_text: bool = False) -> str:
        """What is compared of a table, in SQL of the database.

        Args:
            is_state: of its current state, and not of its log, which has placeholders of values that were not logged.
            is_text: the log has the records' text.
        """
        kind = table.partition("_")[0]
        if kind == "named" and not is_text:
            return f"id, c{self._renames}, n"
        if is_text or kind not in {"things", "shorts"}:
            return "id, n"
        big = "md5(big), " if kind == "things" and is_state else ""
        moment = f"CASE WHEN isfinite(at) THEN to_char(at, '{_MOMENT}') ELSE at::text END"
        return ", ".join((f"id, n, {big}free", moment, *self._compared(kind, is_state=is_state)))

    def held(self, table: str, *, is_null: bool, is_state: bool = True, is_text: bool = False) -> str:
        """The same in Spark's SQL of the lake; the columns of a log are those of `row`.

        Args:
            is_null: infinite times are null, with a mark.
        """
        kind, of = table.partition("_")[0], "" if is_state else "row."
        if kind == "named" and not is_text:
            return f"{of}id, {of}c{self._renames}, {of}n"
        if is_text or kind not in {"things", "shorts"}:
            return f"{of}id, {of}n"
        big = "md5(big), " if kind == "things" and is_state else ""
        infinite = (
            f"{of}at__infinite"
            if is_null
            else f"CASE WHEN year({of}at) > 200000 THEN 'infinity' WHEN year({of}at) < -200000 THEN '-infinity' END"
        )
        moment = f"date_format({of}at, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
        columns = f"{of}id, {of}n, {big}CAST({of}free AS decimal(38, 9))"
        return ", ".join(
            (columns, f"coalesce({infinite}, {moment})", *self._compared(kind, is_state=is_state))
        )

    def _compared(self, kind: str, *, is_state: bool) -> list[str]:
        """The added columns; a log's older rows have none."""
        return self._added if kind == "shorts" and is_state else []

    def past(self, table: str) -> str:
        """What is compared of a table as of a moment, in SQL that PostgreSQL, DuckDB and Spark read alike."""
        kind = table.partition("_")[0]
        if kind == "named":
            return f"id, c{self._renames}, n"
        return "id, n, md5(big)" if kind == "things" else "id, n"

    def define(self, chance: random.Random) -> None:
        """Add a column whose default the rows get that are there, make one wider, or drop one; and a row behind it, which tells of it."""
        table, way = f"shorts_{self.name}", chance.choice(("add", "add", "widen", "drop"))
        column = chance.choice(self._added) if self._added else ""
        with psycopg.connect(self.url, autocommit=True) as connection:
            if way == "add" or not column:
                column = f"e{self._definitions}"
                self._definitions += 1
                null = chance.choice(("NOT NULL", "NULL"))
                connection.execute(
                    f"ALTER TABLE {table} ADD COLUMN {column} int {null} DEFAULT {self._definitions}"
                )
                # The lake gives older rows no default where they may be null: each is told of with its own value.
                if null == "NULL":
                    connection.execute(
                        f"UPDATE {table} SET {column} = CASE WHEN id % 3 > 0 THEN {self._definitions} END"
                    )
                self._added.append(column)
            elif way == "widen":
                connection.execute(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE bigint")
                connection.execute(f"UPDATE {table} SET {column} = 5000000000 WHERE id % 4 = 0")
            else:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
                self._added.remove(column)
            connection.execute(f"INSERT INTO {table} (id, n) SELECT nextval('ids_{self.name}') * 2, 1")

    def relax(self) -> None:
        """Let a column be null that may not be, with rows that have none."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"ALTER TABLE shorts_{self.name} ALTER COLUMN n DROP NOT NULL")
            connection.execute(f"UPDATE shorts_{self.name} SET n = NULL WHERE id % 5 = 0")

    def rename(self) -> None:
        """Give a column another name, in the middle of the table, and rows with it."""
        table, former = f"named_{self.name}", f"c{self._renames}"
        self._renames += 1
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"UPDATE {table} SET n = {self._renames} WHERE id % 3 = 0")
            connection.execute(f"ALTER TABLE {table} RENAME COLUMN {former} TO c{self._renames}")
            connection.execute(f"UPDATE {table} SET n = -{self._renames} WHERE id % 3 = 1")

    def pulse(self) -> int:
        """Commit something; an LSN behind all commits before it, and before its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
            connection.execute(f"INSERT INTO pulse_{self.name} (n) VALUES (1)")
        assert row is not None
        return int(row[0])

    def snapshot(self, kind: str) -> None:
        """Have the tables read again while changes go on."""
        tables = [f"public.{table}" for table in self.tables()]
        data = json.dumps({"type": kind, "data-collections": tables})
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("INSERT INTO {} VALUES (%s, 'execute-snapshot', %s)").format(
                    sql.Identifier(f"signals_{self.name}")
                ),
                (secrets.token_hex(4), data),
            )

    def gap(self) -> None:
        """Changes that are not captured, as those between the loss of a slot and a new one."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            publication, things = self.name, f"things_{self.name}"
            connection.execute(f"ALTER PUBLICATION {publication} DROP TABLE {things}")
            connection.execute(
                f"UPDATE {things} SET n = n + 1000000, big = repeat(md5(n::text), 90) WHERE id % 7 = 0"
            )
            connection.execute(
                f"INSERT INTO {things} SELECT nextval('ids_{self.name}') * 2, i, repeat('gap', 1000)"
                " FROM generate_series(1, 20) i"
            )
            connection.execute(f"ALTER PUBLICATION {publication} ADD TABLE {things}")


class Traffic(Writers):
    """Inserts, updates with and without values out of line, deletes, changes of keys, TRUNCATE, rollbacks.

    Args:
        many: transactions behind which there are few, or the job would not come to its end.
    """

    def __init__(self, store: Store, seed: int, *, many: int, pause: float = 0.02) -> None:
        self._many = many
        super().__init__(store.url, seed, pause=pause)
        self._name = store.name

    def transaction(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        if self.transactions > self._many:
            self._stop.wait(0.5)
        if chance.random() < 0.02:
            self._insert(connection, chance, chance.randint(100, 400))
        for _ in range(chance.choice((1, 1, 2, 5))):
            self._one(connection, number, chance)
        if chance.random() < 0.05:
            connection.rollback()
        else:
            connection.commit()

    def _one(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        things, shorts = f"things_{self._name}", f"shorts_{self._name}"
        # Each writer has rows of its own, so that none waits for the other.
        mine = f"(SELECT id FROM {things} WHERE id % 2 = {number} ORDER BY id DESC OFFSET {chance.randrange(60)} LIMIT 1)"
        match chance.choice(
            ("new", "new", "set", "set", "set", "big", "delete", "key", "short", "short", "named", "gone")
        ):
            case "new":
                self._insert(connection, chance, 1)
            case "set":
                connection.execute(
                    f"UPDATE {things} SET n = {chance.randrange(1000)}, free = {_free(chance)}, at = {_at(chance)}"
                    f" WHERE id = {mine}"
                )
            case "big":
                connection.execute(
                    f"UPDATE {things} SET big = repeat('{chance.random()}', 300) WHERE id = {mine}"
                )
            case "delete":
                connection.execute(f"DELETE FROM {things} WHERE id = {mine}")
            case "key":
                # With its value out of line: under a new key PostgreSQL does not log one that has not changed.
                connection.execute(
                    f"UPDATE {things} SET id = nextval('ids_{self._name}') * 2 + {number},"
                    f" big = repeat('{chance.random()}', 300) WHERE id = {mine}"
                )
            case "short":
                connection.execute(
                    f"INSERT INTO {shorts} SELECT nextval('ids_{self._name}') * 2 + {number}, i, {_free(chance)}, {_at(chance)}"
                    f" FROM generate_series(1, {chance.randint(1, 4)}) i"
                )
            case "named":
                connection.execute(
                    f"INSERT INTO named_{self._name} SELECT nextval('ids_{self._name}') * 2 + {number}, i, i"
                    f" FROM generate_series(1, {chance.randint(1, 4)}) i"
                )
            case "gone":
                if chance.random() < 0.2:
                    connection.execute(f"TRUNCATE {shorts}")

    def _insert(self, connection: "psycopg.Connection[Any]", chance: random.Random, rows: int) -> None:
        connection.execute(
            f"INSERT INTO things_{self._name} SELECT nextval('ids_{self._name}') * 2 + {chance.randrange(2)}, i,"
            f" repeat('{chance.random()}', 300) FROM generate_series(1, {rows}) i"
        )


def _free(chance: random.Random) -> str:
    """A number without a scale that every choice of types holds."""
    return chance.choice(
        (
            "NULL",
            str(chance.randrange(10**9)),
            f"{chance.randrange(10**9)}::numeric / 1000",
            "1e20",
            "-0.000001",
        )
    )


def _at(chance: random.Random) -> str:
    """A time, finite or not."""
    return chance.choice(("now()::timestamp", "now()::timestamp", "'infinity'", "'-infinity'"))
