"""Rows that are left out on the way: by a Filter, by a transform that fails, and because they cannot be converted.

What happens to a row goes by its key, so that the history can tell it: some keys are dropped, some fail in a transform, and
some have an amount of NaN, which has no Decimal. END markers count them all, and a header tells of each.
"""

from dataclasses import dataclass
from typing import Final

HEADER: Final = "tidings.left.out"
_TABLES: Final = r".*\.public\.[ab]"
_FILTER: Final = "io.debezium.transforms.Filter"
_NAN: Final = (
    "CREATE FUNCTION set_amount() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " NEW.amount := CASE WHEN NEW.id % 13 = 6 THEN 'NaN'::numeric ELSE 0 END; RETURN NEW; END $$"
)


@dataclass(frozen=True, slots=True)
class Omissions:
    """What a schedule leaves out."""

    transforms: bool = False
    conversion: bool = False
    """Of the stream alone: a snapshot's row that cannot be converted is an error."""

    def options(self) -> dict[str, str]:
        """Of the connector."""
        found = {"errors.tolerance": "all"} if self.transforms or self.conversion else {}
        if self.conversion:
            found["event.converting.failure.handling.mode"] = "fail"
        if self.transforms:
            conditions = {"drop": "key.id % 7 != 3", "fail": "1 // (key.id % 11 - 5) != 9"}
            found["transforms"] = ",".join(conditions)
            for alias, condition in conditions.items():
                own = {"type": _FILTER, "language": "python", "condition": condition}
                own |= {"topic.regex": _TABLES, "null.handling.mode": "evaluate"}
                found |= {f"transforms.{alias}.{name}": value for name, value in own.items()}
        return found

    def statements(self, tables: tuple[str, ...]) -> list[str]:
        """What the tables need."""
        if not self.conversion:
            return []
        return [_NAN] + [
            f"ALTER TABLE {table} ADD amount numeric(9,2) NOT NULL DEFAULT 0;"
            f" CREATE TRIGGER amount BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION set_amount()"
            for table in tables
        ]

    def by_transform(self, key: int) -> str:
        """What becomes of an event of this key: nothing, ``filtered`` or ``failed``."""
        if not self.transforms:
            return ""
        return "filtered" if key % 7 == 3 else "failed" if key % 11 == 5 else ""

    def unconvertible(self, kind: str, key: int, former: int, *, has_old: bool) -> bool:
        """Whether a change cannot be converted.

        Args:
            has_old: whether the WAL has the whole row of before, and not its key at most.
        """
        if not self.conversion:
            return False
        new, old = key % 13 == 6 and kind != "DELETE", former % 13 == 6 and kind != "INSERT"
        return new or (old and has_old)


NONE: Final = Omissions()
