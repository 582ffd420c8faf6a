"""From cells to the records that Debezium's connector would write, for one version of a table. Pure."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tidings_capture.mysql.binlog.cells import MISSING, Cells
from tidings_capture.mysql.encoding.fields import RowField, StructFields, row_field
from tidings_capture.mysql.encoding.kinds import Convert
from tidings_capture.mysql.encoding.mapped_fields import mapped_field
from tidings_capture.mysql.errors import UnsupportedError
from tidings_capture.mysql.flavours.flavour import Flavour
from tidings_capture.mysql.schemas.catalog import Table
from tidings_capture.mysql.settings.config import MariaDbConfig
from tidings_connect.data.text import struct_text
from tidings_connect.errors import RecordError
from tidings_connect.transforms.record import Header, SourceRecord
from tidings_envelope import semantic
from tidings_envelope.headers.commit import HEADER as COMMIT
from tidings_envelope.schema import NO_DEFAULT, ConnectSchema, ConnectType

_STRING: Final = semantic.STRING
_OPTIONAL_STRING: Final = semantic.OPTIONAL_STRING


@lru_cache
def source_schema(database: str) -> ConnectSchema:
    """Of ``source``, which differs in its name only.

    Args:
        database: see `Flavour.name`.
    """
    return semantic.source_block(
        database,
        (
            ("table", _OPTIONAL_STRING),
            ("server_id", semantic.INT64),
            ("gtid", _OPTIONAL_STRING),
            ("file", _STRING),
            ("pos", semantic.INT64),
            ("row", ConnectSchema(ConnectType.INT32)),
            ("thread", semantic.OPTIONAL_INT64),
            ("query", _OPTIONAL_STRING),
        ),
    )


def commit_headers(number: int | None) -> list[Header]:
    """What says the number of a commit."""
    return [] if number is None else [Header(COMMIT, _STRING, str(number))]


_Part = tuple[int, str, Convert, Any]
"""A field: its column's number, its name, what makes a value of a cell, and what stands for NULL."""
NEW_KEY: Final = "__debezium.newkey"
OLD_KEY: Final = "__debezium.oldkey"


@dataclass(slots=True)
class Place:
    """Where a change stands; the task sets it before rows are converted."""

    snapshot: str = "false"
    seconds: int = 0
    """Since the Unix epoch."""
    server_id: int = 0
    gtid: str | None = None
    file: str = ""
    position: int = 0
    """Where its transaction begins in the file; of MySQL, where its event does."""
    row: int = 0
    """Its number in its event, from 0."""
    query: str | None = None
    thread: int | None = None
    """The server's number of the connection that made it."""
    nanos: int = 0
    """Since the Unix epoch, in place of `seconds`, where it is not 0."""
    commit: int | None = None
    """The number of its commit, which its record's headers say; None where they do not."""

    @property
    def headers(self) -> list[Header]:
        """What they say."""
        return commit_headers(self.commit)


@dataclass(slots=True)
class Numbers:
    """The events of a transaction that is told about (``provide.transaction.metadata``)."""

    id: str
    total: int
    by_table: dict[str, int]
    commit: int | None = None
    """The number of its commit; None where nothing says it."""

    def next(self, table: str) -> dict[str, Any]:
        """One more event: the transaction block of its record."""
        self.total += 1
        order = self.by_table[table] = self.by_table.get(table, 0) + 1
        return {"id": self.id, "total_order": self.total, "data_collection_order": order}


class TablePlan:
    """Converts the rows of one version of a table.

    Raises:
        UnsupportedError: a column is of a type that is not read.
    """

    def __init__(self, table: Table, config: MariaDbConfig) -> None:
        self.table = table
        self.id = (table.database, table.name)
        names = [column.name for column in table.columns]
        excluded = config.columns.excluded(table.database, table.name, names)
        keyed = config.keys.key(table.database, table.name, names) or table.primary or table.unique
        made: list[RowField | None] = [
            None if c.name in excluded and c.name not in keyed else row_field(c, config.fields)
            for c in table.columns
        ]
        fields = [
            (i, mapped_field(f, table, column, config.fields))
            for i, (f, column) in enumerate(zip(made, table.columns, strict=True))
            if f and column.name not in excluded
        ]
        place = {name: (index, f) for index, (f, name) in enumerate(zip(made, names, strict=True)) if f}
        key_fields = [place[name] for name in keyed]
        for which in (fields, key_fields):
            _check_names(table, [f.name for _, f in which])
        self._row = [(i, f.name, f.convert, f.null) for i, f in fields]
        self._key = [(i, f.name, f.convert, f.null) for i, f in key_fields]
        self._unavailable = {i: f.unavailable for i, f in fields}
        self._required = {i for i, f in enumerate(made) if f and not f.schema.optional}
        self.prefix = config.prefix
        self.flavour = config.flavour
        self.source_schema = source_schema(config.flavour.name)
        self.skipped = config.skipped
        self.tombstones = config.tombstones
        self.skips_unchanged = config.skips_unchanged
        self.topic = config.topics.of_table(table.database, table.name)
        row = semantic.struct(
            config.schema_name(f"{self.topic}.Value"), [(f.name, f.schema) for _, f in fields]
        ).as_optional()
        self.row_fields = StructFields(row, fields)
        shared = config.topics.key_field(table.database, table.name)
        in_key = [(f.name, f.schema) for _, f in key_fields]
        if shared is not None:
            in_key.append((shared.name, semantic.STRING))
        self._constants = {} if shared is None else {shared.name: shared.value}
        self._key_schema = (
            semantic.struct(config.schema_name(f"{self.topic}.Key"), in_key) if in_key else None
        )
        self.key_fields = (
            None if self._key_schema is None else StructFields(self._key_schema, key_fields, shared)
        )
        self.value_schema = semantic.envelope(
            config.schema_name(f"{self.topic}.Envelope"), row, self.source_schema
        )
        self.headers = tuple(Header(name, _STRING, value) for name, value in config.headers)

    def read(self, cells: Cells, place: Place) -> list[SourceRecord]:
        """A row of a snapshot (op ``r``)."""
        return [self._record("r", None, cells, place, None, ())]

    def change(
        self, before: Cells | None, after: Cells | None, place: Place, numbers: Numbers | None
    ) -> list[SourceRecord]:
        """A row that is new, gone or changed."""
        if before is None:
            assert after is not None
            return self.insert(after, place, numbers)
        if after is None:
            return self.delete(before, place, numbers)
        return self.update(before, after, place, numbers)

    def insert(self, cells: Cells, place: Place, numbers: Numbers | None) -> list[SourceRecord]:
        """A new row."""
        if "c" in self.skipped:
            return []
        return [self._record("c", None, cells, place, numbers, ())]

    def delete(
        self, cells: Cells, place: Place, numbers: Numbers | None, more: Sequence[Header] = ()
    ) -> list[SourceRecord]:
        """A row that is gone, and its tombstone."""
        return [] if "d" in self.skipped else self._gone(cells, place, numbers, more)

    def _gone(
        self, cells: Cells, place: Place, numbers: Numbers | None, more: Sequence[Header]
    ) -> list[SourceRecord]:
        record = self._record("d", cells, None, place, numbers, more)
        if not self.tombstones:
            return [record]
        return [record, record._replace(value_schema=None, value=None, headers=record.headers.copy())]

    def update(
        self, before: Cells, after: Cells, place: Place, numbers: Numbers | None
    ) -> list[SourceRecord]:
        """A changed row; with another key a delete, a tombstone and a new row, whichever operations are left out but updates:
        so does Debezium's connector, of which it is one change of the log."""
        if "u" in self.skipped:
            return []
        if MISSING in after:
            self._check_virtual(after)
        if self.skips_unchanged and self._row_of(before) == self._row_of(after):
            return []
        old, new = self._key_of(before), self._key_of(after)
        if old == new:
            return [self._record("u", before, after, place, numbers, ())]
        return [
            *self._gone(before, place, numbers, [self._key_header(NEW_KEY, new)]),
            self._record("c", None, after, place, numbers, [self._key_header(OLD_KEY, old)]),
        ]

    def _check_virtual(self, after: Cells) -> None:
        """A placeholder would say that the column has not changed: see `row_images` for what MariaDB leaves out."""
        if self.flavour.writes_like_mysql:
            return
        for index, *_ in (*self._key, *self._row):
            if after[index] is MISSING and self.table.columns[index].virtual:
                raise UnsupportedError(
                    f"the log does not tell the VIRTUAL column {self.table.columns[index].name!r} of {self.table.qualified} behind an"
                    " update: the server's binlog_row_image, or that of a session, leaves it out although it may have changed",
                    hint="leave the column out with column.exclude.list; or add an index on it, or SET GLOBAL binlog_row_image=FULL (sessions"
                    " that are open keep what they had), and take a new snapshot",
                )

    def truncate(self, place: Place, numbers: Numbers | None) -> list[SourceRecord]:
        """All rows are gone: neither key nor rows."""
        return [self._record("t", None, None, place, numbers, ())]

    def _key_header(self, name: str, key: Mapping[str, Any] | None) -> Header:
        assert self._key_schema is not None
        assert key is not None
        fields = [(field.name, field.schema) for field in self._key_schema.fields]
        return Header(name, _STRING, struct_text(fields, [key[n] for n, _ in fields]).decode())

    def _key_of(self, cells: Cells) -> dict[str, Any] | None:
        if self._key_schema is None:
            return None
        return self._values(self._key, cells) | self._constants

    def key_values(self, cells: Cells) -> tuple[Any, ...] | None:
        """The values of a row's key; None: its table has none."""
        key = self._key_of(cells)
        return None if key is None else tuple(key.values())

    def _row_of(self, cells: Cells | None) -> dict[str, Any] | None:
        return None if cells is None else self._values(self._row, cells)

    def _values(self, parts: Sequence[_Part], cells: Cells) -> dict[str, Any]:
        if MISSING in cells:
            return self._incomplete(parts, cells)
        for index, *_ in parts:
            if cells[index] is None and index in self._required:
                raise RecordError(
                    f"column {self.table.columns[index].name!r} of {self.table.qualified} is NOT NULL, and a row has no value for it",
                    hint="a statement of snapshot.select.statement.overrides, or of a signal, has to select it",
                )
        try:
            return {
                name: null if cells[index] is None else convert(cells[index])
                for index, name, convert, null in parts
            }
        except RecordError:
            raise
        except (ValueError, ArithmeticError, TypeError, AttributeError):
            # Without its cause, which may quote the value.
            raise RecordError(f"a row of {self.table.qualified} cannot be converted") from None

    def _incomplete(self, parts: Sequence[_Part], cells: Cells) -> dict[str, Any]:
        """Of a row of which the log does not tell all."""
        whole = [part for part in parts if cells[part[0]] is not MISSING]
        known = self._values(whole, tuple(None if cell is MISSING else cell for cell in cells))
        found = {name: known[name] if name in known else self._unavailable[i] for i, name, *_ in parts}
        missing = [name for name, value in found.items() if value is NO_DEFAULT]
        if missing:
            raise UnsupportedError(
                f"the log does not tell column {missing[0]!r} of a row of {self.table.qualified}, and its type has no"
                " value that would say so",
                hint="SET GLOBAL binlog_row_image=FULL; sessions that are open keep what they had. Then take a new snapshot",
            )
        return found

    def _record(
        self,
        op: str,
        before: Cells | None,
        after: Cells | None,
        place: Place,
        numbers: Numbers | None,
        more: Sequence[Header],
    ) -> SourceRecord:
        now = time.time_ns()
        value = {
            "before": self._row_of(before),
            "after": self._row_of(after),
            "source": source_of(place, self.prefix, self.table, self.flavour),
            "transaction": None if numbers is None else numbers.next(self.table.qualified),
            "op": op,
            "ts_ms": now // 1_000_000,
            "ts_us": now // 1_000,
            "ts_ns": now,
        }
        row = before if after is None else after
        return SourceRecord(
            self.topic,
            None,
            None if row is None else self._key_schema,
            None if row is None else self._key_of(row),
            self.value_schema,
            value,
            None,
            [*more, *self.headers, *place.headers],
        )


def _check_names(table: Table, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise UnsupportedError(
            f"two columns of {table.qualified} have the same name after field.name.adjustment.mode",
            hint="choose avro_unicode, which keeps names apart, or leave one out with column.exclude.list",
        )


def source_of(place: Place, prefix: str, table: Table, flavour: Flavour) -> dict[str, Any]:
    """``source`` of a record."""
    nanos = place.nanos or place.seconds * 1_000_000_000
    return {
        "version": flavour.version,
        "connector": flavour.name,
        "name": prefix,
        "ts_ms": nanos // 1_000_000,
        "snapshot": place.snapshot,
        "db": table.database,
        "sequence": None,
        "ts_us": nanos // 1_000,
        "ts_ns": nanos,
        "table": table.name,
        "server_id": place.server_id,
        "gtid": place.gtid,
        "file": place.file,
        "pos": place.position,
        "row": place.row,
        "thread": place.thread,
        "query": place.query,
    }
