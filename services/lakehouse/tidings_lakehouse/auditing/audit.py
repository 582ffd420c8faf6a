"""`tidings-lakehouse audit`: are the current states what the database has?

Each table is compared by ranges of its key: count and checksum. Where these differ, rows are; rows that differ are looked at
once more, in one snapshot of the database, after the watermark has passed a position behind that snapshot, so that the lake has
everything that the snapshot shows. What differs then is wrong, unless the log has a change of the row by a transaction that the
snapshot does not see: such a row has been written anew since, and is not reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidings_lakehouse.auditing.columns import AuditColumn, lake_checksum, lake_name
from tidings_lakehouse.auditing.source import AuditTable, Key, Range, Server, Source
from tidings_lakehouse.errors import AuditError
from tidings_lakehouse.reading.duck import DuckLake
from tidings_lakehouse.reading.moments import SourceTables
from tidings_lakehouse.tables.column_names import INFINITE, safe_name
from tidings_lakehouse.topics import log_of

_POLL_SECONDS = 0.5
LOOKED_AT_ONCE = 500


@dataclass(frozen=True)
class Finding:
    """A row that is not what the database has."""

    table: str
    key: Mapping[str, str]
    kind: str
    """``missing``, ``extra``, ``doubled`` or ``different``."""
    columns: tuple[str, ...] = ()
    """Of a different row, which columns are; values are not told."""
    texts: Key = ()
    """The key's values as they are compared."""


@dataclass
class TableResult:
    """What was found in one table."""

    table: str
    rows: int = 0
    ranges: int = 0
    findings: list[Finding] = field(default_factory=list)
    undecided: int = 0
    """Rows that differ and that the watermark has not passed in time."""
    skipped: tuple[str, ...] = ()
    """Columns that are not compared."""
    reason: str = ""
    """Why the table is not compared at all."""


class Audit:
    """Compares tables of one source.

    Args:
        source: of the database.
        open_lake: gives the lakehouse as it is now.
        prefix: the topic prefix.
        size: rows in a range.
        wait: seconds for which the watermark is waited for.
    """

    def __init__(
        self, source: Source, open_lake: Callable[[], DuckLake], prefix: str, *, size: int, wait: float
    ) -> None:
        self._source = source
        self._open = open_lake
        self._prefix = prefix
        self._size = size
        self._wait = wait

    def run(self, wanted: Callable[[str], bool]) -> Iterator[TableResult]:
        """Compare the tables whose names are wanted.

        Raises:
            AuditError: none is.
        """
        for one in self.plan(wanted):
            yield one if isinstance(one, TableResult) else self.compare(one)

    def plan(self, wanted: Callable[[str], bool]) -> list[AuditTable | TableResult]:
        """How the tables whose names are wanted are compared; of one that is not, its result.

        Raises:
            AuditError: none is.
        """
        lake = self._open()
        try:
            tables = [
                (name, topic)
                for name, topic in SourceTables(lake, self._prefix).topics.items()
                if wanted(name)
            ]
            if not tables:
                raise AuditError(
                    "no table of the lake has a name like that", hint="`tidings lakehouse tables` lists them"
                )
            return [_planned(self._source.server, lake, name, topic) for name, topic in tables]
        finally:
            lake.close()

    def compare(self, table: AuditTable) -> TableResult:
        """Find the rows of a table that are wrong."""
        result = TableResult(table.lake, skipped=table.skipped)
        suspects: list[Key] = []
        lake = self._open()
        try:
            for one, count, checksum in self._source.ranges(table, self._size):
                result.rows += count
                result.ranges += 1
                if (count, checksum) != _summary(lake, table, one):
                    theirs, ours = self._source.rows_in(table, one), _rows_in(lake, table, one)
                    suspects += [
                        key for key in theirs.keys() | ours.keys() if ours.get(key) != [theirs.get(key)]
                    ]
        finally:
            lake.close()
        suspects.sort()
        for start in range(0, len(suspects), LOOKED_AT_ONCE):
            self.decide(table, suspects[start : start + LOOKED_AT_ONCE], result)
        return result

    def decide(self, table: AuditTable, keys: Sequence[Key], result: TableResult) -> None:
        """Say of rows that may differ, at most `LOOKED_AT_ONCE`, which do."""
        sees, theirs, position = self._source.look(table, keys)
        lake = self._behind(position)
        if lake is None:
            result.undecided += len(keys)
            return
        try:
            ours = _rows_among(lake, table, keys)
            changed = {
                key for key, tx_id in _changes_of(lake, table, keys) if tx_id is not None and not sees(tx_id)
            }
            for key in keys:
                have, want = ours.get(key, []), theirs.get(key)
                if have != ([] if want is None else [want]) and key not in changed:
                    result.findings.append(self._finding(lake, table, key, have, is_there=want is not None))
        finally:
            lake.close()

    def _finding(
        self, lake: DuckLake, table: AuditTable, key: Key, have: Sequence[int], *, is_there: bool
    ) -> Finding:
        named = table.named(key)
        if not is_there:
            return Finding(table.lake, named, "extra", texts=key)
        if not have:
            return Finding(table.lake, named, "missing", texts=key)
        if len(have) > 1:
            return Finding(table.lake, named, "doubled", texts=key)
        theirs = self._source.values(table, key)
        ours = lake.execute(
            f"SELECT {', '.join(column.lake_text for column in table.columns)} FROM {lake.view(table.lake)}"  # noqa: S608
            f" WHERE {_among(table, [key])}"
        )[0]
        columns = (
            ()
            if theirs is None
            else tuple(
                column.name for column, a, b in zip(table.columns, theirs, ours, strict=True) if a != b
            )
        )
        return Finding(table.lake, named, "different", columns, key)

    def _behind(self, position: int) -> DuckLake | None:
        """The lake when its watermark has passed a position; None when that does not happen in time."""
        deadline = time.monotonic() + self._wait
        while True:
            lake = self._open()
            watermark = SourceTables(lake, self._prefix).watermark
            if watermark is not None and watermark >= position:
                return lake
            lake.close()
            if time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)


def _planned(server: Server, lake: DuckLake, name: str, topic: str) -> AuditTable | TableResult:
    schema, table = topic.split(".")[-2:]
    theirs, ours = server.columns(schema, table), lake.columns(name)
    if not theirs:
        return TableResult(name, reason=f"the database has no table {schema}.{table} that this user may read")
    found: dict[str, AuditColumn] = {}
    for column, described in theirs.items():
        own, mark = safe_name(column), f"{column}{INFINITE}"
        is_marked = mark not in theirs and safe_name(mark) in ours
        one = described.compared(own, ours[own]) if own in ours else None
        if one is not None:
            found[column] = one.marked(safe_name(mark)) if is_marked else one
    keys = [row[0] for row in lake.execute(f'DESCRIBE SELECT unnest("key") FROM {lake.view(log_of(name))}')]  # noqa: S608
    if not all(key in found for key in keys):
        return TableResult(name, reason=f"its key ({', '.join(keys)}) has a type that is not compared")
    skipped = tuple(column for column in theirs if column not in found)
    return AuditTable(
        name,
        f"{schema}.{table}",
        server.name(schema, table),
        tuple(found[key] for key in keys),
        tuple(found.values()),
        skipped,
        server.digest,
    )


def _summary(lake: DuckLake, table: AuditTable, one: Range) -> tuple[int, int]:
    count, checksum = lake.execute(
        f"SELECT count(*), coalesce(sum({lake_checksum(table.columns, table.digest)}), 0) FROM {lake.view(table.lake)}"  # noqa: S608
        f" WHERE {_within(table, one)}"
    )[0]
    return int(count), int(checksum)


def _rows_in(lake: DuckLake, table: AuditTable, one: Range) -> dict[Key, list[int]]:
    return _rows(lake, table, _within(table, one))


def _rows_among(lake: DuckLake, table: AuditTable, keys: Sequence[Key]) -> dict[Key, list[int]]:
    return _rows(lake, table, _among(table, keys))


def _rows(lake: DuckLake, table: AuditTable, where: str) -> dict[Key, list[int]]:
    keys = ", ".join(column.lake_text for column in table.keys)
    found: dict[Key, list[int]] = {}
    for row in lake.execute(
        f"SELECT {lake_checksum(table.columns, table.digest)}, {keys} FROM {lake.view(table.lake)} WHERE {where}"  # noqa: S608
    ):
        found.setdefault(tuple(row[1:]), []).append(int(row[0]))
    return found


def _changes_of(lake: DuckLake, table: AuditTable, keys: Sequence[Key]) -> Iterable[tuple[Key, int | None]]:
    """The transactions that changed rows, by the log; TRUNCATE changes all."""
    texts = ", ".join(column.lake_text for column in table.keys)
    log = lake.view(log_of(table.lake))
    named = f"SELECT tx_id AS __tx_id, unnest(\"key\") FROM {log} WHERE op IN ('c', 'u', 'd')"  # noqa: S608
    found = lake.execute(f"SELECT __tx_id, {texts} FROM ({named}) WHERE {_among(table, keys)}")  # noqa: S608
    emptied = lake.execute(f"SELECT tx_id FROM {log} WHERE op = 't'")  # noqa: S608
    yield from ((tuple(row[1:]), row[0]) for row in found)
    yield from ((key, tx_id) for (tx_id,) in emptied for key in keys)


def _within(table: AuditTable, one: Range) -> str:
    key = lake_name(table.keys[0].lake)
    parts = ["true"]
    if one.after is not None:
        parts.append(f"{key} > {_literal(one.after)}")
    if one.up_to is not None:
        parts.append(f"{key} <= {_literal(one.up_to)}")
    return " AND ".join(parts)


def _among(table: AuditTable, keys: Sequence[Key]) -> str:
    if table.is_by_number:
        return f"{lake_name(table.keys[0].lake)} IN ({', '.join(str(int(key[0])) for key in keys)})"
    columns = ", ".join(column.lake_text for column in table.keys)
    values = ", ".join("(" + ", ".join(_literal(part) for part in key) + ")" for key in keys)
    return f"({columns}) IN ({values})"


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
