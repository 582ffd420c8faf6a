"""What the server knows of its tables now: what the binary log does not say, and what a snapshot reads."""

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from tidings_capture.mysql.binlog.multibyte import FORMS, server_decoder
from tidings_capture.mysql.client import Session
from tidings_capture.mysql.errors import UnsupportedError

SYSTEM: Final = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
_COLUMNS: Final = """
SELECT column_name, data_type, column_type, is_nullable, column_default, character_set_name, collation_name,
       character_maximum_length, numeric_precision, numeric_scale, datetime_precision, extra, column_comment, VERSION()
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_KEYS: Final = """
SELECT index_name, column_name, nullable, sub_part FROM information_schema.statistics
WHERE table_schema = %s AND table_name = %s AND non_unique = 0 ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index
"""
_TABLES: Final = """
SELECT table_schema, table_name, engine, table_rows FROM information_schema.tables
WHERE table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY table_schema, table_name
"""
_ENDS: Final = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = %s AND table_name = %s AND generation_expression = 'ROW END'
"""
_SHARED_COLLATIONS: Final = """
SELECT id, character_set_name FROM information_schema.collation_character_set_applicability WHERE id IS NOT NULL
"""
_COLLATIONS: Final = "SELECT id, character_set_name FROM information_schema.collations WHERE id IS NOT NULL"
HIDDEN: Final = ("row_start", "row_end")
"""The columns of a system-versioned table that names none: when a row began, and when it ended."""
_CREATED: Final = """
SELECT create_time, table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column as ``information_schema`` has it."""

    name: str
    type: str
    """``data_type``: int, varchar, ..."""
    declared: str
    """``column_type``: int(10) unsigned, enum('a','b'), ..."""
    nullable: bool
    default: str | None
    """An expression of SQL; None without a default."""
    charset: str | None
    collation: str | None
    length: int | None
    """In characters."""
    precision: int | None
    scale: int | None
    decimals: int | None
    """Of a time."""
    generated: bool
    virtual: bool
    comment: str = ""

    @property
    def unsigned(self) -> bool:
        return "unsigned" in self.declared


@dataclass(frozen=True, slots=True)
class Table:
    """A table now."""

    database: str
    name: str
    columns: tuple[Column, ...]
    primary: tuple[str, ...]
    unique: tuple[str, ...]
    """The columns of the first unique index without columns that may be null."""
    created: int | None
    """When it was made or altered last, in seconds since the Unix epoch."""
    ends: str | None = None
    """Where it is system-versioned: the column that says when a row has ended; it may be one of `HIDDEN`."""

    @property
    def qualified(self) -> str:
        """``database.table``."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Found:
    """A table's name, and where its rows are kept."""

    database: str
    name: str
    engine: str | None
    rows: int | None
    """As the server estimates them."""


def tables(session: Session) -> list[Found]:
    """All tables but the system's and views."""
    return [
        Found(database, name, engine, None if rows is None else int(rows))
        for database, name, engine, rows in session.rows(_TABLES)
    ]


def table(session: Session, database: str, name: str) -> Table | None:
    """A table; None where there is none now."""
    columns = tuple(_column(row) for row in session.rows(_COLUMNS, (database, name)))
    if not columns:
        return None
    keys: dict[str, list[tuple[str, bool]]] = {}
    for index, column, nullable, part in session.rows(_KEYS, (database, name)):
        # Of an index on the beginning of a column two rows may have the same key only with the same beginning.
        keys.setdefault(index, []).append((column, nullable == "YES" or part is not None))
    about = session.rows(_CREATED, (database, name))
    created, kind = about[0] if about else (None, "")
    ends = None
    if kind == "SYSTEM VERSIONED":
        ends = (session.rows(_ENDS, (database, name)) or [(HIDDEN[1],)])[0][0]
        # It is a part of each unique key, and the same in all rows of now.
        keys = {index: [part for part in parts if part[0] != ends] for index, parts in keys.items()}
    primary = tuple(column for column, _ in keys.pop("PRIMARY", []))
    unique = next((tuple(c for c, _ in key) for key in keys.values() if not any(null for _, null in key)), ())
    return Table(database, name, columns, primary, unique, _seconds(created), ends)


def _seconds(text: Any) -> int | None:
    if text is None:
        return None
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _column(row: Sequence[Any]) -> Column:
    name, kind, declared, nullable, default, charset, collation = row[:7]
    length, precision, scale, decimals, extra, comment, version = row[7:]
    if default is not None and "mariadb" not in version.lower():
        default = _expression(str(default), kind.lower(), extra)

    def number(text: Any) -> int | None:
        return None if text is None else int(text)

    return Column(
        name=name,
        type=kind.lower(),
        declared=declared.lower() if kind.lower() not in {"enum", "set"} else declared,
        nullable=nullable == "YES",
        default=None if default is None else str(default),
        charset=charset,
        collation=collation,
        length=number(length),
        precision=number(precision),
        scale=number(scale),
        decimals=number(decimals),
        generated=" GENERATED" in extra,  # and not DEFAULT_GENERATED, as MySQL says of an expression
        virtual="VIRTUAL" in extra,
        comment=comment or "",
    )


def _expression(default: str, kind: str, extra: str) -> str:
    """MySQL's catalog has a constant as it is, and says so of an expression; MariaDB's has an expression of SQL."""
    if "DEFAULT_GENERATED" in extra or kind == "bit":
        return default
    if kind in {"binary", "varbinary"} and default.startswith("0x"):
        default = bytes.fromhex(default[2:]).decode("latin-1")
    doubled = default.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"


class Charsets:
    """The character sets behind the numbers of collations, and what makes texts of their bytes."""

    _CODECS: Final[Mapping[str, str]] = {
        "utf8mb4": "utf-8",
        "utf8mb3": "utf-8",
        "utf8": "utf-8",
        "ascii": "ascii",
        "ucs2": "utf-16-be",
        "utf16": "utf-16-be",
        "utf16le": "utf-16-le",
        "utf32": "utf-32-be",
        # These agree with the server in all that Python knows (each pair of bytes was compared); see `multibyte` for others.
        "gbk": "gbk",
        "gb2312": "gb2312",
        "euckr": "cp949",
        "cp932": "cp932",
    }

    def __init__(self, session: Session) -> None:
        self._session = session
        rows = session.rows(_SHARED_COLLATIONS if session.shares_collations else _COLLATIONS)
        self._names: dict[int, str] = {int(number): name for number, name in rows}
        self._widths = {
            name: int(width)
            for name, width in session.rows(
                "SELECT character_set_name, maxlen FROM information_schema.character_sets"
            )
        }
        self._decoders: dict[str, Any] = {}

    def name(self, collation: int) -> str:
        """The character set of a collation.

        Raises:
            UnsupportedError: the server does not know it.
        """
        found = self._names.get(collation)
        if found is None:
            raise UnsupportedError(f"the server has no collation with the number {collation}")
        return found

    def number(self, charset: str) -> int:
        """A collation of a character set.

        Raises:
            UnsupportedError: the server does not know the character set.
        """
        found = next((number for number, name in self._names.items() if name == charset), None)
        if found is None:
            raise UnsupportedError(f"the server has no character set {charset}")
        return found

    def width(self, charset: str) -> int:
        """The most bytes of one of its characters."""
        return self._widths.get(charset, 1)

    def decoder(self, collation: int) -> Any:
        """What makes a text of a column's bytes: just as the server would.

        Raises:
            UnsupportedError: for a character set that is not read.
        """
        name = self.name(collation)
        made = self._decoders.get(name)
        if made is None:
            made = self._decoders[name] = self._make(name)
        return made

    def _make(self, name: str) -> Any:
        codec = self._CODECS.get(name)
        if codec == "utf-8":
            return bytes.decode
        if codec is not None:
            return lambda data: data.decode(codec)
        if name in FORMS:
            return server_decoder(self._session, name)
        if self._widths.get(name) != 1:
            raise UnsupportedError(
                f"texts in the character set {name} are not read",
                hint="leave the column's table out with table.exclude.list, or convert it to utf8mb4",
            )
        return self._single(name)

    def _single(self, name: str) -> Any:
        """The server's own table of a character set of single bytes."""
        whole = bytes(range(256))
        parts = ", ".join(
            f"CONVERT(CONVERT(_binary x'{byte:02x}' USING {name}) USING utf8mb4)" for byte in whole
        )
        characters = "".join(
            text if isinstance(text, str) else bytes(text or b"").decode()
            for text in self._session.rows(f"SELECT {parts}")[0]
        )
        if len(characters) != 256:
            raise UnsupportedError(f"the server's character set {name} has not 256 characters")
        return lambda data: codecs.charmap_decode(data, "strict", characters)[0]
