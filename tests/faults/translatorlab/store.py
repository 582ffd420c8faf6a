"""The store's tables, and customers who keep it busy."""

import random
from collections.abc import Mapping
from typing import Any

import psycopg
from faultlab.writers import Writers

TABLES = ("customers", "orders", "items", "payments")
"""The captured tables; `elsewhere` is captured, too, but no rule has heard of it."""

_TABLES = """
CREATE TABLE customers (id bigserial PRIMARY KEY, name text NOT NULL, unused int NOT NULL DEFAULT 1);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint NOT NULL, status text NOT NULL,
                     note text DEFAULT 'none', unused int NOT NULL DEFAULT 1);
CREATE TABLE items (id bigserial PRIMARY KEY, order_id bigint NOT NULL REFERENCES orders ON DELETE CASCADE,
                    price numeric(10, 2) NOT NULL, unused int NOT NULL DEFAULT 1);
CREATE TABLE payments (order_id bigint REFERENCES orders ON DELETE CASCADE, number int, amount numeric(10, 2) NOT NULL,
                       unused int NOT NULL DEFAULT 1, PRIMARY KEY (order_id, number));
CREATE TABLE elsewhere (id bigserial PRIMARY KEY, what text NOT NULL);
CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32), data text);

-- What happened, by triggers: who reads it needs neither the WAL nor anything of Tidings, but for the commits' order.
CREATE TABLE history (place bigserial PRIMARY KEY, xid text NOT NULL, tab text NOT NULL, key text NOT NULL, row jsonb);
CREATE INDEX ON history (xid);
CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE one jsonb := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
BEGIN
    INSERT INTO history (xid, tab, key, row)
    VALUES (pg_current_xact_id()::xid::text, TG_TABLE_NAME,
            CASE TG_TABLE_NAME WHEN 'payments' THEN (one->>'order_id') || '/' || (one->>'number') ELSE one->>'id' END,
            CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE one END);
    RETURN NULL;
END $$;
"""


def create_store(url: str, slot: str) -> None:
    """Make the tables; `slot` gets a slot that remembers in which order transactions were committed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLES)
        for table in TABLES:
            connection.execute(
                f"CREATE TRIGGER remember AFTER INSERT OR UPDATE OR DELETE ON {table}"
                " FOR EACH ROW EXECUTE FUNCTION remember()"
            )
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (slot,))


class Customers(Writers):
    """Place orders, pay, move and remove items until the `with` ends.

    Args:
        big: how likely a transaction is one of hundreds of items.
        late: so many transactions are committed before the first that writes a table.
        odd: how likely an order refers to a customer that there has never been, which the domain requires, and a transaction
            is one that the connector fails on.
    """

    def __init__(
        self,
        url: str,
        seed: int,
        *,
        pause: float = 0.03,
        big: float = 0.01,
        odd: float = 0.0,
        late: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(url, seed, pause=pause)
        self._late = dict(late or {})
        self._big = big
        self._odd = odd

    def transaction(self, connection: "psycopg.Connection[Any]", number: int, chance: random.Random) -> None:
        doing = chance.random()
        if doing < self._big:
            self._place(connection, chance, chance.randint(300, 1_500))
        elif doing < 0.03 and chance.random() < 20 * self._odd:
            self._fail(connection)
        elif doing < 0.08:
            connection.execute("INSERT INTO elsewhere (what) VALUES ('nobody asks')")
        else:
            for _ in range(chance.choice((1, 1, 1, 2, 4))):
                chance.choice(
                    (
                        *(self._place, self._place, self._pay, self._pay, self._pay, self._rename),
                        *(self._move, self._remove_item, self._add_item, self._delete, self._touch),
                    )
                )(connection, chance)
        if 0.08 < doing < 0.12:
            self._stop.wait(0.05)  # others are committed within it
            self._touch(connection, chance)
        if 0.12 < doing < 0.15:
            connection.rollback()
        else:
            connection.commit()

    def _is_early(self, table: str) -> bool:
        return self.transactions < self._late.get(table, 0)

    def _order(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> int:
        """An order that is there, mostly a new one; locked, as an application would do it."""
        row = connection.execute(
            "SELECT id FROM orders ORDER BY id DESC OFFSET %s LIMIT 1 FOR UPDATE SKIP LOCKED",
            (chance.randrange(chance.choice((3, 40))),),
        ).fetchone()
        return self._place(connection, chance) if row is None else int(row[0])

    def _place(self, connection: "psycopg.Connection[Any]", chance: random.Random, items: int = 0) -> int:
        row = connection.execute(
            "SELECT id FROM customers ORDER BY id DESC OFFSET %s LIMIT 1", (chance.randrange(10),)
        ).fetchone()
        if row is None or chance.random() < 0.1:
            row = connection.execute(
                "INSERT INTO customers (name) VALUES (%s) RETURNING id", (f"customer {chance.random()}",)
            ).fetchone()
        assert row is not None
        if chance.random() < self._odd:
            row = (-chance.randint(1, 3),)
        order = connection.execute(
            "INSERT INTO orders (customer_id, status) VALUES (%s, 'placed') RETURNING id", row
        ).fetchone()
        assert order is not None
        if self._is_early("items"):
            return int(order[0])
        connection.execute(
            "INSERT INTO items (order_id, price) SELECT %s, (%s + i)::numeric / 100 FROM generate_series(1, %s) i",
            (order[0], chance.randint(1, 90_000), items or chance.randint(0, 5)),
        )
        return int(order[0])

    def _pay(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        order = self._order(connection, chance)
        if self._is_early("payments"):
            return
        connection.execute(
            "INSERT INTO payments SELECT %(o)s, greatest(max(number), 0) + 1, %(a)s FROM payments WHERE order_id = %(o)s",
            {"o": order, "a": chance.randint(1, 9999) / 100},
        )
        if chance.random() < 0.2:  # of nothing: the connector filters it
            connection.execute(
                "INSERT INTO payments SELECT %(o)s, coalesce(min(number), 0) - 1, 0 FROM payments"
                " WHERE order_id = %(o)s AND number BETWEEN -1000 AND 0",
                {"o": order},
            )
        status = chance.choice(("paid", "shipped", "cancelled", f"waits {chance.random()}"))
        connection.execute("UPDATE orders SET status = %s WHERE id = %s", (status, order))

    def _fail(self, connection: "psycopg.Connection[Any]") -> None:
        """A payment of nothing that the connector's filter fails on, which it tolerates: the transaction becomes a letter."""
        if self._is_early("payments"):
            return
        connection.execute(
            "INSERT INTO payments SELECT id, (SELECT coalesce(min(number), -1000) - 1 FROM payments"
            " WHERE order_id = o.id AND number < -1000), 0 FROM orders o ORDER BY id DESC LIMIT 1 FOR UPDATE"
        )

    def _rename(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        connection.execute(
            "UPDATE customers SET name = %s WHERE id = (SELECT id FROM customers ORDER BY id DESC OFFSET %s LIMIT 1)",
            (f"renamed {chance.random()}", chance.randrange(10)),
        )

    def _add_item(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        if self._is_early("items"):
            return
        connection.execute(
            "INSERT INTO items (order_id, price) VALUES (%s, %s)",
            (self._order(connection, chance), chance.randint(1, 9999) / 100),
        )

    def _move(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        connection.execute(
            "UPDATE items SET order_id = %s WHERE id = (SELECT id FROM items ORDER BY id DESC OFFSET %s LIMIT 1)",
            (self._order(connection, chance), chance.randrange(30)),
        )

    def _remove_item(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        connection.execute(
            "DELETE FROM items WHERE id = (SELECT id FROM items ORDER BY id DESC OFFSET %s LIMIT 1)",
            (chance.randrange(30),),
        )

    def _delete(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        connection.execute("DELETE FROM orders WHERE id = %s", (self._order(connection, chance),))

    def _touch(self, connection: "psycopg.Connection[Any]", chance: random.Random) -> None:
        """Nothing that anybody wants to know."""
        connection.execute(
            "UPDATE orders SET status = status WHERE id = %s", (self._order(connection, chance),)
        )
