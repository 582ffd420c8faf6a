"""SQLite, as a query source reads it. Types are those that columns declare; SQLite itself holds to none."""

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from tidings_capture.query.address import Address
from tidings_capture.query.columns import Column
from tidings_capture.query.database import TableFacts, TableId
from tidings_capture.query.errors import QueryError
from tidings_service.errors import Retry

_NUMBER: Final = re.compile(r"(?:numeric|decimal)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
_KINDS: Final = (
    ("bool", "boolean"),
    ("int", "int64"),
    ("timestamp", "timestamp"),
    ("datetime", "timestamp"),
    ("date", "date"),
    ("real", "float64"),
    ("floa", "float64"),
    ("doub", "float64"),
    ("numeric", "float64"),
    ("decimal", "float64"),
    ("blob", "bytes"),
)
"""By a part of the declared type; the first that fits. Others are text."""
_VIEW: Final = "tidings_query"
_STEPS: Final = 10_000
"""Of SQLite's machine, between two looks at the clock."""
_BUSY: Final = frozenset(
    {"SQLITE_INTERRUPT", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_SCHEMA"}
)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        retry = Retry.TIMED if name in _BUSY else Retry.MANUAL
        raise QueryError(f"{what}: {error}", retry=retry) from error


class Sqlite:
    """A connection to a file of SQLite's, for reading only."""

    def __init__(self, address: Address, zone: ZoneInfo) -> None:
        self._zone = zone
        self._address = address
        uri = Path(address.database).absolute().as_uri() + "?mode=ro"
        with _told(f"cannot open {address}"):
            self._connection = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)

    @property
    def tick(self) -> timedelta:
        """See `Database`."""
        return timedelta(milliseconds=1)

    def now(self) -> datetime:
        """See `Database`."""
        return datetime.now(UTC)  # a file's clock is this machine's

    def tables(self, kinds: frozenset[str]) -> Sequence[TableId]:
        """See `Database`."""
        found = self._rows(
            "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"
        )
        return [TableId("", "", name) for kind, name in found if kind.upper() in kinds]

    def facts(self, table: TableId) -> TableFacts:
        """See `Database`."""
        rows = self._rows(f"PRAGMA table_info({_own(self.named(table))})")
        made = self._rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        collated = any(name == table.name and "COLLATE" in str(sql).upper() for name, sql in made)
        keys = sorted((place, name) for _id, name, _type, _not_null, _default, place in rows if place)
        alone = [name for _place, name in keys] if len(keys) == 1 else []
        return TableFacts(
            [
                Column(name, "", nullable=not not_null and not (name in alone and kind.upper() == "INTEGER"))
                for _id, name, kind, not_null, _default, _place in rows
            ],
            [name for _place, name in keys],
            [row[1] for row in rows if row[1] in alone and row[2].upper() == "INTEGER"],
            frozenset(row[1] for row in rows if not collated),
        )

    def quoted(self, name: str) -> str:
        """See `Database`."""
        return '"' + name.replace('"', '""').replace("%", "%%") + '"'

    def named(self, table: TableId) -> str:
        """See `Database`."""
        return self.quoted(table.name)

    def moment(self, columns: Sequence[str]) -> str:
        """See `Database`. To the millisecond, whatever form a text has."""
        return f"strftime('%%Y-%%m-%%d %%H:%%M:%%f', COALESCE({', '.join((*columns, 'NULL'))}))"

    def parameter(self, moment: datetime, *, zoned: bool) -> str:  # noqa: ARG002 - it has no zones
        """See `Database`."""
        local = moment.astimezone(self._zone).replace(tzinfo=None)
        return local.isoformat(sep=" ", timespec="milliseconds")

    def late(self) -> str:
        """See `Database`: it writes one transaction at a time."""
        return "false"

    def oldest(self) -> datetime | None:
        """See `Database`."""
        return None

    def open(
        self, select: str, rest: str, parameters: Sequence[Any], seconds: float | None = None
    ) -> "_Result":
        """See `Database`. A view tells the types that a query's columns were declared with."""
        self._rows(f"DROP VIEW IF EXISTS temp.{_VIEW}")
        self._rows(f"CREATE TEMP VIEW {_VIEW} AS {_own(select)}")
        columns = [_column(name, kind) for _id, name, kind, *_ in self._rows(f"PRAGMA table_info({_VIEW})")]
        end = None if seconds is None else time.monotonic() + seconds
        self._connection.set_progress_handler(
            None if end is None else lambda: int(time.monotonic() > end), _STEPS
        )
        with _told("a query failed"):
            cursor = self._connection.execute(_own(f"{select} {rest}"), parameters)
        return _Result(cursor, columns)

    def close(self) -> None:
        """See `Database`."""
        self._connection.close()

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with _told(f"cannot ask {self._address}"):
            return self._connection.execute(statement).fetchall()


class _Result:
    """A result that is read while it is made."""

    def __init__(self, cursor: sqlite3.Cursor, columns: Sequence[Column]) -> None:
        self._cursor = cursor
        self.columns = columns

    def fetch(self, rows: int) -> Sequence[Sequence[Any]]:
        """See `Result`."""
        with _told("a query failed"):
            return self._cursor.fetchmany(rows)

    def close(self) -> None:
        """See `Result`."""
        self._cursor.close()


def _own(statement: str) -> str:
    """A statement with SQLite's own placeholders."""
    return re.sub(r"%([s%])", lambda found: "?" if found[1] == "s" else "%", statement)


def _column(name: str, declared: str) -> Column:
    number = _NUMBER.fullmatch(declared.strip())
    if number is not None:
        return Column(name, "numeric", precision=int(number[1]), scale=int(number[2] or 0))
    return Column(name, next((kind for part, kind in _KINDS if part in declared.lower()), "string"))
