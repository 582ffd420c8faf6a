"""Where a change of MariaDB or MySQL stands: as `tidings_envelope.binlog` says, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from tidings_envelope.binlog import BinlogEnvelope, BinlogSource, OneDomain, with_position
from tidings_envelope.commit_number import MOST, commit_position, position_before
from tidings_envelope.envelope import TransactionRef
from tidings_envelope.gtid import ROWS
from tidings_lakehouse.decoding.binlog import Limits, is_of_binlog, numbered_commit_position, place_of
from tidings_lakehouse.formats.avro_nodes import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_LONG, _TEXT = Node("long"), Node("string")
_SOURCE = Node("record", name="s", fields=(("snapshot", _TEXT), ("gtid", _TEXT)))
_BLOCK = Node("record", name="b", fields=(("total_order", _LONG),))
ENVELOPE = Node("record", name="e", fields=(("source", _SOURCE), ("transaction", _BLOCK)))
_COLUMNS = (
    "v struct<source: struct<snapshot: string, gtid: string>,"
    " transaction: struct<total_order: bigint>>, headers array<struct<key: string, value: binary>>,"
    " partition int, offset bigint"
)


def record(
    gtid: str | None,
    order: int | None,
    snapshot: str = "false",
    as_of: bytes | None = None,
    number: bytes | None = None,
) -> tuple[Any, ...]:
    told = [("tidings.as.of", as_of), ("tidings.commit", number)]
    headers = [one for one in told if one[1] is not None] or None
    return ((snapshot, gtid), None if order is None else (order,)), headers, 0, 10


def places(session: SparkSession, rows: list[tuple[Any, ...]], limits: Limits) -> list[tuple[Any, ...]]:
    """Transaction, last commit, position and why not, of each."""
    place = place_of(ENVELOPE, "v", limits)
    columns = (place.tx_id, place.last_commit_lsn, place.lsn, place.reason)
    frame = session.createDataFrame(rows, _COLUMNS).coalesce(1)
    return [
        tuple(row) for row in frame.select(*[sf.lit(None) if c is None else c for c in columns]).collect()
    ]


def test_positions_are_those_of_the_envelopes_decoder(session: SparkSession) -> None:
    given = [("0-1-1", 1), ("0-1-1", 2), ("0-2-2", 1), ("0-1-549755813887", 7)]
    found = places(session, [record(*one) for one in given], Limits(domain=0))
    for (gtid, order), (tx_id, last_commit, lsn, reason) in zip(given, found, strict=True):
        source = BinlogSource("p", "d", "t", 1, "mariadb", gtid)
        block = TransactionRef(gtid, order, order)
        its = with_position(BinlogEnvelope("c", source, transaction=block), OneDomain()).source
        assert (tx_id, last_commit, lsn, reason) == (its.tx_id, its.last_commit_lsn, its.lsn, None)


_OF_MYSQL = "94e446b5-e927-11f1-9ee7-02fc00000001:20"


def test_mysqls_changes_stand_where_their_numbers_say(session: SparkSession) -> None:
    """Also without GTIDs; what they are compared with is no replication domain."""
    given = [(_OF_MYSQL, 1, 5), (None, 3, 6), (_OF_MYSQL, 5000, MOST - 2)]
    rows = [record(gtid, order, number=b"%d" % number) for gtid, order, number in given]
    rows.append(record(_OF_MYSQL, None, "incremental", number=b"7"))
    found = places(session, rows, Limits(domain=None))
    for (gtid, order, number), place in zip(given, found, strict=False):
        source = BinlogSource("p", "d", "t", 1, "mysql", gtid)
        block = TransactionRef(gtid or "file=a,pos=4", order, order)
        headers = [("tidings.commit", b"%d" % number)]
        its = with_position(BinlogEnvelope("c", source, transaction=block), OneDomain(), headers).source
        assert place == (its.tx_id, its.last_commit_lsn, its.lsn, None)
    assert found[-1] == (None, position_before(7), None, None)


def test_the_end_of_a_numbered_transaction_is_where_the_decoder_has_it(session: SparkSession) -> None:
    given = [(5, 0), (5, None), (5, 2047), (5, 2048), (MOST, 5000)]
    frame = session.createDataFrame(given, "number bigint, events bigint").coalesce(1)
    found = frame.select(numbered_commit_position(sf.col("number"), sf.col("events"))).collect()
    assert [row[0] for row in found] == [commit_position(n, events or 0) for n, events in given[:4]] + [None]


def test_rows_of_snapshots_stand_where_their_header_says(session: SparkSession) -> None:
    read = [record(None, None, "true", str(5 * ROWS).encode()), record(None, None, "last")]
    assert places(session, read, Limits()) == [(None, None, 5 * ROWS, None), (None, None, 0, None)]
    behind = places(session, read, Limits(begun=((0, 3),)))
    assert behind[0][3] is None
    assert "does not say as of which commit" in behind[1][3]
    assert places(session, read, Limits(begun=((0, 30), (1, 3)))) == places(session, read, Limits())


def test_a_row_of_an_incremental_snapshot_stands_behind_the_commit_before_its_gtid_or_that_of_its_header(
    session: SparkSession,
) -> None:
    again = record("0-1-5", None, "incremental")
    assert places(session, [again], Limits(domain=0, begun=((0, 3),))) == [(None, 4 * ROWS, None, None)]
    told = record("0-1-5", None, "incremental", str(5 * ROWS).encode())
    assert places(session, [told], Limits(domain=0)) == [(None, 5 * ROWS, None, None)]
    first = record(None, None, "incremental", b"0")  # of a server that has not committed anything yet
    assert places(session, [first], Limits(domain=0)) == [(None, 0, None, None)]
    source = BinlogSource("p", "d", "t", 1, "mariadb", "0-1-5", snapshot="incremental")
    its = with_position(BinlogEnvelope("r", source), OneDomain()).source
    assert its.last_commit_lsn == 4 * ROWS


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (record(_OF_MYSQL, 1), "lacks the header tidings.commit"),
        (record(_OF_MYSQL, 1, number=b"x"), "lacks the header tidings.commit"),
        (record("7-1-3", 1), "its GTID is of replication domain 7, and those before it are of 0"),
        (record(None, 1), "source.gtid is null"),
        (record("0-1-0", 1), "source.gtid is not domain-server-sequence"),
        (record("0-1-0", None, "incremental", b"0"), "source.gtid is not domain-server-sequence"),
        (record("0-1-549755813888", 1), "source.gtid is not domain-server-sequence"),
        (record(None, None, "incremental"), "source.gtid is null"),
        (record(None, None, "incremental", b"x"), "source.gtid is null"),
        (record("7-1-3", None, "incremental"), "its GTID is of replication domain 7"),
        (record("0-1-3", None), "provide.transaction.metadata"),
        (record(None, None, "first", b"-1"), "the header tidings.as.of is not a position"),
        (record(None, None, "first", b"\xff"), "the header tidings.as.of is not a position"),
    ],
)
def test_what_has_no_place_is_refused_by_name(session: SparkSession, row: tuple[Any, ...], why: str) -> None:
    ((_, _, _, reason),) = places(session, [row], Limits(domain=0))
    assert why in reason


def test_postgresql_is_not_mariadb() -> None:
    both = Node("record", name="s", fields=(*_SOURCE.fields, ("lsn", _LONG)))
    assert is_of_binlog(ENVELOPE)
    assert not is_of_binlog(Node("record", name="e", fields=(("source", both),)))
