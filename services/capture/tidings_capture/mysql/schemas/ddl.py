"""What a definition (DDL) of the log changes, by its words up to the tables' names; nothing else of it is understood. Pure.

Which statements are told, and under which names, is as Debezium's (``schema.history.internal.ddl.filter`` and the listeners of
its parser); what it tells otherwise is in docs/mariadb.md.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from tidings_envelope.java.hash_order import java_hash_order

_TOKEN: Final = re.compile(
    r"(?P<space>\s+|/\*(?!!|M!).*?\*/|/\*M?!\d*|\*/|--(?:\s[^\n]*|$)|#[^\n]*)"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    r"""|(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
    r"|(?P<word>[\w$@]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_LOOKED_AT: Final = 1 << 16
"""Characters: where a name stands behind them, it is not found, and the statement is told without a table."""
_OBJECTS: Final = frozenset(
    {
        "TABLE",
        "DATABASE",
        "SCHEMA",
        "INDEX",
        "VIEW",
        "FUNCTION",
        "PROCEDURE",
        "PACKAGE",
        "TRIGGER",
        "USER",
        "ROLE",
        "EVENT",
        "SEQUENCE",
        "SERVER",
    }
)
_UNTOLD: Final = frozenset({"VIEW", "FUNCTION", "PROCEDURE", "PACKAGE", "TRIGGER", "USER", "ROLE", "SERVER"})
"""Debezium tells none of them but SERVER, which holds a password."""
_UNTOLD_FIRST: Final = frozenset({"GRANT", "REVOKE", "ANALYZE", "OPTIMIZE", "REPAIR", "TRUNCATE"})


@dataclass(frozen=True, slots=True)
class Definition:
    """A change of one table, or of what is not a table."""

    type: str
    """``CREATE``, ``ALTER`` or ``DROP`` of a table; empty: of something else."""
    database: str
    table: str | None
    """Its name; empty where it is not a table that changes, None where it is a database."""
    statement: str
    tables: tuple[str, ...] = ()
    """All tables of that database that the statement changes, in the order that the record names them in."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class _Tokens:
    """A statement's tokens without spaces and comments, and how far they are read."""

    def __init__(self, statement: str) -> None:
        self._tokens = [
            _Token(str(found.lastgroup), found[0], found.start(), found.end())
            for found in _TOKEN.finditer(statement[:_LOOKED_AT])
            if found.lastgroup != "space"
        ]
        self._at = 0

    @property
    def next(self) -> _Token:
        """The next token; an empty one at the end."""
        end = self._tokens[-1].end if self._tokens else 0
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "", end, end)

    @property
    def end(self) -> int:
        """Where the last token that was read ends."""
        return self._tokens[self._at - 1].end if self._at else 0

    def skip(self) -> None:
        self._at += 1

    def word(self) -> str:
        """The next word in capitals, without reading it; empty where it is not a word."""
        token = self.next
        return token.text.upper() if token.kind == "word" else ""

    def take(self, *words: str) -> bool:
        """Read these words, in this order, where they come next."""
        for place, word in enumerate(words):
            found = self._tokens[self._at + place : self._at + place + 1]
            if not found or found[0].kind != "word" or found[0].text.upper() != word:
                return False
        self._at += len(words)
        return True

    def to(self, words: Sequence[str]) -> str:
        """Read on to behind one of the words, on the statement's own level; which it was, empty for none."""
        depth = 0
        while self.next.kind != "end":
            token = self.next
            self.skip()
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "other" else 0
            if depth == 0 and token.kind == "word" and token.text.upper() in words:
                return token.text.upper()
        return ""

    def name(self, database: str) -> tuple[str, str] | None:
        """Read a table's name: its database and itself; None where there is none."""
        first = self._identifier()
        if first is None:
            return None
        if self.next.text != ".":
            return database, first
        self.skip()
        second = self._identifier()
        return None if second is None else (first, second)

    def _identifier(self) -> str | None:
        token = self.next
        if token.kind == "quoted":
            self.skip()
            return token.text[1:-1].replace("``", "`")
        if token.kind == "word":
            self.skip()
            return token.text
        return None


def definitions(statement: str, database: str) -> list[Definition]:
    """What a statement changes; none: what is not told.

    Args:
        database: the one that was in use.
    """
    if statement.lstrip().startswith("# Dummy event"):
        return []
    tokens = _Tokens(statement)
    if tokens.take("SET", "STATEMENT"):
        tokens.to(("FOR",))
    text = statement[tokens.next.start :].rstrip().removesuffix(";").rstrip()
    tokens = _Tokens(text)
    first = tokens.word()
    if first in _UNTOLD_FIRST or tokens.take("SET", "PASSWORD") or tokens.take("FLUSH", "RELAY"):
        return []
    plain = [Definition("", database, "", text)]
    tokens.skip()
    if first == "RENAME":
        return (_renamed(tokens, text, database) or plain) if tokens.word() in {"TABLE", "TABLES"} else []
    if first not in {"CREATE", "ALTER", "DROP"}:
        return plain
    before = set()
    while (kind := tokens.word()) not in _OBJECTS:
        if tokens.next.kind == "end":
            return plain
        before.add(kind)
        tokens.skip()
    tokens.skip()
    if kind in _UNTOLD or "TEMPORARY" in before:
        return []
    return _of_object(first, kind, "UNIQUE" in before, tokens, text, database) or plain


def truncated(statement: str, database: str) -> tuple[str, str] | None:
    """Database and name of the table that a statement truncates; None: it truncates none.

    Args:
        database: the one that was in use.
    """
    tokens = _Tokens(statement)
    if tokens.take("SET", "STATEMENT"):
        tokens.to(("FOR",))
    if not tokens.take("TRUNCATE"):
        return None
    tokens.take("TABLE")
    return tokens.name(database)


def _of_object(
    first: str, kind: str, unique: bool, tokens: _Tokens, text: str, database: str
) -> list[Definition]:
    known: dict[tuple[str, str], Callable[[_Tokens, str, str], list[Definition]]] = {
        ("CREATE", "TABLE"): partial(_one, "CREATE"),
        ("ALTER", "TABLE"): _altered,
        ("DROP", "TABLE"): _dropped,
    }
    if (first, kind) in known:
        return known[first, kind](tokens, text, database)
    if kind in {"DATABASE", "SCHEMA"} and first != "ALTER":
        name = _named(tokens, database)
        return [Definition("", name[1], None, text)] if name else []
    if kind == "INDEX" and unique and tokens.to(("ON",)):
        return _one("ALTER", tokens, text, database)
    return []


def _named(tokens: _Tokens, database: str) -> tuple[str, str] | None:
    tokens.take("IF", "NOT", "EXISTS") or tokens.take("IF", "EXISTS")
    return tokens.name(database)


def _one(kind: str, tokens: _Tokens, text: str, database: str) -> list[Definition]:
    name = _named(tokens, database)
    return [Definition(kind, *name, text, (name[1],))] if name else []


def _altered(tokens: _Tokens, text: str, database: str) -> list[Definition]:
    name = _named(tokens, database)
    if name is None:
        return []
    while tokens.to(("RENAME",)):
        if tokens.word() in {"COLUMN", "INDEX", "KEY"}:
            continue
        if tokens.word() in {"TO", "AS"} or tokens.next.text == "=":
            tokens.skip()
        name = tokens.name(name[0]) or name
    return [Definition("ALTER", *name, text, (name[1],))]


def _dropped(tokens: _Tokens, text: str, database: str) -> list[Definition]:
    tokens.take("IF", "EXISTS")
    prefix = text[: tokens.next.start]
    found = []
    while (name := tokens.name(database)) is not None:
        found.append(name)
        if tokens.next.text != ",":
            break
        tokens.skip()
    behind = f" {tokens.next.text}" if tokens.word() in {"RESTRICT", "CASCADE"} else ""
    return _together("DROP", [(name, f"{prefix}{_quoted(name)}{behind}") for name in found])


def _renamed(tokens: _Tokens, text: str, database: str) -> list[Definition]:
    tokens.skip()
    tokens.take("IF", "EXISTS")
    prefix = text[: tokens.next.start]
    found = []
    while tokens.next.kind != "end":
        start = tokens.next.start
        if tokens.name(database) is None or not tokens.to(("TO",)):
            break
        name = tokens.name(database)
        if name is None:
            break
        found.append((name, prefix + text[start : tokens.end]))
        if tokens.next.text != ",":
            break
        tokens.skip()
    return _together("ALTER", found)


def _together(kind: str, found: Sequence[tuple[tuple[str, str], str]]) -> list[Definition]:
    """As Debezium: database by database, and each with the names of all of its tables."""
    databases = list(dict.fromkeys(database for (database, _), _ in found))
    made = []
    for database in databases:
        own = [(name[1], text) for name, text in found if name[0] == database]
        order = java_hash_order(list(dict.fromkeys(f"{database}.{table}" for table, _ in own)))
        tables = tuple(name[len(database) + 1 :] for name in order)
        made += [Definition(kind, database, table, text, tables) for table, text in own]
    return made


def _quoted(name: tuple[str, str]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in name)


def touches(statement: str, database: str, name: tuple[str, str]) -> bool:
    """Whether a definition may have altered a table: whether it names it, or all of its database.

    Args:
        database: the one that was in use.
    """
    told = definitions(statement, database)
    if any(one.table is None and one.database.casefold() == name[0].casefold() for one in told):
        return True
    if told and all(one.type == "CREATE" for one in told):  # names others only to be like them
        return any((one.table or "").casefold() == name[1].casefold() for one in told)
    return bool(told) and _names(statement, name[1])


def _names(statement: str, table: str) -> bool:
    if not table.isascii() and not statement.isascii():
        return True  # it may be written in another character set
    word = re.escape(table.replace("`", "``").casefold())
    return re.search(rf"(?<![\w$]){word}(?![\w$])", statement.casefold()) is not None
