"""Random transactions on two tables, and what they did, written down within them (by statements, as triggers make events of
one row).
"""

import contextlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import pymysql

from binloglab.alters import Alters, new_values, written
from binloglab.flavours import Flavour, MariaDb
from tidings_stack.mariadb import MySqlLikeServer

_FORMAT: Final = 71
"""Of the names of distributed transactions."""
_ROLLED_BACK: Final = 1402
"""What the server says of a distributed transaction that it has rolled back itself."""
PAUSES: Final = (0, 0, 0.01, 0.05)
_ALTERS: Final = 0.08
"""Before which part of the transactions a table is altered, where one is."""
_NUMBERS: Final = "SELECT id FROM a UNION ALL SELECT id FROM b"
_DOCUMENTS: Final = (
    "JSON_SET(doc, '$.n', n)",
    "JSON_REPLACE(doc, '$.n', n)",
    "JSON_SET(doc, '$.n', n, '$.more', CONCAT('é', n))",
    "JSON_REMOVE(JSON_SET(doc, '$.n', n), '$.more')",
)
"""Ways to bring a row's number into its document: of the kind that MySQL may log in part (`binlog_row_value_options`)."""
_TABLES: Final = (
    "CREATE DATABASE {n}",
    "CREATE TABLE {n}.a (id INT PRIMARY KEY, n INT NOT NULL, note VARCHAR(2000), doc JSON, hidden INT NOT NULL DEFAULT 0)",
    "CREATE TABLE {n}.b (id INT NOT NULL, n INT NOT NULL, hidden INT NOT NULL DEFAULT 0, KEY (id))",
    "CREATE TABLE {n}.local (n INT)",
    "CREATE TABLE {n}.signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)",
    "CREATE TABLE {n}.history (seq BIGINT PRIMARY KEY AUTO_INCREMENT, tab CHAR(1), op CHAR(1), id INT, former INT, later INT, added TEXT)",
)


def connect(server: MySqlLikeServer, **more: Any) -> Any:
    """A connection past the proxy."""
    return pymysql.connect(
        host="127.0.0.1", port=server.port, user="admin", password=server.password, autocommit=True, **more
    )


def run(server: MySqlLikeServer, *statements: str) -> list[tuple[Any, ...]]:
    """The last one's rows."""
    connection = connect(server)
    try:
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())
    finally:
        connection.close()


OLD_ROWS: Final = range(-1_000_000, -999_000)
"""The ids of rows that only a snapshot tells of."""


HIDDEN: Final = {"column.exclude.list": r".*\.hidden", "skip.messages.without.change": "true"}
"""Options of a connector on these tables: updates of `hidden` alone are not told."""


def create_tables(server: MySqlLikeServer, name: str, *, old_rows: bool = False) -> None:
    """The database of a schedule.

    Args:
        old_rows: whether `a` has rows before the connector begins, which nobody changes: only a snapshot tells of them.
    """
    run(server, *(statement.format(n=name) for statement in _TABLES))
    if old_rows:
        rows = ", ".join(f"({number}, 0)" for number in OLD_ROWS)
        run(server, f"INSERT INTO {name}.a (id, n) VALUES {rows}")


class LeftPrepared(Exception):
    """A distributed transaction (XA) waits for whoever comes next."""


def finish_prepared(server: MySqlLikeServer, owner: str, chance: random.Random) -> None:
    """Commit the distributed transactions whose names begin so, or roll them back."""
    for row in run(server, "XA RECOVER"):
        name = prepared_name(row)
        if row[0] == _FORMAT and name.startswith(f"'{owner}"):
            try:
                run(server, f"XA {chance.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {name}")
            except pymysql.OperationalError as error:
                if error.args[0] != _ROLLED_BACK:
                    raise


def prepared_name(row: Sequence[Any]) -> str:
    """The name of a distributed transaction, as a statement has it, by a row of ``XA RECOVER``."""
    first, second, form = _parts(row)
    return f"'{first}', '{second}', {form}"


def logged_name(row: Sequence[Any]) -> str:
    """The same as the log has it."""
    first, second, form = _parts(row)
    return f"X'{first.encode().hex()}',X'{second.encode().hex()}',{form}"


def distributed_name(owner: str, number: int) -> str:
    """The name of a distributed transaction of an owner, as a statement has it."""
    return f"'{owner}', '{number}', {_FORMAT}"


def ended(server: MySqlLikeServer, session: int) -> bool:
    """Whether a session has ended.

    MariaDB 11.4.5 logs the commit of what a session has prepared that is just ending, and now and then loses its rows.
    """
    return not run(server, f"SELECT 1 FROM information_schema.processlist WHERE id = {session}")


def _parts(row: Sequence[Any]) -> tuple[str, str, int]:
    form, length, _, data = row
    name = data if isinstance(data, str) else data.decode(errors="replace")  # MySQL has a text
    return name[:length], name[length:], form


class Traffic:
    """Two writers, each with rows of its own, for as long as a `with` lasts; a server that is away is waited for.

    Args:
        server: says which one is written; it may be another one after a failover.
        pauses: of which one is made behind each transaction, in seconds.
        xa: which part of the transactions is distributed (XA), and of these which part its session leaves prepared.
        local: behind which part of the transactions there is one of a source that does not count, in the table `local`.
        alters: whether tables are altered between transactions.
        virtual: whether some of their columns are VIRTUAL.
        truncates: before which part of the transactions `a` is truncated, of which nothing is written down.
        most_rows: that one statement inserts.
    """

    def __init__(
        self,
        server: Callable[[], MySqlLikeServer],
        name: str,
        seed: int,
        pauses: Sequence[float] = PAUSES,
        xa: float = 0,
        local: float = 0,
        flavour: Flavour | None = None,
        *,
        alters: bool = False,
        virtual: bool = False,
        truncates: float = 0,
        most_rows: int = 3_000,
    ) -> None:
        self._truncates = truncates
        self._most_rows = most_rows
        self._flavour = flavour or MariaDb()
        self._server, self._name, self._pauses, self._xa = server, name, pauses, xa
        self._local = local
        self._alters = Alters(self._flavour.alter_lock, virtual=virtual) if alters else None
        self._has_images = not (alters and virtual and self._flavour.leaves_out_virtual)
        self._stop = threading.Event()
        self.transactions = 0
        self._threads = [
            threading.Thread(
                target=self._write, args=(number, random.Random(f"{seed} {number}")), daemon=True
            )
            for number in range(2)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(300)
            assert not thread.is_alive(), "a writer of the lab has not ended in 300 seconds"

    def _write(self, number: int, chance: random.Random) -> None:
        next_id = number + 2  # even and odd
        former = 0
        while not self._stop.is_set():
            with contextlib.suppress(
                pymysql.Error, LeftPrepared
            ):  # or the server is away, or has ended the connection
                if self._xa:
                    self._wait_for_end(former)
                    finish_prepared(self._server(), self._owner(number), chance)
                connection = connect(self._server(), database=self._name, connect_timeout=5, read_timeout=30)
                former = connection.thread_id()
                try:
                    with connection.cursor() as cursor:
                        # What was committed when the connection was lost, or is committed now, has taken its numbers.
                        cursor.execute(f"SELECT MAX(id) FROM ({_NUMBERS}) known WHERE id % 2 = {number}")
                        next_id = max(next_id, int(cursor.fetchall()[0][0] or 0) + 2)
                        while not self._stop.is_set():
                            next_id = self._transaction(cursor, number, next_id, chance)
                            self.transactions += 1
                            if self._local and chance.random() < self._local:
                                for statement in self._flavour.local("INSERT INTO local VALUES (1)"):
                                    cursor.execute(statement)
                            self._stop.wait(chance.choice(self._pauses))
                finally:
                    with contextlib.suppress(pymysql.Error):
                        connection.close()
            self._stop.wait(0.1)

    def _wait_for_end(self, number: int) -> None:
        while not (ended(self._server(), number) or self._stop.wait(0.01)):
            pass

    def _owner(self, number: int) -> str:
        return f"{self._name}-{number}-"

    def _transaction(self, cursor: Any, number: int, next_id: int, chance: random.Random) -> int:
        def changed(
            table: str, op: str, later: str, rows: str, values: Mapping[str, str] | None = None
        ) -> None:
            former = "NULL" if op == "c" else "n"
            added = written(columns[table], "n" if op == "d" else later, values or {}) if columns else "NULL"
            cursor.execute(
                f"INSERT INTO history (tab, op, id, former, later, added)"
                f" SELECT '{table}', '{op}', id, {former}, {later}, {added} FROM {table} WHERE {rows} ORDER BY id"
            )

        def insert(table: str, columns: str, values: str, count: int = 1) -> None:
            nonlocal next_id
            cursor.execute(f"INSERT INTO {table} ({columns}) VALUES {values}")
            changed(
                table, "c", "n", f"id % 2 = {number} AND id BETWEEN {next_id} AND {next_id + 2 * count - 1}"
            )
            next_id += 2 * count

        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        if self._alters and chance.random() < _ALTERS:
            self._alters.alter(cursor, chance)
        if self._truncates and chance.random() < self._truncates:
            # Not where a transaction that is prepared has the table.
            with contextlib.suppress(pymysql.err.OperationalError):
                cursor.execute("SET SESSION lock_wait_timeout = 1")
                cursor.execute("TRUNCATE TABLE a")
        if self._xa and self._has_images and (statement := self._flavour.session(chance)):
            cursor.execute(statement)
        xid = None
        if chance.random() < self._xa:
            xid = distributed_name(self._owner(number), next_id)
        cursor.execute(f"XA START {xid}" if xid else "BEGIN")
        columns = self._alters.columns(cursor) if self._alters else None
        for _ in range(chance.randint(1, 6)):
            low = chance.randint(0, next_id)
            mine = f"id % 2 = {number} AND id BETWEEN {low} AND"
            match chance.choice(
                (
                    "many",
                    "one",
                    "one",
                    "update",
                    "update",
                    "delete",
                    "key",
                    "savepoint",
                    "b",
                    "b",
                    "wide",
                    "hidden",
                    "partly",
                )
            ):
                case "many":
                    count = chance.choice((5, 50, 50, self._most_rows))
                    rest = '"list": [1, {"k": null}], "text": "é😀"'
                    rows = ", ".join(
                        f"({next_id + 2 * i}, {i}, 'é😀', '{{\"n\": {i}, {rest}}}')" for i in range(count)
                    )
                    insert("a", "id, n, note, doc", rows, count)
                case "one":
                    insert("a", "id, n, doc", f"({next_id}, 0, '{{\"n\": 0}}')")
                case "wide":
                    wide = "REPEAT('x', 2000)"
                    insert(
                        "a", "id, n, note, doc", f"({next_id}, 1, {wide}, JSON_OBJECT('n', 1, 't', {wide}))"
                    )
                case "update":
                    values = new_values(columns["a"], chance) if columns else {}
                    changed("a", "u", "n + 1", f"{mine} {low + 80}", values)
                    sets = [
                        f"{column} = {value}" for column, value in values.items()
                    ]  # with the former number
                    document = chance.choice(_DOCUMENTS)  # with the new number: from left to right
                    sets += ["n = n + 1", f"doc = {document}"]
                    cursor.execute(f"UPDATE a SET {', '.join(sets)} WHERE {mine} {low + 80}")
                case "hidden":  # none of it is to be told
                    table = chance.choice("ab")
                    cursor.execute(f"UPDATE {table} SET hidden = hidden + 1 WHERE {mine} {low + 80}")
                case "partly":
                    changed("b", "u", "n + 1", f"id % 3 = 0 AND {mine} {low + 80}")
                    cursor.execute(
                        f"UPDATE b SET hidden = hidden + 1, n = n + (id % 3 = 0) WHERE {mine} {low + 80}"
                    )
                case "delete":
                    changed("a", "d", "NULL", f"{mine} {low + 12}")
                    cursor.execute(f"DELETE FROM a WHERE {mine} {low + 12}")
                case "key":
                    cursor.execute(f"SELECT MIN(id) FROM a WHERE {mine} {low + 200}")
                    ((found,),) = cursor.fetchall()
                    if found is not None:
                        changed("a", "d", "NULL", f"id = {found}")
                        cursor.execute(f"UPDATE a SET id = {next_id} WHERE id = {found}")
                        changed("a", "c", "n", f"id = {next_id}")
                        next_id += 2
                case "savepoint":
                    cursor.execute("SAVEPOINT s")
                    insert("b", "id, n", f"({next_id}, 5)")
                    cursor.execute("ROLLBACK TO s")
                case _:
                    insert("b", "id, n", f"({next_id}, 1), ({next_id + 2}, 1)", 2)
                    recent = f"id % 2 = {number} AND id > {next_id - 30}"
                    changed("b", "u", "n + 1", recent)
                    cursor.execute(f"UPDATE b SET n = n + 1 WHERE {recent}")
        how = "ROLLBACK" if chance.random() < 0.1 else "COMMIT"
        if xid is None:
            cursor.execute(how)
            return next_id
        cursor.execute(f"XA END {xid}")
        if chance.random() < 0.1:
            cursor.execute(f"XA {how} {xid}" + (" ONE PHASE" if how == "COMMIT" else ""))
            return next_id
        cursor.execute(f"XA PREPARE {xid}")
        if chance.random() < self._xa:
            raise LeftPrepared
        cursor.execute(f"XA {how} {xid}")
        return next_id
