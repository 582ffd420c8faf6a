"""Random histories of tables without foreign keys: the aggregates are what the tables hold, after each transaction."""

import random
from pathlib import Path
from typing import Any

import pytest
from nesting import FILES, Load, keys_of

from tidings_domain.changes import ChangeSet
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.router import Router
from tidings_domain.routing.transactions import CompleteTransaction
from tidings_domain.testing import Rehearsal
from tidings_envelope.envelope import Envelope, Source, TransactionRef
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.spill import DiskBuckets, PlacedRow, SpilledRows

UP = {"public.items": "box_id", "public.parts": "item_id", "public.labels": "part_id"}
TABLES = ("public.boxes", *UP)


class Database:
    """Four tables, and what their rows are as boxes. Boxes are not deleted: that takes their rows with them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, dict[int, dict[str, Any]]] = {table: {} for table in TABLES}

    def transaction(self) -> list[Envelope]:
        return [self._change(order) for order in range(1, self.random.randint(1, 6) + 1)]

    def _change(self, order: int) -> Envelope:
        table = self.random.choice(TABLES)
        key = self.random.randint(1, 3 if table == "public.boxes" else 5)
        rows = self.rows[table]
        known = key in rows
        schema, name = table.split(".")
        source = Source("p", "d", schema, name, 5, 5_000, lsn=1)
        transaction = TransactionRef("1:1", order, order)
        if known and table in UP and self.random.random() < 0.3:
            del rows[key]
            return Envelope("d", source, {"id": key}, None, transaction)
        more = {UP[table]: self.random.randint(1, 5)} if table in UP else {"state": str(order)}
        rows[key] = {"id": key, **more}
        return Envelope("u" if known else "c", source, None, rows[key], transaction)

    def boxes(self) -> dict[int, Any]:
        return {
            box: {
                item: {part: self._under("public.labels", part) for part in self._under("public.parts", item)}
                for item in self._under("public.items", box)
            }
            for box in self.rows["public.boxes"]
        }

    def _under(self, table: str, above: int) -> list[int]:
        return sorted(key for key, row in self.rows[table].items() if row[UP[table]] == above)


def on_disk(router: Router, lsn: int, rows: list[Envelope], directory: Path) -> list[ChangeSet]:
    spilled = SpilledRows(directory)
    spilled.add({at: PlacedRow(row, Partition("t", 0), at) for at, row in enumerate(rows)})
    parts = router.parts(CompleteTransaction(1, lsn, spilled), DiskBuckets(directory, 2))
    sets = [one for part in parts for one in part]
    spilled.close()
    return sets


@pytest.mark.parametrize("seed", range(8))
def test_any_history_gives_what_is_in_the_tables(box_domain: Load, seed: int, tmp_path: Path) -> None:
    """In memory, in parts from disk, and with a sequencer that was restarted in between."""
    domain = box_domain(FILES)
    database, rehearsal, memory = Database(seed), Rehearsal(domain), Memory()
    router = Router(domain, memory)
    changelog: dict[bytes, bytes | None] = {}
    for number in range(1, 60):
        lsn, rows = number * 100, database.transaction()
        if number % 3:
            sets = router.change_sets(CompleteTransaction(1, lsn, rows))
        else:
            sets = on_disk(router, lsn, rows, tmp_path)
        for change_set in sets:
            assert not rehearsal.apply(change_set).failures
        changelog |= memory.take_changes()
        if number % 10 == 0:
            memory = Memory()
            for key, value in changelog.items():
                memory.load(key, value)
            router = Router(domain, memory)
        expected = database.boxes()
        for box in range(1, 4):
            assert keys_of(rehearsal, box) == expected.get(box), f"seed {seed}, transaction {number}"
