"""Definitions among the transactions of the traffic: columns that come and go, and what they were when a row was written."""

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pymysql
from faultlab.history import ADDED

_TABLES: Final = "ab"
_MOST: Final = 8
"""Columns of a table that come and go, at once."""
_KINDS: Final = ("INT", "BIGINT", "INT UNSIGNED", "MEDIUMINT", "VARCHAR(20)", "CHAR(8)")
_COLUMNS: Final = """
SELECT table_name, column_name, column_type, is_nullable, extra LIKE '% GENERATED%' FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name IN ('a', 'b') AND column_name LIKE 'x%' ORDER BY table_name, ordinal_position
"""


@dataclass(frozen=True)
class Added:
    """A column that comes and goes."""

    name: str
    kind: str
    """``column_type``: int(11), enum('a','b'), ..."""
    is_nullable: bool
    is_generated: bool
    """From `n`: one more."""

    @property
    def is_enum(self) -> bool:
        return self.kind.startswith("enum")

    @property
    def is_free(self) -> bool:
        """Whether it can have any number."""
        return not self.is_enum and not self.is_generated


class Alters:
    """Alters the tables `a` and `b`, and says what they were. One for all writers.

    Args:
        lock: see `Flavour.alter_lock`.
        virtual: whether there are VIRTUAL columns.
    """

    def __init__(self, lock: str, *, virtual: bool) -> None:
        self._numbers = itertools.count(1)
        self._lock = lock
        self._virtual = virtual

    def columns(self, cursor: Any) -> dict[str, list[Added]]:
        """What comes and goes of both tables. Nobody alters them before the cursor's transaction has ended."""
        for table in _TABLES:
            cursor.execute(f"SELECT id FROM {table} LIMIT 1")
            cursor.fetchall()
        cursor.execute(_COLUMNS)
        found: dict[str, list[Added]] = {table: [] for table in _TABLES}
        for table, name, kind, nullable, generated in cursor.fetchall():
            found[table].append(Added(name, str(kind).lower(), nullable == "YES", bool(generated)))
        return found

    def alter(self, cursor: Any, chance: random.Random) -> None:
        """Alter a table; or not, where others hold it for long."""
        cursor.execute("SET SESSION lock_wait_timeout = 3")
        table = chance.choice(_TABLES)
        cursor.execute("BEGIN")
        known = self.columns(cursor)[table]
        cursor.execute("COMMIT")
        changes = [self._change(known, chance)]
        if chance.random() < 0.3:
            changes.append(self._add(chance))
        try:
            cursor.execute(f"ALTER TABLE {table} {', '.join(changes)}{self._lock}")
        except pymysql.OperationalError as error:
            # Others hold it for long (1205), or the other writer has just altered the same column (1054, 1091).
            if error.args[0] not in {1054, 1091, 1205}:
                raise

    def _change(self, known: list[Added], chance: random.Random) -> str:
        number = next(self._numbers)
        free = [column for column in known if column.is_free]
        enums = [column for column in known if column.is_enum]
        ways: dict[str, Callable[[], str]] = {"add": lambda: self._add(chance)}
        if known:
            one = chance.choice(known)
            ways["drop"] = lambda: f"DROP COLUMN {one.name}"
            ways["rename"] = lambda: f"RENAME COLUMN {one.name} TO {ADDED}{number}"
        if len(known) > 1:
            first, second = chance.sample(known, 2)
            ways["exchange"] = lambda: (
                f"RENAME COLUMN {first.name} TO {second.name}, RENAME COLUMN {second.name} TO {first.name}"
            )
        if free:
            other = chance.choice(free)
            kind, place = chance.choice(_KINDS), _place(chance)
            ways["change"] = lambda: (
                f"CHANGE COLUMN {other.name} {ADDED}{number} {kind} NULL DEFAULT {number}{place}"
            )
            ways["modify"] = lambda: f"MODIFY COLUMN {other.name} {kind} NULL DEFAULT {number}{place}"
        if enums:
            enum = chance.choice(enums)
            labels = enum.kind.removeprefix("enum(").removesuffix(")")
            default = labels.partition(",")[0]
            ways["labels"] = lambda: (
                f"MODIFY COLUMN {enum.name} ENUM('l{number}',{labels}) NOT NULL DEFAULT {default}{_place(chance)}"
            )
        if len(known) >= _MOST:
            return ways["drop"]()
        return ways[chance.choice(sorted(ways))]()

    def _add(self, chance: random.Random) -> str:
        number = next(self._numbers)
        how = chance.choice(
            (
                f"INT DEFAULT {number}",
                f"INT NOT NULL DEFAULT {number}",
                f"VARCHAR(20) DEFAULT '{number}'",
                f"ENUM('v{number}','w{number}') NOT NULL DEFAULT 'w{number}'",
                f"INT INVISIBLE DEFAULT {number}",
                f"INT AS (n + 1) {'VIRTUAL' if self._virtual else 'STORED'}",
                "INT AS (n + 1) STORED",
            )
        )
        return f"ADD COLUMN {ADDED}{number} {how}{_place(chance)}"


def _place(chance: random.Random) -> str:
    return chance.choice(("", "", " FIRST", " AFTER id", " AFTER n"))


def written(columns: list[Added], number: str, values: Mapping[str, str]) -> str:
    """SQL of what a row has in such columns, as JSON.

    Args:
        number: SQL of what the row has in `n` then.
        values: SQL of columns that are written anew.
    """
    parts = []
    for column in columns:
        value = f"{number} + 1" if column.is_generated else values.get(column.name, column.name)
        parts.append(f"'{column.name}', {value}")
    return f"JSON_OBJECT({', '.join(parts)})"


def new_values(columns: list[Added], chance: random.Random) -> dict[str, str]:
    """SQL of what an update writes to some of the columns, from a row as it was."""
    found = {}
    for column in columns:
        if column.is_free and chance.random() < 0.5:
            found[column.name] = chance.choice(("n + 1", "NULL")) if column.is_nullable else "n + 1"
    return found
