"""What schedules share in which a store's customer writes, and something behind the topics is looked at."""

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace

import pymysql
from faultlab.fault import Fault
from faultlab.topics import ends

from binloglab.run import Run, make_schedule
from binloglab.servers import BinlogLab
from binloglab.store import TABLES, Customer, Customers, create_store
from binloglab.traffic import run
from tidings_stack.capture import avro_options


def make_store_schedule(
    seed: int, other: Callable[[random.Random], Fault], *, faults: int = 5, has_gtids: bool = True
) -> tuple[Fault, ...]:
    """The faults of a seed: those of the source, and among them some of what is behind the topics.

    Args:
        other: makes one of the latter.
        faults: how many there are of the source, at most.
        has_gtids: whether there can be a failover.
    """
    made = [
        replace(fault, kind="alter" if fault.kind == "swap" else fault.kind, records=fault.records // 10)
        for fault in make_schedule(seed, faults=faults, has_gtids=has_gtids)
    ]
    chance = random.Random(f"others {seed}")
    for _ in range(chance.randint(1, 4)):
        fault = other(chance)
        made.insert(chance.randint(0, len(made)), fault)
    return tuple(made)


class StoreRun(Run):
    """One schedule on a store of its own.

    Attributes:
        quiet: the number of the last transaction of which only a snapshot tells.
    """

    def __init__(
        self, lab: BinlogLab, seed: int, faults: tuple[Fault, ...], say: Callable[[str], None]
    ) -> None:
        super().__init__(lab, seed, faults, say)
        self._alters = False
        self._chance = random.Random(f"{seed} store")
        self._avro = random.Random(f"{seed} format").random() < 0.5
        self.quiet = 0
        self._read: set[int] = set()
        """Orders that the first snapshot has read."""

    def _create_tables(self, *, old_rows: bool) -> None:
        db, name = self._binlog_lab.db, self._name
        create_store(db, name)
        if old_rows:
            customer = Customer(db, name, self._seed)
            try:
                customer.transactions(40)
                self.quiet, self._read = customer.number, customer.orders()
            finally:
                customer.close()

    def _customers(self) -> Customers:
        lab = self._binlog_lab
        return Customers(
            lab.writable,
            self._name,
            self._seed,
            lab.flavour,
            number=self.quiet,
            local=self._local,
            empties=self._truncates,
        )

    def _committed(self) -> list[tuple[int, str, str, str | None]]:
        """All that the database has committed, in order."""
        customer = Customer(self._binlog_lab.db, self._name, 0)
        try:
            return customer.history()
        finally:
            customer.close()

    def _config(self) -> dict[str, str]:
        return super()._config() | {
            "table.include.list": rf"{self._name}\.({'|'.join(TABLES)}|elsewhere|history)",
            "skip.messages.without.change": "false",
        }

    def _converters(self) -> dict[str, str]:
        if self._avro:
            return avro_options(self._binlog_lab.registry.url)
        return {"decimal.handling.mode": "string"}

    def alter(self, _: Fault) -> None:
        """A table gets a column that nobody uses, before all others."""
        self._columns += 1
        lab, table = self._binlog_lab, self._chance.choice(TABLES)
        with contextlib.suppress(pymysql.Error):  # the server is away
            run(
                lab.db,
                f"ALTER TABLE {self._name}.{table} ADD COLUMN xf{self._columns} INT DEFAULT 7 FIRST{lab.flavour.alter_lock}",
            )

    def _ask_for_snapshot(self, kind: str, tables: list[str], *, over_rest: bool) -> str:
        return super()._ask_for_snapshot(kind, list(TABLES), over_rest=over_rest)

    def _reads(self) -> bool:
        """Whether a row that is written now arrives."""
        run(self._binlog_lab.db, f"INSERT INTO {self._name}.elsewhere (n) VALUES (0)")
        topic = f"{self._name}.{self._name}.elsewhere"
        return ends(self._binlog_lab.kafka.bootstrap, lambda known: known == topic) > 0
