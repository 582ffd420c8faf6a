"""SQL for what a table was: every version of each row, from its log. No I/O.

``technical.<table>_history`` has the columns of ``technical.<table>`` and, of each version,

    __valid_from_lsn, __valid_to_lsn    the commits that made and ended it, null while it is valid
    __valid_from, __valid_to            their times

so that ``__valid_from_lsn <= p and (__valid_to_lsn is null or __valid_to_lsn > p)`` is the table as of position p, for all tables
of a source the same moment, and never half a transaction: all versions of one transaction have its commit's position. A
version that its own transaction replaced is left out.

What stands beside the columns of a row begins with ``__``, as none of these does (`safe_name`).

The statement orders the log as `changes.with_position` does. A change's own commit is the END marker of its transaction; without
transaction metadata it is taken to be next to the commit before it, which is exact at every commit's position. What a snapshot has
read is valid from where it was read. A value that PostgreSQL did not log (TOAST) is that of the version before; a version
of which it is not known is left out, as in the current state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidings_envelope.toast import UNAVAILABLE, UNAVAILABLE_UUID
from tidings_lakehouse.tables.column_names import safe_name

VALID = ("__valid_from_lsn", "__valid_to_lsn", "__valid_from", "__valid_to")
_BREAK = re.compile(r"\n\s*")
"""Of a line, which a statement is; spaces elsewhere may be a name's."""
POSITION = ("__commit_lsn", "__lsn", "__changed_at")


@dataclass(frozen=True)
class Dialect:
    """What DuckDB and Spark write differently."""

    quote: str
    struct: str
    """Of ``name`` and ``value``: one field of a struct."""
    open_struct: str
    close_struct: str
    collect: str
    filter: str
    """Of ``list`` and ``test`` (on ``x``)."""
    least: str
    greatest: str
    size: str
    last: str
    """Of ``value``: the last that is not null."""
    binary: str
    item: str
    """Of ``value`` and ``key``: an entry of a map."""
    array: str

    def name(self, name: str) -> str:
        """A column's name."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def packed(self, **values: str) -> str:
        """A struct."""
        parts = [self.struct.format(name=name, value=value) for name, value in values.items()]
        return self.open_struct + ", ".join(parts) + self.close_struct


DUCKDB = Dialect(
    '"', "'{name}': {value}", "{", "}", "list({0})", "list_filter({list}, lambda x: {test})", "list_min({0})",
    "list_max({0})", "coalesce(len({0}), 0)", "last_value({value} IGNORE NULLS)", "'{0}'::BLOB", "{value}['{key}']",
    "[{0}]",
)  # fmt: skip
SPARK = Dialect(
    "`", "'{name}', {value}", "named_struct(", ")", "collect_list({0})", "filter({list}, x -> {test})", "array_min({0})",
    "array_max({0})", "size({0})", "last_value({value}, true)", "cast('{0}' as binary)", "element_at({value}, '{key}')",
    "array({0})",
)  # fmt: skip


@dataclass(frozen=True)
class LogShape:
    """A log's columns.

    Args:
        log: how a statement names the log.
        keys: fields of ``key``.
        row: fields of ``after``, with their kind: ``string``, ``binary``, ``strings``, ``binaries``, ``numbers`` (arrays),
            ``map``, or ``other`` for what is never out of line.
        transaction_log: how a statement names `tidings.transaction_log`; None when there is none.
        has_incremental: logs of former releases do not.
    """

    log: str
    keys: tuple[str, ...]
    row: Mapping[str, str]
    transaction_log: str | None = None
    transaction_topic: str = ""
    has_incremental: bool = True
    columns: Mapping[str, tuple[str, str]] = field(init=False)
    """Column of the current state to the expression's field: ``key.<name>`` or ``after.<name>``."""

    def __post_init__(self) -> None:
        keys = {self._column_of_key(name): ("key", name) for name in self.keys}
        found = {safe_name(name): keys.get(name, ("after", name)) for name in self.row}
        object.__setattr__(self, "columns", found)

    def _column_of_key(self, name: str) -> str:
        """The field of ``after`` that is the key's."""
        if name in self.row:
            return name
        return next((one for one in self.row if one.startswith(f"{name}__")), name)


_READ = "(op = 'r' OR again)"
"""See `changes.IS_READ`."""


def history_query(shape: LogShape, dialect: Dialect) -> str:
    """The SELECT of ``<table>_history``."""
    return _history(shape, dialect, [*shape.columns], [*POSITION, *VALID], "")


def as_of_query(shape: LogShape, dialect: Dialect, position: int) -> str:
    """The SELECT of the table, in its own columns, as of a commit position."""
    where = f"__valid_from_lsn <= {position} AND (__valid_to_lsn IS NULL OR __valid_to_lsn > {position})"
    return _history(shape, dialect, [*shape.columns], POSITION, where)


def commits_query(shape: LogShape, dialect: Dialect) -> str:
    """Position (``f``) and time (``changed_at``) of the commit of every record of a log."""
    return f"WITH {_timed(shape, dialect)} SELECT f, changed_at FROM timed WHERE same = 1"  # noqa: S608


def _history(
    shape: LogShape, d: Dialect, columns: list[str], more: list[str] | tuple[str, ...], where: str
) -> str:
    shown = ", ".join(d.name(name) for name in [*columns, *more])
    condition = f" WHERE {where}" if where else ""
    statement = f"WITH {_timed(shape, d)}, {_versions(shape, d)} SELECT {shown} FROM shown{condition}"  # noqa: S608
    return _BREAK.sub(" ", statement).strip()


def _timed(shape: LogShape, d: Dialect) -> str:
    """Every record once, with its place (c, p) and its commit (f)."""
    again = "snapshot AND lsn IS NULL"
    again = f"coalesce(incremental, {again}, false)" if shape.has_incremental else f"coalesce({again}, false)"
    offset, partition = d.name("offset"), d.name("partition")
    before = d.greatest.format(
        d.filter.format(list="starts", test=f"x.t = topic_id AND x.n = {partition} AND x.o < {offset}")
    )
    start = d.packed(o="o", lsn="lsn", t="topic_id", n=partition)
    if shape.transaction_log is None:
        ends = "SELECT cast(NULL as bigint) AS e_tx, cast(NULL as bigint) AS e_lsn"
    else:
        topic = shape.transaction_topic.replace("'", "''")
        ends = (
            f"SELECT DISTINCT tx_id AS e_tx, commit_lsn AS e_lsn FROM {shape.transaction_log}"  # noqa: S608
            f" WHERE topic = '{topic}' AND status = 'END' AND commit_lsn IS NOT NULL"
        )
    keys = ", ".join(f"{d.name('key')}.{d.name(name)}" for name in shape.keys)
    return f"""
    records AS (
        SELECT op, {d.name("key")}, {d.name("after")}, tx_id, changed_at, topic_id, {partition}, {offset},
            last_commit_lsn AS l, coalesce(lsn, 0) AS lsn, {again} AS again, coalesce(snapshot, false) AND NOT {again} AS is_read
        FROM {shape.log} WHERE op IN ('c', 'u', 'r', 'd', 't')),
    begun AS (
        SELECT {d.collect.format(start)} AS starts FROM (
            SELECT topic_id, {partition}, lsn, min({offset}) AS o FROM records WHERE is_read AND l IS NULL
            GROUP BY topic_id, {partition}, lsn) AS one),
    placed AS (
        SELECT records.*, CASE WHEN is_read THEN 0 ELSE lsn END AS p,
            coalesce(l, CASE WHEN is_read THEN lsn ELSE greatest(lsn, coalesce({before}.lsn, 0)) END) AS c
        FROM records CROSS JOIN begun),
    ends AS ({ends}),
    timed AS (
        SELECT placed.*,
            CASE WHEN is_read THEN greatest(c, lsn) WHEN again THEN c ELSE coalesce(e_lsn, c + 1) END AS f,
            row_number() OVER (PARTITION BY {keys}, c, p, {_READ}, op = 't' ORDER BY {offset} DESC, e_lsn) AS same
        FROM placed LEFT JOIN ends
            ON e_tx = CASE WHEN is_read OR again THEN NULL ELSE tx_id END AND e_lsn > c)
    """  # noqa: S608


def _versions(shape: LogShape, d: Dialect) -> str:
    keys = ", ".join(f"{d.name('key')}.{d.name(name)}" for name in shape.keys)
    order = f"ORDER BY c, p, {_READ}"
    key = f"PARTITION BY {keys} {order}"
    goes = f"(x.c > c OR (x.c = c AND (x.p > p OR (x.p = p AND NOT {_READ}))))"
    later = d.filter.format(list="truncates", test=goes)
    earlier = d.filter.format(list="truncates", test=f"NOT {goes}")
    cut = "cut.c IS NOT NULL AND (next_c IS NULL OR cut.c < next_c OR (cut.c = next_c AND cut.p <= next_p))"
    values: list[str] = []
    known: list[str] = []
    for column, place in shape.columns.items():
        part, name = place
        value = f"{d.name(part)}.{d.name(name)}"
        kind = shape.row[name] if part == "after" else "other"
        if kind != "other":
            seen = f"CASE WHEN op = 'd' OR coalesce({placeholder_test(d, value, kind)}, false) THEN NULL ELSE {d.packed(v=value)} END"
            value = d.last.format(value=seen)
            value += f" OVER (PARTITION BY {keys}, deletes, cuts {order} ROWS UNBOUNDED PRECEDING)"
            known.append(d.name(column))
        values.append(f"{value} AS {d.name(column)}")
    unpacked = ", ".join(
        f"{d.name(column)}.v AS {d.name(column)}" if d.name(column) in known else d.name(column)
        for column in shape.columns
    )
    whole = "".join(f" AND {column} IS NOT NULL" for column in known)
    return f"""
    emptied AS (
        SELECT {d.collect.format(d.packed(c="c", p="p", f="f", at="changed_at"))} AS truncates
        FROM timed WHERE op = 't' AND same = 1),
    rows_ AS (
        SELECT timed.*, {d.least.format(later)} AS cut, {d.size.format(earlier)} AS cuts,
            min(f) OVER ({key} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS since,
            lead(c) OVER ({key}) AS next_c, lead(p) OVER ({key}) AS next_p, lead(changed_at) OVER ({key}) AS next_at,
            coalesce(sum(CASE WHEN op = 'd' THEN 1 ELSE 0 END)
                OVER ({key} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS deletes
        FROM timed CROSS JOIN emptied WHERE same = 1 AND op <> 't' AND {d.name("key")} IS NOT NULL),
    __ended AS (
        SELECT op AS __op, c AS __commit_lsn, p AS __lsn, changed_at AS __changed_at, since AS __valid_from_lsn,
            CASE WHEN {cut} THEN cut.f ELSE lead(since) OVER ({key}) END AS __valid_to_lsn,
            changed_at AS __valid_from, CASE WHEN {cut} THEN cut.at ELSE next_at END AS __valid_to,
            {", ".join(values)}
        FROM rows_),
    shown AS (
        SELECT {unpacked}, {", ".join((*POSITION, *VALID))}
        FROM __ended WHERE __op <> 'd' AND (__valid_to_lsn IS NULL OR __valid_to_lsn > __valid_from_lsn){whole})
    """  # noqa: S608


def placeholder_test(d: Dialect, value: str, kind: str) -> str:
    """The condition that a value stands for one that was not logged; see `LogShape` for kinds."""
    text = f"'{UNAVAILABLE}'"
    if kind == "string":
        return f"{value} = {text}"
    if kind == "binary":
        return f"{value} = {d.binary.format(UNAVAILABLE)}"
    if kind == "strings":
        uuid = f"'{UNAVAILABLE_UUID}'"
        return f"({value} = {d.array.format(text)} OR {value} = {d.array.format(uuid)})"
    if kind == "binaries":
        return f"{value} = {d.array.format(d.binary.format(UNAVAILABLE))}"
    if kind == "numbers":
        return f"{value} = {d.array.format(', '.join(map(str, UNAVAILABLE.encode())))}"
    return f"{d.item.format(value=value, key=UNAVAILABLE)} = {text}"
