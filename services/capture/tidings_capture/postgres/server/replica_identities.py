"""``replica.identity.autoset.values``: sets captured tables' replica identities before streaming starts."""

import re
from dataclasses import dataclass
from typing import Final

from tidings_capture.cdc.filters import compile_list
from tidings_capture.postgres.client import Session, quote
from tidings_capture.postgres.errors import CatalogError
from tidings_connect.java.regex import JavaPattern

_ENTRY: Final = re.compile(
    r"\s*(?P<tables>[^\s:]+):(?:(?P<plain>DEFAULT|FULL|NOTHING)|INDEX (?P<index>.\w*))\s*", re.IGNORECASE
)
_LETTERS: Final = {"DEFAULT": "d", "FULL": "f", "NOTHING": "n", "INDEX": "i"}
_CURRENT: Final = """
SELECT c.relreplident::text,
       (SELECT x.relname FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
         WHERE i.indrelid = c.oid AND i.indisreplident)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""


@dataclass(frozen=True, slots=True)
class IdentityRule:
    """Which identity tables get."""

    tables: tuple[JavaPattern, ...]
    """Each matches ``schema.table``."""
    identity: str
    """DEFAULT, FULL, NOTHING or INDEX."""
    index: str | None = None

    def clause(self) -> str:
        """What stands behind REPLICA IDENTITY."""
        return f"USING INDEX {quote(self.index)}" if self.index is not None else self.identity


def compile_identities(text: str) -> tuple[IdentityRule, ...]:
    """The rules of an option's value: ``schema.table:FULL,other.*:INDEX name``.

    Raises:
        ValueError: an entry is not of this form.
    """
    rules = []
    for entry in filter(str.strip, text.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ValueError(
                f"the entry {entry.strip()!r} is not <table>:DEFAULT, <table>:FULL, <table>:NOTHING or <table>:INDEX <index>"
            )
        identity = (match["plain"] or "INDEX").upper()
        rules.append(IdentityRule(compile_list(match["tables"]), identity, match["index"]))
    return tuple(rules)


def set_identities(
    session: Session, rules: tuple[IdentityRule, ...], tables: list[tuple[str, str]]
) -> list[str]:
    """Give tables the identities that the rules choose; what was changed, in words.

    Raises:
        CatalogError: two rules speak of one table.
        PostgresError: the server refused, for example because the user does not own the table.
    """
    changed = []
    for schema, table in tables:
        name = f"{schema}.{table}"
        found = [rule for rule in rules if any(pattern.fullmatch(name) for pattern in rule.tables)]
        if len(found) > 1:
            raise CatalogError(
                f"replica.identity.autoset.values has {len(found)} entries that match the table {name}",
                hint="make the expressions exclude each other",
            )
        for rule in found:
            ((letter, index),) = session.rows(_CURRENT, (schema, table))
            if letter == _LETTERS[rule.identity] and (rule.index is None or rule.index == index):
                continue
            session.execute(f"ALTER TABLE {quote(schema)}.{quote(table)} REPLICA IDENTITY {rule.clause()}")
            changed.append(f"{name}: {rule.clause()}")
    return changed


def will_identify(rules: tuple[IdentityRule, ...], table: tuple[str, str]) -> bool:
    """Whether the rules give a captured table an identity that needs no primary key."""
    name = ".".join(table)
    return any(
        rule.identity in {"FULL", "INDEX"} and any(pattern.fullmatch(name) for pattern in rule.tables)
        for rule in rules
    )
