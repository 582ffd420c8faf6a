"""From the logs to the rows that each share needs, in the order of the stream. No I/O but what Spark reads.

A row does not name its own commit: it is the first END marker of its transaction's id behind the row's LSN. A row goes to the shares
of the aggregates that it may concern: those of a root and of its children by their root's key, a child that has left a root
to that one, too; rows that others refer to, and children whose root only the row above them tells, go to every share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_domain.aggregate.rows import time_columns
from tidings_domain.aggregate.uses import Role, TableUse
from tidings_domain.evaluation.tracing import TRACE_HEADERS, TRACEPARENT
from tidings_domain.loading.domain import Domain
from tidings_domain.routing.memory import Memory
from tidings_domain.routing.nesting import NestedRows
from tidings_domain.routing.tables import Table
from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.decoding.changes import is_incremental
from tidings_lakehouse.errors import ReplayError
from tidings_lakehouse.history.history import change_of, check_columns, plain_field, with_incremental
from tidings_lakehouse.replay.task import AGAIN, FIRST, STREAMED

_WHOLE = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
"""Types whose text is the same in Python."""


@dataclass(frozen=True)
class DomainLog:
    """The log of a table that the domain has."""

    table: str
    """``public.orders``"""
    topic: str
    frame: DataFrame
    """With `commit` (null for what a snapshot has read) and `kind`."""


def placed(log: DataFrame, ends: DataFrame) -> DataFrame:
    """The changes of a log with `kind`, and of transactions with `commit`.

    Args:
        log: as the job wrote it.
        ends: by `tx_id`, the positions of END markers in `commits`.
    """
    log = with_incremental(log).where("op IN ('c', 'u', 'd', 'r', 't')")
    kind = (
        sf.when(sf.coalesce(is_incremental(), sf.lit(False)), AGAIN)
        .when(sf.coalesce("snapshot", sf.lit(False)), FIRST)
        .otherwise(STREAMED)
    )
    found = log.withColumn("kind", kind).join(ends, "tx_id", "left")
    own = sf.array_min(sf.filter("commits", lambda end: end > sf.coalesce("lsn", sf.lit(0))))
    return found.withColumn("commit", sf.when(sf.col("kind") == STREAMED, own)).drop("commits")


def headers_of_trace() -> Column:
    """The headers of a trace context, if a record has one."""
    names = [sf.lit(name) for name in sorted(TRACE_HEADERS)]
    found = sf.filter("headers", lambda header: header.key.isin(*names))
    return sf.when(sf.exists("headers", lambda header: header.key == TRACEPARENT), found)


class Shares:
    """Which shares a table's rows go to.

    Args:
        domain: the rules.
        count: of all shares.
    """

    def __init__(self, domain: Domain, count: int) -> None:
        self._domain = domain
        self._count = count
        nested = NestedRows(domain, Memory())
        self._tables = {name: Table(name, domain, nested) for name in domain.tables}
        self._times = time_columns(domain.aggregates.values())
        self._ranks = {name: rank for rank, name in enumerate(sorted(self._tables, key=self._rank))}

    def _rank(self, name: str) -> tuple[int, str]:
        """What others refer to first and roots last: then a snapshot's rows find each other."""
        table = self._tables[name]
        return (0 if table.referred else 2 if table.roots else 1), name

    def columns(self, name: str) -> frozenset[str]:
        """The columns of a table that the domain needs."""
        return frozenset(self._tables[name].columns)

    def is_everywhere(self, log: DomainLog) -> bool:
        """Whether the rows of a log go to every share."""
        return self._texts(log) is None

    def refuse_units(self, log: DomainLog) -> None:
        """See that every moment of a MariaDB or a MySQL is declared as one, since the log has it in microseconds, and the live
        service in the unit, or with the digits, of its column.

        Raises:
            ReplayError: a column is part of a key, or declared as something else.
        """
        type_ = log.frame.schema["after"].dataType
        assert isinstance(type_, st.StructType)
        table = self._tables[log.table]
        declared = self._times - table.named_by - table.placed_by
        for field in type_.fields:
            is_moment = isinstance(field.dataType, st.TimestampNTZType | st.TimestampType)
            if is_moment and field.name in self.columns(log.table) - declared:
                raise ReplayError(
                    f"{log.table}: column {field.name} has moments, of which the log does not tell in which unit or with how many digits"
                    " the records had them",
                    hint="declare it as a datetime in the domain; a key with it cannot be replayed",
                )

    def rows(self, log: DomainLog) -> DataFrame:
        """The rows of a log for each share, as `ReplayTask` takes them but for what is known of a transaction as a whole."""
        fields = {field.name: field.dataType for field in log.frame.schema.fields}
        for part in ("before", "after", "key"):
            check_columns(log.topic, fields.get(part))
        value = change_of(
            log.topic,
            sf.when(sf.col("after").isNull(), self._row(log, "before")),
            self._row(log, "after"),
        )
        streamed = sf.col("kind") == STREAMED
        found = log.frame.where("op <> 't'").select(
            self._shares(log).alias("shares"),
            sf.when(streamed, sf.col("commit"))
            .when(sf.col("kind") == AGAIN, sf.coalesce("last_commit_lsn", sf.lit(0)))
            .otherwise(sf.lit(-1))
            .cast("bigint")
            .alias("position"),
            "kind",
            sf.when(streamed, sf.lit(0)).otherwise(sf.lit(self._ranks[log.table])).alias("rank"),
            sf.when(streamed, sf.lit(0)).otherwise(sf.col("partition")).alias("part"),
            sf.when(streamed, sf.col("total_order")).otherwise(sf.col("offset")).alias("place"),
            "tx_id",
            sf.to_json(value, {"ignoreNullFields": "false"}).alias("value"),
        )
        # By itself: beside another generator's columns Spark 4.1 loses the names of a struct's fields.
        return found.withColumn("share", sf.explode("shares")).drop("shares")

    def _row(self, log: DomainLog, part: str) -> Column:
        """A row with the columns that the domain needs, as Debezium's JSON has it, but times as text."""
        type_ = log.frame.schema[part].dataType
        assert isinstance(type_, st.StructType)
        table = self._tables[log.table]
        keys = table.named_by | table.placed_by
        wanted = self.columns(log.table)
        columns = []
        for field in type_.fields:
            if field.name in wanted:
                is_moment = (
                    isinstance(field.dataType, st.TimestampNTZType)
                    and field.name in self._times
                    and field.name not in keys
                )
                value = plain_field(sf.col(part), field, type_.names, as_text=is_moment)
                columns.append(value.alias(field.name))
        return sf.when(sf.col(part).isNotNull(), sf.struct(*columns))

    def _shares(self, log: DomainLog) -> Column:
        texts = self._texts(log)
        if texts is None:
            return sf.sequence(sf.lit(0), sf.lit(self._count - 1))
        shares = [
            sf.when(
                text.isNotNull(),
                (sf.crc32(sf.concat(sf.lit(f"{aggregate}/"), text)) % sf.lit(self._count)).cast("int"),
            )
            for aggregate, text in texts
        ]
        return sf.array_distinct(sf.array_compact(sf.array(*shares)))

    def _texts(self, log: DomainLog) -> list[tuple[str, Column]] | None:
        """Aggregates and the texts of their ids that a row may concern; None: it goes to every share."""
        table = self._tables[log.table]
        type_ = log.frame.schema["after"].dataType
        if table.referred or table.nested or not isinstance(type_, st.StructType):
            return None
        types = {field.name: field.dataType for field in type_.fields}
        texts: list[tuple[str, Column]] = []
        for use, remembered in [*((use, False) for use in table.roots), *table.children]:
            if not _is_plain(use.by, types) or (remembered and not set(use.key) <= types.keys()):
                return None
            if not remembered:
                texts.append((use.aggregate, _text(use.by, _either)))
                continue
            now = sf.when(sf.col("after").isNotNull(), _text(use.by, lambda name: sf.col("after")[name]))
            texts += [(use.aggregate, now), (use.aggregate, sf.lag(now).over(_changes_of(use)))]
        return texts


def _changes_of(use: TableUse) -> WindowSpec:
    """The changes of one row in their order."""
    assert use.role is Role.CHILD
    position = sf.when(sf.col("kind") == STREAMED, sf.col("commit")).otherwise(
        sf.when(sf.col("kind") == AGAIN, sf.coalesce("last_commit_lsn", sf.lit(0))).otherwise(sf.lit(-1))
    )
    place = sf.when(sf.col("kind") == STREAMED, sf.col("total_order")).otherwise(sf.col("offset"))
    return Window.partitionBy(*[_either(name) for name in use.key]).orderBy(position, "kind", place)


def _either(name: str) -> Column:
    return sf.when(sf.col("after").isNotNull(), sf.col("after")[name]).otherwise(sf.col("before")[name])


def _is_plain(columns: Sequence[str], types: dict[str, st.DataType]) -> bool:
    """Whether Spark can make the text of a key as `tidings_domain.changes.identity` does."""
    if not set(columns) <= types.keys():
        return False
    numbers = all(isinstance(types[name], _WHOLE) for name in columns)
    return numbers or (len(columns) == 1 and isinstance(types[columns[0]], st.StringType))


def _text(columns: Sequence[str], column: object) -> Column:
    parts = [column(name).cast("string") for name in columns]  # type: ignore[operator]
    # `concat` is null when a part is, `concat_ws` is not.
    pieces = [one for part in parts for one in (sf.lit(","), part)][1:]
    return pieces[0] if len(pieces) == 1 else sf.concat(*pieces)


def shared_rows(
    logs: Iterable[DomainLog], shares: Shares, count: int, transactions: DataFrame | None
) -> DataFrame:
    """All rows by share, each share's in the order of the stream.

    Args:
        logs: of all tables that the domain has.
        shares: of the same domain.
        count: of the shares.
        transactions: by `position`, what the rows of a transaction say only together: `ts_us`, `trace_headers`, `trace_column`,
            `lost`; None when there is nothing to be said.
    """
    rows = union([shares.rows(log) for log in logs])
    none = {
        "ts_us": sf.lit(None).cast("bigint"),
        "trace_headers": sf.lit(None).cast("array<struct<key: string, value: binary>>"),
        "trace_column": sf.lit(None).cast("string"),
        "lost": sf.lit(False),
    }
    rows = rows.withColumns(none) if transactions is None else rows.join(transactions, "position", "left")
    return rows.repartitionById(count, sf.col("share")).sortWithinPartitions(
        "share", "position", "kind", "rank", "part", "place"
    )
