"""A source whose transactions keep invariants, and a reader of a copy that looks for one which does not."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, LiteralString, Protocol, Self

import pymysql

ACCOUNTS = 40
TABLES = ("accounts", "orders", "items")
SOURCE = (
    "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, size int NOT NULL)",
    "CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint NOT NULL REFERENCES orders (id), sku text)",
    f"INSERT INTO accounts VALUES {', '.join(f'({number}, 1000)' for number in range(1, ACCOUNTS + 1))}",
)
TARGET = (
    "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, size int NOT NULL)",
    "CREATE TABLE items (id bigint PRIMARY KEY, order_id bigint NOT NULL REFERENCES orders (id), sku varchar(20))",
)
BROKEN = (
    "SELECT (SELECT count(*) FROM accounts), (SELECT coalesce(sum(balance), 0) FROM accounts),"
    " (SELECT count(*) FROM orders o WHERE o.size <> (SELECT count(*) FROM items i WHERE i.order_id = o.id))"
)
"""One statement, so one state: how many accounts, what they have together, and orders with too few or too many items."""
Ask = Callable[[str], list[tuple[Any, ...]]]


class Session(Protocol):
    """A connection to the source, as psycopg has it; what is changed outside of a transaction is committed at once."""

    def execute(self, statement: LiteralString, values: tuple[object, ...], /) -> object:
        """Run a statement with ``%s`` for values."""

    def transaction(self) -> AbstractContextManager[object]:
        """What is run meanwhile is committed together."""


class MySqlSession:
    """The same on a MariaDB or a MySQL."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: LiteralString, values: tuple[object, ...], /) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.begin()
        yield  # a failure ends the traffic, and with it the connection
        self._connection.commit()


class Transfers:
    """Traffic on the source, in a thread of its own.

    Args:
        open_session: opens the session that it writes through.
        pause: seconds between two transactions.
    """

    def __init__(
        self, open_session: Callable[[], AbstractContextManager[Session]], seed: int, pause: float = 0.02
    ) -> None:
        self._open_session, self._random, self._pause = open_session, random.Random(seed), pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transfers", daemon=True)
        self._orders: list[int] = []
        self._order = self._item = 0
        self.transactions = 0
        self.failed: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            with self._open_session() as connection:
                while not self._ended.is_set():
                    with connection.transaction():
                        for _ in range(self._random.choice((1, 1, 2, 5))):
                            self._change(connection)
                    self.transactions += 1
                    self._ended.wait(self._pause)
        except BaseException as error:  # noqa: BLE001 - the test tells of it
            self.failed = error

    def _change(self, connection: Session) -> None:
        r = self._random
        match r.choice("tttoood"):
            case "t":
                amount = r.randrange(1, 200)
                for number, change in zip(
                    r.sample(range(1, ACCOUNTS + 1), 2), (-amount, amount), strict=True
                ):
                    connection.execute(
                        "UPDATE accounts SET balance = balance + %s WHERE id = %s", (change, number)
                    )
            case "o":
                self._order += 1
                size = r.randrange(1, 6) if r.random() < 0.95 else 300
                connection.execute("INSERT INTO orders VALUES (%s, %s)", (self._order, size))
                for _ in range(size):
                    self._item += 1
                    connection.execute(
                        "INSERT INTO items VALUES (%s, %s, %s)",
                        (self._item, self._order, f"sku {self._item}"),
                    )
                self._orders.append(self._order)
            case _ if self._orders:
                gone = self._orders.pop(r.randrange(len(self._orders)))
                connection.execute("DELETE FROM items WHERE order_id = %s", (gone,))
                connection.execute("DELETE FROM orders WHERE id = %s", (gone,))


class Auditor:
    """Reads a copy without pause, in a thread of its own."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="auditor", daemon=True)
        self.looks = 0
        """At a copy that has its first snapshot."""
        self.broken: tuple[Any, ...] | None = None
        self.failed: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            while not self._ended.is_set() and self.broken is None:
                ((accounts, together, orders),) = self._ask(BROKEN)
                if accounts == ACCOUNTS:
                    self.looks += 1
                    if (int(together), orders) != (ACCOUNTS * 1000, 0):
                        self.broken = (accounts, together, orders)
                self._ended.wait(0.01)
        except BaseException as error:  # noqa: BLE001 - the test tells of it
            self.failed = error


def rows(ask: Ask) -> dict[str, list[tuple[Any, ...]]]:
    """What the tables hold."""
    return {table: ask(f"SELECT * FROM {table} ORDER BY id") for table in TABLES}
