"""Envelopes of MariaDB and MySQL: a commit gets a position that compares."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings_envelope.binlog import read_as_of
from tidings_envelope.commit_number import commit_position, position_before, row_position
from tidings_envelope.decode import EnvelopeDecoder
from tidings_envelope.envelope import lsn_of, txid_of
from tidings_envelope.errors import DecodeError
from tidings_envelope.gtid import MAX_SEQUENCE, ROWS
from tidings_envelope.headers.as_of import HEADER as AS_OF
from tidings_envelope.headers.commit import HEADER as COMMIT


def event(gtid: str | None, order: int = 1, **source: Any) -> bytes:
    """As Debezium's connector writes it without schemas."""
    place = {
        "server_id": 1,
        "gtid": gtid,
        "file": "mysqld-bin.000001",
        "pos": 4,
        "row": 0,
        "thread": None,
        "query": None,
    }
    common = {"version": "3.5.0.Final", "connector": "mariadb", "name": "p", "ts_ms": 5000, "snapshot": "false",
              "db": "shop", "sequence": None, "ts_us": 5_000_000, "ts_ns": 5_000_000_000, "table": "orders"}  # fmt: skip
    block = None if gtid is None else {"id": gtid, "total_order": order, "data_collection_order": order}
    return json.dumps(
        {
            "before": None,
            "after": {"id": 1},
            "source": common | place | source,
            "transaction": block,
            "op": "c",
            "ts_ms": 6,
        }
    ).encode()


def of_postgresql(**more: Any) -> bytes:
    source = {
        "name": "p",
        "db": "d",
        "schema": "public",
        "table": "t",
        "ts_ms": 5,
        "lsn": 7,
        "connector": "postgresql",
    }
    return json.dumps({"op": "c", "source": source | more, "after": {"id": 1}}).encode()


def end(gtid: str, events: int = 1) -> bytes:
    return json.dumps(
        {"status": "END", "id": gtid, "ts_ms": 5, "event_count": events, "data_collections": []}
    ).encode()


def test_it_has_what_postgresqls_have() -> None:
    envelope = EnvelopeDecoder().envelope(event("0-1-42", 3))
    assert envelope is not None
    source = envelope.source
    assert (source.qualified_table, source.tx_id) == ("shop.orders", 42)
    assert (source.last_commit_lsn, source.lsn) == (41 * ROWS, 41 * ROWS + 3)
    assert envelope.transaction is not None
    assert (txid_of(envelope.transaction.id), lsn_of("0-1-42")) == (42, 42 * ROWS)


@given(
    commits=st.lists(st.integers(1, MAX_SEQUENCE), min_size=2, max_size=2, unique=True).map(sorted),
    orders=st.lists(st.integers(1, 1 << 40), min_size=2, max_size=2, unique=True).map(sorted),
)
def test_positions_are_in_the_order_of_commits_and_rows(commits: list[int], orders: list[int]) -> None:
    """Rows lie between the commit before theirs and their own; beyond 16 million in a transaction they share a position."""
    decoder = EnvelopeDecoder()
    ends = [lsn_of(f"0-1-{sequence}") for sequence in commits]
    rows = []
    for sequence in commits:
        for order in orders:
            envelope = decoder.envelope(event(f"0-1-{sequence}", order))
            assert envelope is not None
            assert envelope.source.lsn is not None
            rows.append(envelope.source.lsn)
    first, second, third, fourth = rows
    assert first <= second < ends[0] <= third <= fourth < ends[1] < 1 << 63
    assert first < second or orders[1] >= ROWS - 1


def test_both_databases_may_come_in_turn() -> None:
    decoder = EnvelopeDecoder()
    for raw in (event("0-1-1"), of_postgresql(), of_postgresql(), event("0-1-2"), event("0-1-3")):
        envelope = decoder.envelope(raw)
        assert envelope is not None
        assert envelope.source.qualified_table in {"shop.orders", "public.t"}


def test_a_row_of_a_snapshot_is_where_its_header_says() -> None:
    decoder = EnvelopeDecoder()
    read = decoder.envelope(event(None, snapshot="first"))
    assert read is not None
    assert (read.source.lsn, read.source.sequence) == (None, None)
    assert read_as_of(read, 9 * ROWS).source.lsn == 9 * ROWS
    other = decoder.envelope(of_postgresql())
    assert other is not None
    assert read_as_of(other, 9) is other


def test_a_second_replication_domain_is_refused() -> None:
    decoder = EnvelopeDecoder()
    decoder.marker(end("0-1-7"))
    for read, raw in ((decoder.marker, end("1-1-8")), (decoder.envelope, event("1-1-8"))):
        with pytest.raises(
            DecodeError, match="1-1-8 is of replication domain 1, and those before it are of 0"
        ):
            read(raw)
    assert decoder.marker(end("0-2-8")) is not None  # another server of the same one


def test_a_transaction_without_an_event_does_not_say_of_which_domain_a_source_is() -> None:
    """It may be one that does not count (`gtid.source.excludes`), of which markers are told, too."""
    decoder = EnvelopeDecoder()
    assert decoder.marker(end("91-1-4", events=0)) is None
    assert decoder.marker(end("0-1-7", events=0)) is None, "nothing has told yet that this is the source's"
    assert decoder.replication_domain is None
    assert decoder.marker(end("0-1-8")) is not None
    assert decoder.marker(end("0-1-9", events=0)) is not None
    assert decoder.marker(end("91-1-5", events=0)) is None
    with pytest.raises(DecodeError, match="domain-server-sequence"):
        decoder.marker(end("0-x", events=0))


@pytest.mark.parametrize(
    "text", ["", "0-1", "0-1-0", "0-1-x", "0-1-2-3", "a-1-2", "0-1--2", "0-1-1٣", f"0-1-{MAX_SEQUENCE + 1}"]
)
def test_what_is_no_gtid_is_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        EnvelopeDecoder().envelope(event(text))
    with pytest.raises(DecodeError):
        lsn_of(text)


def test_a_change_without_a_gtid_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"source\.gtid is null"):
        EnvelopeDecoder().envelope(event(None))


def test_a_source_of_neither_is_told_what_it_lacks() -> None:
    with pytest.raises(DecodeError, match="missing required field `schema`"):
        EnvelopeDecoder().envelope(event("0-1-1", connector="oracle"))


MYSQL = "94e446b5-e927-11f1-9ee7-02fc00000001:20"
NUMBER = 1_790_000_000_000_123


@pytest.mark.parametrize("snapshot", ["false", "first", "incremental"])
def test_mysqls_without_a_number_are_refused_by_name(snapshot: str) -> None:
    """As Debezium writes them. Also the rows of a snapshot: the changes behind them could not be put in order."""
    gtid = None if snapshot == "first" else MYSQL
    with pytest.raises(DecodeError, match=r"lacks the header tidings\.commit"):
        EnvelopeDecoder().envelope(event(gtid, connector="mysql", snapshot=snapshot))


@pytest.mark.parametrize("id_", [MYSQL, MYSQL.replace(":", ":tag:"), "file=binlog.000001,pos=4"])
def test_mysqls_markers_without_a_number_are_refused_by_name(id_: str) -> None:
    with pytest.raises(DecodeError, match=r"lacks the header tidings\.commit"):
        EnvelopeDecoder().marker(end(id_))


@pytest.mark.parametrize("gtid", [MYSQL, None])
@pytest.mark.parametrize("events", [1, 5000])
def test_mysqls_have_places_by_their_numbers(gtid: str | None, events: int) -> None:
    """Also where the log names no transactions. Transactions of many rows end behind all of them."""
    decoder, headers = EnvelopeDecoder(), [(COMMIT, b"%d" % NUMBER)]
    raw = json.loads(event(gtid, events, connector="mysql"))
    raw["transaction"] = {"id": gtid or "file=b.1,pos=4", "total_order": events, "data_collection_order": 1}
    row = decoder.envelope(json.dumps(raw).encode(), headers)
    told = json.loads(end(raw["transaction"]["id"])) | {"event_count": events}
    marker = decoder.marker(json.dumps(told).encode(), headers)
    assert row is not None
    assert row.transaction is not None
    assert row.source.tx_id == txid_of(row.transaction.id) == txid_of(marker.id) == NUMBER
    assert row.source.last_commit_lsn == position_before(NUMBER)
    assert (
        row.source.lsn == row_position(NUMBER, events) < lsn_of(marker.id) == commit_position(NUMBER, events)
    )
    assert decoder.replication_domain is None


def test_a_row_of_mysqls_snapshot_is_where_its_header_says() -> None:
    raw = event(None, connector="mysql", snapshot="first")
    read = EnvelopeDecoder().envelope(raw, [(AS_OF, b"7")])
    assert read is not None
    assert read_as_of(read, 7).source.lsn == 7
