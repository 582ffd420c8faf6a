"""How much CPU the rules take: change sets of the shop in, encoded events in every version out, no Kafka.

    python -m tests.bench.translator.model [--orders 5000] [--profile]

A life of an order is seven technical events in four transactions (row and three lines; payment and status; shipment and
status), to which a price change is added. Time is the process's CPU time, so that other work on the machine matters less.
"""

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable
from typing import Any

from tidings_domain import load_domain
from tidings_domain.changes import ChangeSet, Op, RowChange, decode_change_set, encode_change_set
from tidings_domain.evaluation.encoding import EventEncoder
from tidings_domain.evaluation.evaluate import Evaluator

BUYER = {
    "id": 3,
    "email": "ann.lee@example.org",
    "first_name": "Ann",
    "last_name": "Lee",
    "phone": "+39 06 555 0101",
    "city": "Rome",
    "newsletter": True,
    "created_at": "2025-12-24T18:00:00.000001Z",
}
SKU = "6f1c2a9e-3f4b-5d6c-8e7f-0a1b2c3d4e5f"
TS_US = 1_767_225_600_000_000


class NoRegistry:
    """Gives ids without a server."""

    def __init__(self) -> None:
        self.given = 0

    def register(self, subject: str, schema: dict[str, Any] | str) -> int:
        """The next id."""
        _ = subject, schema
        self.given += 1
        return self.given

    def set_compatibility(self, subject: str | None, level: str) -> None:
        """Nothing to do."""


def order_row(number: int, status: str) -> dict[str, Any]:
    """An order's row as Debezium writes it."""
    return {
        "id": number,
        "customer_id": 3,
        "status": status,
        "currency": "EUR",
        "note": None,
        "ordered_at": "2026-01-01T00:00:01.500000Z",
        "required_on": 20468,
        "updated_at": TS_US,
    }


def life(number: int, lsn: int) -> list[ChangeSet]:
    """The change sets of one order and one product."""
    lines = [
        {
            "order_id": number,
            "line_no": no,
            "product_id": 100 + no,
            "quantity": 2,
            "unit_price": f"{10 * no}.95",
            "discount": "0.05",
        }
        for no in (1, 2, 3)
    ]
    payment = {
        "id": number,
        "order_id": number,
        "amount": "124.83",
        "method": "card",
        "paid_at": "2026-01-02T00:00:00Z",
    }
    shipment = {
        "id": number,
        "order_id": number,
        "carrier": "Post",
        "tracking_code": SKU,
        "shipped_at": "2026-01-03T00:00:00Z",
        "delivered": False,
    }
    product = {
        "id": number,
        "sku": SKU,
        "name": "Gravel 7",
        "category": "bike",
        "weight_kg": 9.8,
        "attributes": "{}",
    }
    items, orders = "public.order_items", "public.orders"
    transactions: list[tuple[str, list[tuple[str, Op, dict[str, Any]]], dict[str, Any]]] = [
        (
            "Order",
            [(orders, "c", order_row(number, "placed")), *((items, "c", line) for line in lines)],
            {"public.customers": {"3": BUYER}},
        ),
        ("Product", [("public.products", "c", product | {"price": "100.00"})], {}),
        ("Product", [("public.products", "u", product | {"price": "110.00"})], {}),
        (
            "Order",
            [("public.payments", "c", payment), (orders, "u", order_row(number, "paid"))],
            {"public.customers": {"3": BUYER}},
        ),
        (
            "Order",
            [("public.shipments", "c", shipment), (orders, "u", order_row(number, "shipped"))],
            {"public.customers": {"3": BUYER}},
        ),
    ]
    return [
        ChangeSet(
            aggregate,
            str(number),
            lsn + 100 * step,
            700 + step,
            TS_US + step,
            snapshot=False,
            rows=tuple(
                RowChange(table, op, None, row, place) for place, (table, op, row) in enumerate(rows, 1)
            ),
            references=references,
        )
        for step, (aggregate, rows, references) in enumerate(transactions)
    ]


def cpu_us(what: Callable[[], Any]) -> float:
    """CPU microseconds that a call takes."""
    started = time.process_time()
    what()
    return (time.process_time() - started) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", type=int, default=5000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()

    evaluator = Evaluator(load_domain("tidings_shop.domain"))
    encoder = EventEncoder(NoRegistry())
    change_sets = [one for number in range(options.orders) for one in life(number, 1000 * number)]
    rows = sum(len(one.rows) for one in change_sets)
    encoded: list[bytes] = []
    states: dict[tuple[str, str], bytes | None] = {}
    published = 0

    def write() -> None:
        encoded.extend(encode_change_set(one) for one in change_sets)

    def read() -> None:
        for data in encoded:
            decode_change_set(data)

    def evaluate() -> None:
        nonlocal published
        for data in encoded:
            change_set = decode_change_set(data)
            at = (change_set.aggregate, change_set.id)
            found = evaluator.apply(states.get(at), change_set)
            assert not found.failures, found.failures[0].reason
            states[at] = found.new_state
            for event in found.events:
                encoder.encode(event)
            published += len(found.events)

    cost = {"encode change sets": cpu_us(write), "decode change sets": cpu_us(read)}
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(evaluate)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return
    cost["decode, evaluate, encode events"] = cpu_us(evaluate)
    state_bytes = sum(len(state) for state in states.values() if state) / len(states)
    print(f"{rows} technical events in {len(change_sets)} change sets, {published} events published")
    print(
        f"change set {sum(map(len, encoded)) / len(encoded):.0f} bytes, state {state_bytes:.0f} bytes on average"
    )
    for what, microseconds in cost.items():
        print(
            f"{what:34} {microseconds / rows:6.1f} us per technical event, {rows / microseconds * 1e6:9,.0f} per CPU second"
        )


if __name__ == "__main__":
    main()
