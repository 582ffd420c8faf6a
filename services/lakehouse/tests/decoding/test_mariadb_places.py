"""Where a change of MariaDB stands: as `tidings_envelope.mariadb` says, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from tidings_envelope.envelope import TransactionRef
from tidings_envelope.gtid import ROWS
from tidings_envelope.mariadb import MariaDbEnvelope, MariaDbSource, OneDomain, with_position
from tidings_lakehouse.decoding.mariadb import Limits, is_of_mariadb, place_of
from tidings_lakehouse.formats.avro_nodes import Node

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_LONG, _TEXT = Node("long"), Node("string")
_SOURCE = Node("record", name="s", fields=(("snapshot", _TEXT), ("gtid", _TEXT)))
_BLOCK = Node("record", name="b", fields=(("total_order", _LONG),))
ENVELOPE = Node("record", name="e", fields=(("source", _SOURCE), ("transaction", _BLOCK)))
_COLUMNS = (
    "v struct<tidings_decoded: boolean, source: struct<snapshot: string, gtid: string>,"
    " transaction: struct<total_order: bigint>>, headers array<struct<key: string, value: binary>>,"
    " partition int, offset bigint"
)


def record(
    gtid: str | None, order: int | None, snapshot: str = "false", as_of: bytes | None = None
) -> tuple[Any, ...]:
    headers = None if as_of is None else [("tidings.as.of", as_of)]
    return (True, (snapshot, gtid), None if order is None else (order,)), headers, 0, 10


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
        source = MariaDbSource("p", "d", "t", 1, "mariadb", gtid)
        block = TransactionRef(gtid, order, order)
        its = with_position(MariaDbEnvelope("c", source, transaction=block), OneDomain()).source
        assert (tx_id, last_commit, lsn, reason) == (its.tx_id, its.last_commit_lsn, its.lsn, None)


def test_rows_of_snapshots_stand_where_their_header_says(session: SparkSession) -> None:
    read = [record(None, None, "true", str(5 * ROWS).encode()), record(None, None, "last")]
    assert places(session, read, Limits()) == [(None, None, 5 * ROWS, None), (None, None, 0, None)]
    behind = places(session, read, Limits(begun=((0, 3),)))
    assert behind[0][3] is None
    assert "does not say as of which commit" in behind[1][3]
    assert places(session, read, Limits(begun=((0, 30), (1, 3)))) == places(session, read, Limits())


def test_a_row_of_an_incremental_snapshot_stands_behind_the_commit_before_its_gtid(
    session: SparkSession,
) -> None:
    again = record("0-1-5", None, "incremental")
    assert places(session, [again], Limits(domain=0, begun=((0, 3),))) == [(None, 4 * ROWS, None, None)]
    source = MariaDbSource("p", "d", "t", 1, "mariadb", "0-1-5", snapshot="incremental")
    its = with_position(MariaDbEnvelope("r", source), OneDomain()).source
    assert its.last_commit_lsn == 4 * ROWS


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (record("7-1-3", 1), "its GTID is of replication domain 7, and those before it are of 0"),
        (record(None, 1), "source.gtid is null"),
        (record("0-1-0", 1), "source.gtid is not domain-server-sequence"),
        (record("0-1-549755813888", 1), "source.gtid is not domain-server-sequence"),
        (record("3e11fa47-71ca-11e1-9e33-c80aa9429562:23", 1), "source.gtid is not domain-server-sequence"),
        (record(None, None, "incremental"), "source.gtid is null"),
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
    assert is_of_mariadb(ENVELOPE)
    assert not is_of_mariadb(Node("record", name="e", fields=(("source", both),)))
