"""The example's read models of the shop's events in PostgreSQL: sinks on capture's own worker, killed with it."""

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidings_shop.demo.pipeline import Pipeline
from tidings_stack.pipeline import pages
from tidings_stack.postgres import create_database

_SINKS = Path(__file__).parents[2] / "examples/read-models"


@dataclass(frozen=True)
class ReadModels:
    """The database that the sinks write."""

    url: str

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query; none while its table is not there yet."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            try:
                return connection.execute(query.encode()).fetchall()
            except psycopg.errors.UndefinedTable:
                return []

    def placed(self) -> int:
        """How many orders the log has."""
        return len(self.rows("SELECT 1 FROM orders_placed"))

    def problems(self, source: str) -> list[str]:
        """What the tables say that the shop's database does not."""
        with psycopg.connect(source, autocommit=True) as connection:
            orders = dict(connection.execute("SELECT id, currency FROM orders").fetchall())
            prices = dict(connection.execute("SELECT id, price FROM products").fetchall())
        placed = self.rows("SELECT ce_id, order_id, currency, cardinality(lines) FROM orders_placed")
        found = []
        if len({row[1] for row in placed}) != len(placed):
            found.append("an order stands in orders_placed twice")
        if (wrong := {row[1] for row in placed if orders.get(row[1]) != row[2]}) or not placed:
            found.append(f"orders_placed has orders that the shop has not: {wrong}")
        if any(row[3] < 1 for row in placed):
            found.append("orders_placed has an order without lines")
        # A product that has left the shop keeps its last price here: no event says that it has gone.
        last: dict[int, Decimal] = dict(self.rows("SELECT product_id, new_price FROM prices"))
        if wrong := {one for one, price in last.items() if prices.get(one, price) != price}:
            found.append(f"prices has others than the shop: {wrong}")
        return found


def start_read_models(pipeline: Pipeline) -> ReadModels:
    """Create the database, and the sinks."""
    url = create_database(pipeline.stack.pg.url, "read_models")
    parts = conninfo_to_dict(url)
    connection = {
        "connection.url": f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}",
        "connection.username": str(parts["user"]),
        "connection.password": str(parts["password"]),
    }
    capture = pipeline.services["capture"].url
    assert capture is not None
    for file in sorted(_SINKS.glob("*.json")):
        config = json.loads(file.read_text("utf-8"))
        pages.put_json(f"{capture}/connectors/{file.stem}/config", config | connection)
    return ReadModels(url)
