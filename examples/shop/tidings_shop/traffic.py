"""Runs a plan of traffic against the shop's database, at a rate, and counts what became of it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidings_shop.database import Applied, Outcome, ShopDatabase
from tidings_shop.traffic_plan import TrafficPlan, plan_seed
from tidings_shop.transactions import Transaction

FEWEST_CUSTOMERS = 20
FEWEST_PRODUCTS = 30
"""Traffic fills a shop that has less than this."""


@dataclass(slots=True)
class TrafficSummary:
    """What traffic has done to the database: counts of what was committed."""

    seed: int
    committed: Counter[str] = field(default_factory=Counter)
    """Transactions by kind."""
    not_committed: Counter[str] = field(default_factory=Counter)
    """Transactions by outcome: rolled_back, conflicted, skipped."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows by ``table.operation``."""
    facts: Counter[str] = field(default_factory=Counter)
    """Business events that the committed transactions amount to, by name."""
    seconds: float = 0.0

    @property
    def transactions(self) -> int:
        """How many transactions were committed."""
        return self.committed.total()

    def add(self, transaction: Transaction, applied: Applied) -> None:
        """Count one transaction."""
        if applied.outcome is not Outcome.COMMITTED:
            self.not_committed[applied.outcome.value] += 1
            return
        self.committed[transaction.kind.value] += 1
        self.rows.update(applied.rows)
        self.facts.update(transaction.facts)

    def to_dict(self) -> dict[str, object]:
        """The summary for machines."""
        return {
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "transactions": self.transactions,
            "committed": dict(sorted(self.committed.items())),
            "not_committed": dict(sorted(self.not_committed.items())),
            "rows": dict(sorted(self.rows.items())),
            "facts": dict(sorted(self.facts.items())),
        }


def seed_shop(
    database: ShopDatabase,
    seed: int,
    *,
    customers: int = FEWEST_CUSTOMERS,
    products: int = FEWEST_PRODUCTS,
) -> TrafficSummary:
    """Add customers and products."""
    summary = TrafficSummary(seed)
    start = time.monotonic()
    number = database.catalogue(limit=1).first_email_number
    for transaction in plan_seed(seed, customers=customers, products=products, first_email_number=number):
        summary.add(transaction, database.apply(transaction))
    summary.seconds = time.monotonic() - start
    return summary


def prepare_plan(database: ShopDatabase, seed: int, *, rate: float) -> TrafficPlan:
    """A plan that begins with what is in the database; an empty shop is filled first."""
    catalogue = database.catalogue()
    customers = max(0, FEWEST_CUSTOMERS - len(catalogue.customers))
    products = max(0, FEWEST_PRODUCTS - len(catalogue.products))
    if customers or products:
        seed_shop(database, seed, customers=customers, products=products)
        catalogue = database.catalogue()
    database.know(catalogue.ids())
    return TrafficPlan(seed, rate=rate, catalogue=catalogue)


def run_traffic(
    database: ShopDatabase,
    plan: Iterable[Transaction],
    summary: TrafficSummary,
    *,
    rate: float = 0.0,
    count: int | None = None,
    seconds: float | None = None,
    stop: threading.Event | None = None,
    on_transaction: Callable[[TrafficSummary], None] = lambda _summary: None,
) -> None:
    """Execute the plan's transactions until `count`, `seconds` or `stop`, and count them in `summary`.

    Args:
        rate: transactions per second; 0 is as fast as the database goes. Behind its time, it does not wait.
        on_transaction: called after each transaction.

    Raises:
        ShopError: when the database is lost.
    """
    stop = stop or threading.Event()
    start = time.monotonic()
    try:
        for number, transaction in enumerate(plan):
            elapsed = time.monotonic() - start
            if count is not None and number >= count:
                break
            pause = number / rate - elapsed if rate else 0.0
            if seconds is not None and elapsed + max(pause, 0.0) >= seconds:
                break
            if stop.is_set() or (pause > 0 and stop.wait(pause)):
                break
            summary.add(transaction, database.apply(transaction))
            summary.seconds = time.monotonic() - start
            on_transaction(summary)
    finally:
        summary.seconds = time.monotonic() - start
