"""The business events that have to be there, computed by SQL from the store's own history.

Rows as they were after each commit are intervals of commit numbers; events are differences between neighbours. Nothing
here is the translator's: not its decoder, not its model, not its rules.
"""

from collections.abc import Collection, Iterable
from typing import Any

import psycopg

Expected = dict[str, dict[str, list[dict[str, Any]]]]
"""Event (``order-placed.v2``) to order id to payloads in commit order."""

_COMMITS = """
CREATE TEMPORARY TABLE commits AS
SELECT row_number() OVER (ORDER BY place) AS n, xid FROM (
    SELECT row_number() OVER () AS place, substr(data, 7) AS xid
    FROM pg_logical_slot_peek_changes(%s, NULL, NULL, 'include-xids', '1', 'skip-empty-xacts', '1')
    WHERE data LIKE 'BEGIN %%') lines
"""

_VERSIONS = """
CREATE TEMPORARY TABLE versions AS
SELECT tab, key, n, row, lead(n, 1, 9223372036854775807) OVER (PARTITION BY tab, key ORDER BY n) AS until
FROM (SELECT DISTINCT ON (tab, key, n) tab, key, n, row FROM history JOIN commits USING (xid)
      ORDER BY tab, key, n, place DESC) last_of_each_commit;
CREATE TEMPORARY TABLE v_orders AS
SELECT (key)::bigint AS id, n, until, row->>'status' AS status, (row->>'customer_id')::bigint AS customer_id
FROM versions WHERE tab = 'orders' AND row IS NOT NULL
    AND (row->>'customer_id')::bigint > 0; -- who refers to nobody is held from the beginning
CREATE TEMPORARY TABLE v_items AS
SELECT key::bigint AS id, n, until, (row->>'order_id')::bigint AS order_id, (row->>'price')::numeric AS price
FROM versions WHERE tab = 'items' AND row IS NOT NULL;
CREATE TEMPORARY TABLE v_payments AS
SELECT (row->>'order_id')::bigint AS order_id, n, until, (row->>'amount')::numeric AS amount
FROM versions WHERE tab = 'payments' AND row IS NOT NULL;
CREATE TEMPORARY TABLE v_customers AS
SELECT key::bigint AS id, n, until, row->>'name' AS name FROM versions WHERE tab = 'customers' AND row IS NOT NULL;
CREATE INDEX ON v_orders (id); CREATE INDEX ON v_items (order_id); CREATE INDEX ON v_items (id);
CREATE INDEX ON v_payments (order_id); CREATE INDEX ON v_customers (id);
ANALYZE v_orders; ANALYZE v_items; ANALYZE v_payments; ANALYZE v_customers;
"""

_ITEMS = "(SELECT count(*)::int FROM v_items i WHERE i.order_id = o.id AND i.n <= o.n AND o.n < i.until)"
_CUSTOMER = "(SELECT c.name FROM v_customers c WHERE c.id = o.customer_id AND c.n <= o.n AND o.n < c.until)"
_FIRST = "NOT EXISTS (SELECT FROM v_orders b WHERE b.id = o.id AND b.until = o.n)"
_THERE_BEFORE = "EXISTS (SELECT FROM v_orders o WHERE o.id = %s AND o.n < %s AND %s <= o.until)"
_THERE_AFTER = "EXISTS (SELECT FROM v_orders o WHERE o.id = %s AND o.n <= %s AND %s < o.until)"


def _there(item: str, order: str, n: str) -> str:
    """The order existed before commit `n` and exists after it."""
    before, after = (text % (f"{item}.{order}", n, n) for text in (_THERE_BEFORE, _THERE_AFTER))
    return f"{before} AND {after}"


_EVENTS = {
    "order-placed.v1": f"SELECT o.n, 0, o.id AS order_id, {_ITEMS} AS items FROM v_orders o WHERE {_FIRST}",
    "order-placed.v2": f"""
        SELECT o.n, 0, o.id AS order_id, {_ITEMS} AS items,
            (SELECT coalesce(sum(i.price), 0.00) FROM v_items i
             WHERE i.order_id = o.id AND i.n <= o.n AND o.n < i.until) AS total, {_CUSTOMER} AS customer
        FROM v_orders o WHERE {_FIRST}""",
    "status-changed.v1": f"""
        SELECT o.n, 0, o.id AS order_id, b.status AS former, o.status AS status, {_ITEMS} AS items,
            (SELECT coalesce(sum(p.amount), 0.00) FROM v_payments p
             WHERE p.order_id = o.id AND p.n <= o.n AND o.n < p.until) AS paid, {_CUSTOMER} AS customer
        FROM v_orders o JOIN v_orders b ON b.id = o.id AND b.until = o.n WHERE b.status <> o.status""",
    "item-added.v1": f"""
        SELECT i.n, i.id, i.order_id AS order_id, i.id AS item_id, i.price AS price
        FROM v_items i LEFT JOIN v_items b ON b.id = i.id AND b.until = i.n
        WHERE b.order_id IS DISTINCT FROM i.order_id AND {_there("i", "order_id", "i.n")}""",
    "item-removed.v1": f"""
        SELECT i.until, i.id, i.order_id AS order_id, i.id AS item_id
        FROM v_items i LEFT JOIN v_items a ON a.id = i.id AND a.n = i.until
        WHERE i.until < 9223372036854775807 AND a.order_id IS DISTINCT FROM i.order_id
            AND {_there("i", "order_id", "i.until")}""",
    "order-seen.v1": f"SELECT o.n, 0, o.id AS order_id FROM v_orders o WHERE {_FIRST}",
    "order-deleted.v1": """
        SELECT o.until, 0, o.id AS order_id FROM v_orders o
        WHERE o.until < 9223372036854775807 AND NOT EXISTS (SELECT FROM v_orders a WHERE a.id = o.id AND a.n = o.until)""",
}


def expected_events(url: str, slot: str, among: Collection[int] | None = None) -> Expected:
    """All events since `create_store` made the slot; of these transactions alone, if their ids are given."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_COMMITS, (slot,))
        return _events(connection, among)


def expected_of_history(
    url: str, history: Iterable[tuple[int, str, str, str | None]], among: Collection[int]
) -> Expected:
    """The events of a history that another database has written, in the order of its commits.

    Args:
        url: a PostgreSQL that computes them, and keeps nothing.
        history: a transaction's number, a table, a key, and the row as JSON, in order.
        among: the transactions whose events are wanted.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TEMPORARY TABLE history (place bigserial, xid text, tab text, key text, row jsonb)"
        )
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO history (xid, tab, key, row) VALUES (%s, %s, %s, %s)", history)
        connection.execute(
            "CREATE TEMPORARY TABLE commits AS"
            " SELECT row_number() OVER (ORDER BY min(place)) AS n, xid FROM history GROUP BY xid"
        )
        return _events(connection, among)


def _events(connection: "psycopg.Connection[Any]", among: Collection[int] | None) -> Expected:
    """By the tables `history` and `commits`."""
    found: Expected = {}
    connection.execute(_VERSIONS)
    commits = connection.execute("SELECT n, xid::bigint FROM commits").fetchall()
    wanted = {n for n, xid in commits if among is None or xid in among}
    for event, query in _EVENTS.items():
        cursor = connection.execute(query + " ORDER BY 1, 2")
        names = [column.name for column in cursor.description or ()][2:]
        by_order = found.setdefault(event, {})
        for row in cursor:
            if row[0] not in wanted:
                continue
            payload = dict(zip(names, row[2:], strict=True))
            by_order.setdefault(str(payload["order_id"]), []).append(payload)
    return found


def count(events: Expected) -> int:
    """How many events there are."""
    return sum(len(payloads) for by_order in events.values() for payloads in by_order.values())
