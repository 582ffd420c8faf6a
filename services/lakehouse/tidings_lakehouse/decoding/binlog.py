"""Where a change of MariaDB or MySQL stands among the others, in Spark's words; the rule is `tidings_envelope.binlog`'s. No I/O.

A GTID's sequence times 2**24 is its commit's position; a row has its number in the transaction behind the position of the
commit before it, and a row that a snapshot has read that of its header `tidings.as.of`; of an incremental snapshot it
stands behind the commit of that header, or without one behind the commit before its GTID. MySQL's changes have the number of
their commit in a header instead (`tidings_envelope.commit_number`). So tables and watermarks have positions as those of
PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from tidings_envelope import commit_number
from tidings_envelope.binlog import NO_NUMBER
from tidings_envelope.gtid import MAX_SEQUENCE, PATTERN, ROWS
from tidings_envelope.headers.as_of import HEADER
from tidings_envelope.headers.commit import HEADER as COMMIT
from tidings_lakehouse.formats.avro_nodes import Node

NUMBERED = -1
"""What stands for the replication domain where commits have numbers of capture's: of MySQL."""
_WHOLE = rf"\A{PATTERN}\z"
_UUID = r"\A[0-9a-f]{8}-"
"""How a GTID of MySQL begins."""
_NUMBER = r"\A[0-9]{1,19}\z"


def is_of_binlog(envelope: Node) -> bool:
    """Whether a schema is that of MariaDB's or MySQL's change events."""
    source = envelope.field("source")
    return source is not None and source.field("gtid") is not None and source.field("lsn") is None


@dataclass(frozen=True)
class GtidColumns:
    """Parts of a GTID; null where the text is not one."""

    domain: Column
    server: Column
    sequence: Column

    @classmethod
    def of(cls, text: Column) -> GtidColumns:
        """Of ``0-1-42``."""

        def part(number: int) -> Column:
            return sf.regexp_extract(text, _WHOLE, number).try_cast("bigint")

        return cls(part(1), part(2), sf.when(part(3).between(1, MAX_SEQUENCE), part(3)))

    @property
    def commit_position(self) -> Column:
        """See `tidings_envelope.gtid.Gtid.commit_position`."""
        return self.sequence * sf.lit(ROWS)


def number_of_commit() -> Column:
    """What a record's headers say of its commit; null where they do not, or say no number."""
    header = sf.expr(f"cast(get(filter(headers, h -> h.key = '{COMMIT}'), 0).value AS string)")
    number = sf.when(header.rlike(_NUMBER), header.try_cast("bigint"))
    return sf.when(number.between(1, commit_number.MOST), number)


def domain_of(number: Column, gtid: GtidColumns) -> Column:
    """The replication domain that a record is of; `NUMBERED`, where its commit has a number."""
    return sf.when(number.isNotNull(), NUMBERED).otherwise(gtid.domain)


def numbered_commit_position(number: Column, events: Column) -> Column:
    """See `tidings_envelope.commit_number.commit_position`; null where there is none."""
    last = number + sf.floor(sf.coalesce(events, sf.lit(0)) / sf.lit(commit_number.ROWS)).cast("bigint")
    return sf.when(last <= commit_number.MOST, last * sf.lit(commit_number.ROWS))


@dataclass(frozen=True)
class Place:
    """Where a change stands, and why it cannot be told; null for records of another schema."""

    tx_id: Column
    last_commit_lsn: Column
    """Null of a row that a snapshot has read, but for an incremental one."""
    lsn: Column
    """0 of a row that a snapshot has read, where its record does not say as of which commit; null of an incremental one."""
    domain: Column
    reason: Column


@dataclass(frozen=True)
class Limits:
    """What has to be known of a source and its topic to refuse changes that cannot be ordered."""

    domain: int | None = None
    """The source's replication domain, or `NUMBERED`; None: not known yet."""
    begun: tuple[tuple[int, int], ...] = ()
    """By partition, the offset of the first change of the stream: behind it, a row must say as of which commit it was read."""


def place_of(envelope: Node, decoded: str, limits: Limits) -> Place:
    """The place of a change of MariaDB or MySQL.

    Args:
        envelope: the reader's schema.
        decoded: the column that holds the envelope.
    """
    is_here = sf.col(f"{decoded}.source").isNotNull()  # as every format says it
    snapshot = sf.coalesce(sf.col(f"{decoded}.source.snapshot"), sf.lit("false"))
    # A row of an incremental snapshot has its place in the stream, and says by its GTID where.
    is_change, is_again = snapshot == "false", snapshot == "incremental"
    is_read = ~is_change & ~is_again
    text = sf.col(f"{decoded}.source.gtid")
    gtid = GtidColumns.of(text)
    order = (
        sf.lit(None).cast("bigint")
        if envelope.field("transaction") is None
        else sf.col(f"{decoded}.transaction.total_order")
    )
    number = number_of_commit()
    before = sf.coalesce((number - 1) * sf.lit(commit_number.ROWS), (gtid.sequence - 1) * sf.lit(ROWS))
    is_numbered = number.isNotNull()
    domain = domain_of(number, gtid)
    header = sf.expr(f"cast(get(filter(headers, h -> h.key = '{HEADER}'), 0).value AS string)")
    as_of = sf.when(header.rlike(_NUMBER), header.try_cast("bigint"))
    is_first = is_again & as_of.isNotNull()  # or was read again, for given keys
    reason = (
        sf.when(
            is_read & header.isNotNull() & as_of.isNull(), f"value: the header {HEADER} is not a position"
        )
        .when(
            is_read & header.isNull() & _is_behind(limits),
            "value: the row was read by a snapshot that does not say as of which commit, and the stream's changes have begun",
        )
        .when(is_read, sf.lit(None).cast("string"))
        .when(
            ~is_numbered & text.rlike(_UUID),
            f"value: {NO_NUMBER}",
        )
        .when(
            ~is_numbered & text.isNull() & ~is_first,
            "value: source.gtid is null, so the change has no position",
        )
        .when(
            ~is_numbered & text.isNotNull() & gtid.sequence.isNull(),
            f"value: source.gtid is not domain-server-sequence with a sequence from 1 to {MAX_SEQUENCE}",
        )
        .when(
            is_change & order.isNull(),
            "value: there is no number in the transaction, and so no order: the connector needs"
            " provide.transaction.metadata=true",
        )
    )
    if limits.domain is not None:
        reason = reason.when(
            domain != limits.domain,
            sf.concat(
                sf.lit("value: its GTID is of replication domain "),
                domain.cast("string"),
                sf.lit(f", and those before it are of {limits.domain}: their commits have no common order"),
            ),
        )
    return Place(
        sf.when(is_change, sf.coalesce(number, gtid.sequence)),
        sf.when(is_change, before).when(is_again, sf.coalesce(as_of, before)),
        sf.when(is_here & is_read, sf.coalesce(as_of, sf.lit(0).cast("bigint"))).when(
            is_change, before + order
        ),
        sf.when(~is_read, domain),
        sf.when(is_here, reason),
    )


def _is_behind(limits: Limits) -> Column:
    """Whether a record comes behind the first change of its partition."""
    found = sf.lit(False)
    for partition, offset in limits.begun:
        found = found | ((sf.col("partition") == partition) & (sf.col("offset") > offset))
    return found
