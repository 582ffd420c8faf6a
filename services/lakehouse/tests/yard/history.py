"""A random history of the yard's tables: rows of topics and END markers, as capture writes them, with what a crash repeats."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

PLACEHOLDER = "__debezium_unavailable_value"
KEYS = {"cities": "id", "owners": "id", "boxes": "id", "items": "id", "parts": "id", "tags": "id"}
_LONG = {"type": ["null", "long"], "default": None}
_TEXT = {"type": ["null", "string"], "default": None}
_WEIGHT = {
    "type": [
        "null",
        {
            "type": "bytes",
            "scale": 2,
            "precision": 10,
            "connect.version": 1,
            "logicalType": "decimal",
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "connect.name": "org.apache.kafka.connect.data.Decimal",
        },
    ],
    "default": None,
}
_MADE_AT = {
    "type": [
        "null",
        {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.version": 1},
    ],
    "default": None,
}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "cities": [{"name": "id", "type": "long"}, {"name": "name", **_TEXT}],
    "owners": [{"name": "id", "type": "long"}, {"name": "name", **_TEXT}, {"name": "city_id", **_LONG}],
    "boxes": [
        {"name": "id", "type": "string"},
        {"name": "owner_id", **_LONG},
        {"name": "state", **_TEXT},
        {"name": "note", **_TEXT},
        {"name": "weight", **_WEIGHT},
        {"name": "made_at", **_MADE_AT},
        {"name": "undeclared", **_TEXT},
    ],
    "items": [{"name": "id", "type": "long"}, {"name": "box_id", **_TEXT}, {"name": "name", **_TEXT}],
    "parts": [{"name": "id", "type": "long"}, {"name": "item_id", **_LONG}, {"name": "name", **_TEXT}],
    "tags": [{"name": "id", "type": "long"}, {"name": "box_id", **_TEXT}, {"name": "label", **_TEXT}],
}


def qualified(table: str) -> str:
    """With its schema, which is public where none is told."""
    return table if "." in table else f"public.{table}"


@dataclass(frozen=True)
class TableRecord:
    """A record of a table's topic."""

    table: str
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    lsn: int
    last_commit: int | None
    ts_us: int
    tx_id: int | None = None
    order: int = 0
    snapshot: str = "false"
    traceparent: bytes | None = None


@dataclass(frozen=True)
class End:
    """An END marker."""

    tx_id: int
    commit: int
    counts: dict[str, int]


@dataclass
class History:
    """Grows by transactions; `records` are in the order in which they were written."""

    seed: int
    records: list[TableRecord | End] = field(default_factory=list)
    rows: dict[str, dict[Any, dict[str, Any]]] = field(default_factory=lambda: {name: {} for name in KEYS})
    lsn: int = 1000
    tx_id: int = 700
    last: int | None = None
    now_us: int = 1_700_000_000_000_000

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._id = 0

    def snapshot(self) -> None:
        """What is there already, read in the order of the tables' names."""
        for _ in range(12):
            for told in self._changes():
                self._apply(told)
        for table in sorted(KEYS):
            for row in self.rows[table].values():
                self.records.append(
                    TableRecord(table, "r", None, row, self.lsn, None, self.now_us, snapshot="true")
                )

    def grow(self, count: int) -> None:
        """So many transactions."""
        for _ in range(count):
            self.commit([one for _ in range(self.random.choice((1, 1, 2, 4))) for one in self._applied()])

    def _applied(self) -> list[tuple[str, str, Any, Any]]:
        found = self._changes()
        for one in found:
            self._apply(one)
        return found

    def commit(self, changes: list[tuple[str, str, Any, Any]]) -> None:
        """One transaction; now and then capture crashes and writes its end again."""
        self.tx_id += self.random.randint(1, 3)
        self.now_us += self.random.randint(1, 10**7)
        trace = b"00-%032x-%016x-01" % (self.tx_id, self.tx_id) if self.random.random() < 0.2 else None
        made: list[TableRecord] = []
        for order, (table, op, before, after) in enumerate(changes, 1):
            self.lsn += self.random.randint(1, 50)
            made.append(
                TableRecord(
                    table,
                    op,
                    before,
                    after,
                    self.lsn,
                    self.last,
                    self.now_us,
                    self.tx_id,
                    order,
                    "false",
                    trace,
                )
            )
        self.lsn += self.random.randint(1, 50)
        counts = Counter(qualified(one.table) for one in made)
        end = End(self.tx_id, self.lsn, dict(counts))
        self.records += [*made, end]
        if self.random.random() < 0.1:
            self.records += [*made[self.random.randint(0, len(made)) :], end]
        self.last = self.lsn

    def _apply(self, change: tuple[str, str, Any, Any]) -> None:
        table, op, before, after = change
        if op == "t":
            return  # its aggregates stay as they were, and so do these
        if op == "d":
            self.rows[table].pop(before["id"], None)
        else:
            old = self.rows[table].get(after["id"], {})
            kept = {name: old.get(name) for name, value in after.items() if value == PLACEHOLDER}
            self.rows[table][after["id"]] = {**after, **kept}

    def _new(self) -> int:
        self._id += 1
        return self._id

    def _pick(self, table: str) -> dict[str, Any] | None:
        found = list(self.rows[table].values())
        return self.random.choice(found) if found else None

    def _changes(self) -> list[tuple[str, str, Any, Any]]:
        kinds = ("city", "owner", "box", "box", "item", "item", "part", "part", "tag", "touch", "toast", "move", "move_tag", "move_part",
                 "rename", "gone", "box_gone", "other_key", "truncate", "impossible")  # fmt: skip
        found: list[tuple[str, str, Any, Any]] = getattr(self, f"_{self.random.choice(kinds)}")()
        return found

    def _city(self) -> list[Any]:
        old = self._pick("cities")
        if old is not None and self.random.random() < 0.5:
            return [("cities", "u", None, {**old, "name": f"city {self._new()} é"})]
        return [("cities", "c", None, {"id": self._new(), "name": f"city {self._id}"})]

    def _owner(self) -> list[Any]:
        city = self._pick("cities")
        row = {"id": self._new(), "name": f"owner {self._id}", "city_id": city and city["id"]}
        return [("owners", "c", None, row)]

    def _rename(self) -> list[Any]:
        old = self._pick("owners")
        if old is None:
            return self._owner()
        return [("owners", "u", {**old}, {**old, "name": f"renamed {self._new()}"})]

    def _box(self) -> list[Any]:
        owner, number = self._pick("owners"), self._new()
        row = {
            "id": f"b/{number}, é",
            "owner_id": owner and owner["id"],
            "state": "new",
            "note": f"note {number}",
            "weight": self.random.choice((None, Decimal("0.10"), Decimal("12.50"))),
            "made_at": self.random.choice((None, 12_345, 1_700_000_000_123_456)),
            "undeclared": "x",
        }
        item = {"id": self._new(), "box_id": row["id"], "name": f"item {self._id}"}
        part = {"id": self._new(), "item_id": item["id"], "name": f"part {self._id}"}
        made = [("boxes", "c", None, row), ("items", "c", None, item), ("parts", "c", None, part)]
        self.random.shuffle(made)
        return made

    def _item(self) -> list[Any]:
        box = self._pick("boxes")
        if box is None:
            return self._box()
        row = {"id": self._new(), "box_id": box["id"], "name": f"item {self._id}"}
        return [("items", "c", None, row)]

    def _part(self) -> list[Any]:
        item = self._pick("items")
        if item is None:
            return self._item()
        return [("parts", "c", None, {"id": self._new(), "item_id": item["id"], "name": f"part {self._id}"})]

    def _tag(self) -> list[Any]:
        box = self._pick("boxes")
        if box is None:
            return self._box()
        return [("tags", "c", None, {"id": self._new(), "box_id": box["id"], "label": f"tag {self._id}"})]

    def _touch(self) -> list[Any]:
        box = self._pick("boxes")
        if box is None:
            return self._box()
        return [("boxes", "u", None, {**box, "weight": Decimal(self._new()), "state": "touched"})]

    def _toast(self) -> list[Any]:
        box = self._pick("boxes")
        if box is None:
            return self._box()
        return [("boxes", "u", None, {**box, "note": PLACEHOLDER, "state": f"state {self._new()}"})]

    def _move(self) -> list[Any]:
        item, box = self._pick("items"), self._pick("boxes")
        if item is None or box is None:
            return self._item()
        to = None if self.random.random() < 0.1 else box["id"]
        return [("items", "u", None, {**item, "box_id": to})]

    def _move_tag(self) -> list[Any]:
        tag, box = self._pick("tags"), self._pick("boxes")
        if tag is None or box is None:
            return self._tag()
        return [("tags", "u", None, {**tag, "box_id": self.random.choice((box["id"], None))})]

    def _move_part(self) -> list[Any]:
        part, item = self._pick("parts"), self._pick("items")
        if part is None or item is None:
            return self._part()
        return [("parts", "u", None, {**part, "item_id": item["id"]})]

    def _gone(self) -> list[Any]:
        table = self.random.choice(("items", "parts", "tags"))
        row = self._pick(table)
        return [] if row is None else [(table, "d", self._key(table, row["id"]), None)]

    def _box_gone(self) -> list[Any]:
        box = self._pick("boxes")
        if box is None:
            return self._box()
        items = [one for one in self.rows["items"].values() if one["box_id"] == box["id"]]
        found = [("boxes", "d", self._key("boxes", box["id"]), None)]
        found += [("items", "d", self._key("items", one["id"]), None) for one in items]
        self.random.shuffle(found)
        return found

    def _key(self, table: str, key: Any) -> dict[str, Any]:
        """A row under REPLICA IDENTITY DEFAULT: the key is true, the rest is not told."""
        return {**{one["name"]: None for one in FIELDS[table]}, "id": key}

    def _other_key(self) -> list[Any]:
        """A key changes: a delete and an insert; the items follow, but for one, perhaps."""
        box = self._pick("boxes")
        if box is None:
            return self._box()
        new = {**box, "id": f"other {self._new()}"}
        items = [one for one in self.rows["items"].values() if one["box_id"] == box["id"]]
        return [
            ("boxes", "d", self._key("boxes", box["id"]), None),
            ("boxes", "c", None, new),
            *(("items", "u", None, {**one, "box_id": new["id"]}) for one in items[1:]),
        ]

    def _truncate(self) -> list[Any]:
        return [("tags", "t", None, None)]

    def _impossible(self) -> list[Any]:
        box = self._pick("boxes")
        if box is None or self.random.random() < 0.5:
            return self._box()
        return [("boxes", "u", None, {**box, "state": "impossible"})]
