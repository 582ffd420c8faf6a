"""A downstream team's program: what the warehouse has to pack, once for each order.

    pip install tidings-client
    python packing_list.py --kafka localhost:9092 --registry http://localhost:8080/apis/ccompat/v7 --seen seen.db

It reads version 2 of shop.order-placed, or version 1 where that is not published yet, and goes on where it was after a restart
or when version 2 comes. Only the fields that it uses are declared.
"""

import argparse
from dataclasses import dataclass
from datetime import date

from tidings_client import Events, SqliteSeen, event


@dataclass(frozen=True)
class Line:
    """How many of what."""

    product_id: int
    quantity: int


@event("shop.order-placed", version=2)
@dataclass(frozen=True)
class OrderPlaced:
    """What of an order the warehouse needs."""

    order_id: int
    lines: list[Line]
    required_on: date | None = None


@event("shop.order-placed", version=1)
@dataclass(frozen=True)
class EarlierOrderPlaced:
    """Version 1 has no lines."""

    order_id: int


def main() -> None:
    """Print one line for each order."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kafka", default="localhost:9092")
    parser.add_argument("--registry", default="http://localhost:8080/apis/ccompat/v7")
    parser.add_argument("--seen", default="seen.db")
    parser.add_argument("--group", default="warehouse")
    parser.add_argument("--idle", type=float, help="end when nothing has come for so many seconds")
    options = parser.parse_args()
    with Events(
        kafka=options.kafka,
        registry=options.registry,
        group=options.group,
        events=[OrderPlaced, EarlierOrderPlaced],
        seen=SqliteSeen(options.seen),
        idle_seconds=options.idle,
    ) as events:
        for received in events:
            order = received.data
            if isinstance(order, OrderPlaced):
                goods = ", ".join(f"{line.quantity} x {line.product_id}" for line in order.lines)
                print(f"pack {order.order_id}: {goods}; by {order.required_on or 'any day'}", flush=True)
            else:
                print(f"ask for the lines of {order.order_id}", flush=True)


if __name__ == "__main__":
    main()
