"""The store of the translator's lab on MariaDB or MySQL, and a customer who keeps it busy; triggers write down what happened."""

import random
import re
from collections.abc import Callable
from typing import Any, Final

import pymysql
from faultlab.traffic_thread import TrafficThread

from binloglab.flavours import Flavour
from binloglab.traffic import LeftPrepared, connect, distributed_name, ended, finish_prepared, run
from tidings_stack.mariadb import MySqlLikeServer

EMPTIED: Final = "*"
"""The key of the history's row that says that a table is empty."""
TABLES: Final = ("customers", "orders", "items", "payments")
_COLUMNS: Final = {
    "customers": "id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(100) NOT NULL",
    "orders": "id BIGINT PRIMARY KEY AUTO_INCREMENT, customer_id BIGINT NOT NULL, status VARCHAR(100) NOT NULL",
    "items": "id BIGINT PRIMARY KEY AUTO_INCREMENT, order_id BIGINT NOT NULL, price DECIMAL(10,2) NOT NULL, KEY (order_id)",
    "payments": "order_id BIGINT, number INT, amount DECIMAL(10,2) NOT NULL, PRIMARY KEY (order_id, number)",
}
_ELSEWHERE: Final = "CREATE TABLE elsewhere (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL)"
"""Of which no rule asks."""
_SIGNALS: Final = "CREATE TABLE signals (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data TEXT)"
_HISTORY: Final = (
    "CREATE TABLE history (place BIGINT PRIMARY KEY AUTO_INCREMENT, xid BIGINT NOT NULL, tab VARCHAR(20) NOT NULL,"
    " `key` VARCHAR(50) NOT NULL, `row` LONGTEXT)"
)


def create_store(server: MySqlLikeServer, name: str) -> None:
    """A database with the tables, and triggers that write their history; `@tx` is the transaction's number."""
    statements = [f"CREATE DATABASE {name}", f"USE {name}", _HISTORY, _ELSEWHERE, _SIGNALS]
    for table, columns in _COLUMNS.items():
        statements.append(f"CREATE TABLE {table} ({columns})")
        names = re.findall(r"(\w+) (?:BIGINT|INT|VARCHAR|DECIMAL)\b", columns)
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            key = f"CONCAT({row}.order_id, '/', {row}.number)" if table == "payments" else f"{row}.id"
            values = ", ".join(f"'{one}', NEW.{one}" for one in names)
            json = "NULL" if event == "DELETE" else f"JSON_OBJECT({values})"
            statements.append(
                f"CREATE TRIGGER {table}_{event} AFTER {event} ON {table} FOR EACH ROW"
                f" INSERT INTO history (xid, tab, `key`, `row`) VALUES (@tx, '{table}', {key}, {json})"
            )
    run(server, *statements)


class Customer:
    """Places orders, pays, moves and removes items, one transaction after the other, some of which are rolled back.

    Args:
        seed: or what chooses.
        number: of the last transaction that there was.
        xa: which part of the transactions is distributed (XA), and of these which part its session leaves prepared.
    """

    def __init__(
        self, server: MySqlLikeServer, name: str, seed: int | random.Random, *, number: int = 0, xa: float = 0
    ) -> None:
        self._chance = seed if isinstance(seed, random.Random) else random.Random(seed)
        self._connection = connect(server, database=name, connect_timeout=5, read_timeout=30)
        self._cursor = self._connection.cursor()
        self._name, self._xa = name, xa
        self.number = number
        """Of the last transaction."""

    def transactions(self, count: int, *, big: int = 0) -> set[int]:
        """Their numbers; `big`: the items of an order that the first of them places.

        Raises:
            LeftPrepared: the last one waits for whoever comes next.
        """
        first = self.number + 1
        for _ in range(count):
            self.number += 1
            self._do("SET @tx = %s", self.number)
            distributed = self._xa and self._chance.random() < self._xa
            xid = distributed_name(self._name, self.number)
            self._do(f"XA START {xid}" if distributed else "START TRANSACTION")
            if big:
                self._place(big)
                big = 0
            for _ in range(self._chance.choice((1, 1, 2, 4))):
                self._chance.choice(
                    (self._place, self._pay, self._pay, self._rename, self._move, self._remove, self._delete)
                )()
            how = "ROLLBACK" if self._chance.random() < 0.05 else "COMMIT"
            if distributed:
                self._do(f"XA END {xid}")
                self._do(f"XA PREPARE {xid}")
                if self._chance.random() < self._xa:
                    raise LeftPrepared
                how = f"XA {how} {xid}"
            self._do(how)
        return set(range(first, self.number + 1))

    @property
    def session(self) -> int:
        """The number of its connection."""
        return int(self._connection.thread_id())

    def elsewhere(self, flavour: Flavour, *, local: bool) -> None:
        """A transaction of which no rule asks; a local one is of a source that does not count."""
        rows = ", ".join(f"({n})" for n in range(self._chance.choice((1, 5, 200))))
        statement = f"INSERT INTO elsewhere (n) VALUES {rows}"
        for one in flavour.local(statement) if local else (statement,):
            self._do(one)

    def history(self) -> list[tuple[int, str, str, str | None]]:
        """All that was committed, in order."""
        self._do("SELECT xid, tab, `key`, `row` FROM history ORDER BY place")
        return list(self._cursor.fetchall())

    def orders(self) -> set[int]:
        """Those that are there."""
        self._do("SELECT id FROM orders")
        return {int(row[0]) for row in self._cursor.fetchall()}

    def truncate(self, table: str) -> None:
        """Remove all rows, of which nothing writes history: the rules are not told which they were."""
        self._do(f"TRUNCATE TABLE {table}")

    def empty(self, table: str) -> None:
        """Remove all rows, after the history has told of it: no transaction can do both."""
        self.number += 1
        self._do("INSERT INTO history (xid, tab, `key`) VALUES (%s, %s, %s)", self.number, table, EMPTIED)
        self.go_on_emptying()

    def go_on_emptying(self) -> None:
        """Remove them if that is the last of the history: whoever told of it may not have come to it."""
        self._do("SELECT tab, `key` FROM history ORDER BY place DESC LIMIT 1")
        last = self._cursor.fetchone()
        if last is not None and last[1] == EMPTIED:
            self._do("SET SESSION lock_wait_timeout = 5")
            self.truncate(last[0])

    def close(self) -> None:
        self._connection.close()

    def _do(self, statement: str, *values: Any) -> None:
        self._cursor.execute(statement, values)

    def _one(self, table: str) -> int | None:
        """The id of a row that is there, mostly a new one."""
        self._do(f"SELECT id FROM {table} ORDER BY id DESC LIMIT 1 OFFSET %s", self._chance.randrange(10))
        row = self._cursor.fetchone()
        return None if row is None else int(row[0])

    def _place(self, items: int = 0) -> int:
        customer = self._one("customers")
        if customer is None or self._chance.random() < 0.2:
            self._do("INSERT INTO customers (name) VALUES (%s)", f"Zoë {self._chance.random()}")
            customer = int(self._cursor.lastrowid)
        self._do("INSERT INTO orders (customer_id, status) VALUES (%s, 'placed')", customer)
        order = int(self._cursor.lastrowid)
        prices = [self._chance.randint(1, 90_000) for _ in range(items or self._chance.randint(0, 4))]
        if prices:
            values = ", ".join(f"({order}, {price / 100:.2f})" for price in prices)
            self._do(f"INSERT INTO items (order_id, price) VALUES {values}")
        return order

    def _order(self) -> int:
        return self._one("orders") or self._place()

    def _pay(self) -> None:
        order, amount = self._order(), self._chance.randint(1, 9_999) / 100
        self._do(
            "INSERT INTO payments (order_id, number, amount) SELECT %s, coalesce(max(number), 0) + 1, %s FROM payments WHERE order_id = %s",
            *(order, amount, order),
        )
        status = self._chance.choice(("paid", "shipped", f"waits {self._chance.random()}"))
        self._do("UPDATE orders SET status = %s WHERE id = %s", status, order)

    def _rename(self) -> None:
        self._do(
            "UPDATE customers SET name = %s WHERE id = %s",
            f"né {self._chance.random()}",
            self._one("customers"),
        )

    def _move(self) -> None:
        item = self._one("items")
        if item is not None:
            self._do("UPDATE items SET order_id = %s WHERE id = %s", self._order(), item)

    def _remove(self) -> None:
        self._do("DELETE FROM items WHERE id = %s", self._one("items"))

    def _delete(self) -> None:
        """InnoDB logs no rows that a foreign key deletes, so there is none."""
        order = self._order()
        for table in ("payments", "items"):
            self._do(f"DELETE FROM {table} WHERE order_id = %s", order)
        self._do("DELETE FROM orders WHERE id = %s", order)


class Customers(TrafficThread):
    """A customer in a thread of its own.

    Args:
        server: says which one is written; it may be another one after a failover.
        number: of the last transaction that there was.
        local: whether some transactions are of a source that does not count.
        empties: after which part of the transactions the payments are removed by TRUNCATE.
    """

    def __init__(
        self,
        server: Callable[[], MySqlLikeServer],
        name: str,
        seed: int,
        flavour: Flavour,
        *,
        number: int = 0,
        xa: float = 0.3,
        local: bool = False,
        empties: float = 0,
    ) -> None:
        super().__init__(seed, (pymysql.Error, LeftPrepared))
        self._server, self._name, self._flavour, self._local, self._xa = server, name, flavour, local, xa
        self._session = 0
        self._empties = empties
        self.number = number

    def connect(self) -> Customer:
        """Another one, who first ends what the former has left prepared."""
        while not (ended(self._server(), self._session) or self._ended.wait(0.01)):
            pass
        finish_prepared(self._server(), self._name, self._random)
        customer = Customer(self._server(), self._name, self._random, number=self.number, xa=self._xa)
        self._session = customer.session
        if self._empties:
            customer.go_on_emptying()
        return customer

    def write(self, connection: Customer) -> None:
        """See `TrafficThread`; behind some one of which no rule asks."""
        try:
            connection.transactions(1, big=self._random.choice((0,) * 40 + (30, 400)))
            if self._empties and self._random.random() < self._empties:
                connection.empty("payments")
        finally:
            self.number = connection.number
        if self._random.random() < 0.2:
            connection.elsewhere(self._flavour, local=self._local and self._random.random() < 0.5)
