"""PostgreSQL to PostgreSQL: real capture, Kafka and sink, whose worker is killed; the copy is the source."""

import random
from pathlib import Path
from typing import Any

import psycopg
from end_to_end import GROUP, capture_config, put_connectors, random_seed, stop_connectors
from sink_targets import connection_options

from tidings_stack.capture import CaptureWorkers
from tidings_stack.waiting import wait_for

TABLES = """
CREATE TYPE mood AS ENUM ('ok', 'bad');
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(12,2), bare numeric, small smallint, whole int,
    ratio real, exact double precision, yes boolean, at timestamp(6), at_ms timestamp(3), zoned timestamptz,
    day date, clock time(6), clock_zoned timetz, span interval, document jsonb, mark uuid, tags text[], numbers int[],
    amounts numeric(8,3)[], data bytea, feeling mood, bits bit(5), big text
);
CREATE TABLE lines (order_id bigint, line int, sku text NOT NULL, qty int NOT NULL DEFAULT 1, PRIMARY KEY (order_id, line));
CREATE TABLE log (id serial PRIMARY KEY, text varchar(20));
"""
COLUMNS = [
    ("customer", lambda r: f"'n\u00f6me ''\"\\{{}}, \t{r.random()}'"),
    ("amount", lambda r: f"{r.randrange(-(10**9), 10**9)}.{r.randrange(100):02d}"),
    ("bare", lambda r: f"{r.randrange(10**25)}.{r.randrange(10**9):09d}1"),
    ("small", lambda r: r.randrange(-32768, 32768)),
    ("whole", lambda r: r.randrange(-(2**31), 2**31)),
    ("ratio", lambda r: repr(r.random())),
    ("exact", lambda r: r.choice(["'NaN'", "'-Infinity'", repr(r.random() * 1e-300), repr(r.random() * 1e9)])),
    ("yes", lambda r: r.choice(["true", "false"])),
    ("at", lambda r: r.choice(["'infinity'", "'1969-12-31 23:59:59.999999'", "'2026-02-03 04:05:06.000007'", "'20021-01-01'"])),
    ("at_ms", lambda r: r.choice(["'-infinity'", "'1901-01-01 00:00:00.001'", "'2026-02-03 04:05:06.789'"])),
    ("zoned", lambda r: r.choice(["'1969-06-01 00:00:00.000001+02'", "'2026-02-03 04:05:06.5-07'"])),
    ("day", lambda r: r.choice(["'infinity'", "'1066-10-14'", "'0044-03-15 BC'", "'2026-02-28'"])),
    ("clock", lambda r: r.choice(["'00:00'", "'23:59:59.999999'"])),
    ("clock_zoned", lambda r: r.choice(["'10:11:12.5+00'", "'23:59:59.999999+00'"])),
    ("span", lambda r: r.choice(["'1 year 2 mons -3 days 04:05:06.7'", "'-00:00:00.000001'", "'100:00:00'"])),
    ("document", lambda r: r.choice(["'{\"a\": [1, 2.50, null, \"ü\"]}'", "'\"text\"'", "'null'"])),
    ("mark", lambda r: repr(f"{r.randrange(2**128):032x}")),
    ("tags", lambda r: r.choice(["'{}'", "ARRAY['a,b', NULL, 'c\"d\\\\e', 'NULL', '']"])),
    ("numbers", lambda r: r.choice(["'{1,NULL,-3}'", "'{}'"])),
    ("amounts", lambda r: r.choice(["'{1.100,NULL,-3.5}'", "'{}'"])),
    ("data", lambda r: r.choice(["''", f"'\\x{r.randrange(256):02x}00ff'"])),
    ("feeling", lambda r: r.choice(["'ok'", "'bad'"])),
    ("bits", lambda r: r.choice(["B'10110'", "B'00000'"])),
]  # fmt: skip
SHOWN = {
    "orders": "SELECT id, "
    + ", ".join(f"{name}::text" for name, _ in COLUMNS)
    + ", md5(big) FROM {} ORDER BY id",
    "lines": "SELECT order_id, line, sku, qty FROM {} ORDER BY 1, 2",
    "log": "SELECT id, text FROM {} ORDER BY 1",
}


class Traffic:
    """Random changes, also of keys, and of rows whose large value is not sent."""

    def __init__(self, url: str, seed: int) -> None:
        self._random = random.Random(seed)
        self._url = url
        self._last = 0

    def run(self, count: int) -> None:
        """Commit so many transactions."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            for _ in range(count):
                with connection.transaction():
                    for _ in range(self._random.randrange(1, 4)):
                        connection.execute(self._change().encode())

    def _values(self) -> list[str]:
        return ["NULL" if name != "customer" and self._random.random() < 0.2 else str(make(self._random)) for name, make in COLUMNS]  # fmt: skip

    def _change(self) -> str:
        r = self._random
        known = r.randrange(1, self._last + 1) if self._last else 0
        match r.choice("iiiiuuuutkdDllLx"):
            case "i":
                self._last += 1
                return f"INSERT INTO orders VALUES ({self._last}, {', '.join(self._values())}, (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 200)))"
            case "u":
                changes = ", ".join(
                    f"{name} = {value}" for (name, _), value in zip(COLUMNS, self._values(), strict=True)
                )
                return f"UPDATE orders SET {changes} WHERE id = {known}"
            case "t":
                return f"UPDATE orders SET big = repeat('x', {r.randrange(9000)}) WHERE id = {known}"
            case "k":
                self._last += 1
                # With its large value: of one that is not sent nobody knows what it is under the new key.
                return f"UPDATE orders SET id = {self._last}, big = 'moved' WHERE id = {known}"
            case "d":
                return f"DELETE FROM orders WHERE id = {known}"
            case "D":
                return f"DELETE FROM lines WHERE order_id = {known}"
            case "l":
                return f"INSERT INTO lines VALUES ({known}, {r.randrange(5)}, 'sku') ON CONFLICT (order_id, line) DO UPDATE SET qty = lines.qty + 1"
            case "L":
                return f"INSERT INTO log (text) VALUES ('{r.random()}'::varchar(20))"
            case _:
                return "TRUNCATE log" if r.random() < 0.2 else "INSERT INTO log (text) VALUES (NULL)"


def rows(url: str, prefix: str) -> dict[str, list[tuple[Any, ...]]]:
    """What the tables hold; nothing of one that is not there yet."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        for name, query in SHOWN.items():
            table = prefix + name
            if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,):
                found[name] = connection.execute(query.format(table).encode()).fetchall()
    return found


def test_a_copy_is_the_source_after_a_kill(
    pg_database: str, copy: str, kafka_bootstrap: str, unique_name: str, tmp_path: Path
) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(TABLES.encode())
    seed = random_seed()
    traffic = Traffic(pg_database, seed)
    traffic.run(150)
    source = capture_config(
        pg_database,
        unique_name,
        **{
            "interval.handling.mode": "string",
            "skipped.operations": "none",
        },
    )
    sink = {
        "connector.class": "JdbcSink",
        "topics.regex": f"{unique_name}[.]public[.].*",
        "tasks.max": "2",
        **connection_options(copy),
        "collection.name.format": "copy_${source.table}",
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "truncate.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "consumer.override.max.poll.records": "40",
    }
    with CaptureWorkers(tmp_path, kafka_bootstrap) as workers:
        properties = workers.properties(unique_name, GROUP)
        worker = workers.start(properties)
        connectors = {unique_name: source, f"{unique_name}-sink": sink}
        put_connectors(worker, connectors)
        wait_for("the copy to begin", lambda: rows(copy, "copy_").get("orders"))
        traffic.run(100)
        worker.kill()
        worker = workers.start(properties)
        traffic.run(100)

        def same() -> bool:
            return rows(copy, "copy_") == rows(pg_database, "")

        try:
            wait_for("the copy to be the source", same, 60)
        except AssertionError:
            print(worker.request("GET", f"/connectors/{unique_name}-sink/status"))
            there, here = rows(pg_database, ""), rows(copy, "copy_")
            for name in there:
                print(
                    name,
                    [
                        pair
                        for pair in zip(there[name], here.get(name, []), strict=False)
                        if pair[0] != pair[1]
                    ][:3],
                )
            raise
        with psycopg.connect(copy, autocommit=True) as connection:
            types = dict(
                connection.execute(
                    "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
                    " WHERE attrelid = 'copy_orders'::regclass AND attnum > 0"
                ).fetchall()
            )
        assert types["bare"] == "numeric"
        assert types["amount"] == "numeric(12,2)"
        assert types["tags"] == "text[]"
        stop_connectors(worker, connectors)
