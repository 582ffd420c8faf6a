"""Source offsets: Debezium's form, and what a restart makes of them."""

import json
from typing import Any

import pytest

from tidings_capture.postgres.offsets.offset import SourceOffset, decode_offset, encode_offset, offset_key
from tidings_connect.errors import OffsetError


def test_key_is_kafka_connects() -> None:
    assert json.loads(offset_key("c", "shop")) == ["c", {"server": "shop"}]


@pytest.mark.parametrize(
    "offset",
    [
        SourceOffset(done_lsn=500, lsn=500, commit_lsn=500, tx_id=7, ts_us=9, message_type="COMMIT"),
        SourceOffset(done_lsn=800, lsn=800, commit_lsn=500, tx_id=7, ts_us=9, message_type="COMMIT"),
        SourceOffset(done_lsn=500, lsn=640, commit_lsn=500, tx_id=8, ts_us=9, message_type="INSERT", events_at_lsn=3,
                     transaction_id="8", event_counts=(("public.a", 12),)),
        SourceOffset(done_lsn=300, lsn=640, tx_id=8, ts_us=9, message_type="UPDATE", events_at_lsn=1),
        SourceOffset(done_lsn=500, lsn=500, tx_id=7, ts_us=9, snapshot="INITIAL"),
        SourceOffset(done_lsn=500, lsn=500),
        # A long transaction: its rows are older than the last commit.
        SourceOffset(done_lsn=500, lsn=340, commit_lsn=500, tx_id=8, message_type="DELETE", events_at_lsn=1),
    ],
)  # fmt: skip
def test_comes_back_as_it_was(offset: Any) -> None:
    assert decode_offset(encode_offset(offset)) == offset


def test_names_are_debeziums() -> None:
    offset = SourceOffset(
        done_lsn=5, lsn=6, commit_lsn=5, tx_id=8, ts_us=9, message_type="INSERT", events_at_lsn=2,
        transaction_id="8", event_counts=(("public.a", 1),),
    )  # fmt: skip
    assert json.loads(encode_offset(offset)) == {
        "ts_usec": 9,
        "txId": 8,
        "lsn": 6,
        "lsn_proc": 5,
        "lsn_commit": 5,
        "messageType": "INSERT",
        "lsn_events_processed": 2,
        "transaction_id": "8",
        "transaction_data_collection_order_public.a": 1,
    }


@pytest.mark.parametrize(
    ("stored", "done", "in_transaction"),
    [
        # What Debezium writes: in a transaction, after one, after a snapshot.
        ({"lsn": 60, "lsn_proc": 60, "lsn_commit": 50, "messageType": "INSERT", "txId": 8}, 50, True),
        ({"lsn": 60, "lsn_proc": 70, "lsn_commit": 70, "messageType": "INSERT", "txId": 8}, 70, False),
        ({"lsn": 70, "lsn_proc": 70, "lsn_commit": 70, "messageType": "COMMIT", "txId": 8}, 70, False),
        ({"lsn": 55, "lsn_proc": 55, "lsn_commit": 50, "messageType": "BEGIN", "txId": 8}, 55, False),
        ({"lsn": 40, "snapshot": "INITIAL", "snapshot_completed": True}, 40, False),
        ({"lsn": 60, "lsn_proc": 60, "messageType": "INSERT", "txId": 8}, 0, True),
        (
            {"lsn": 40, "lsn_proc": 40, "lsn_commit": 50, "messageType": "INSERT", "lsn_events_processed": 2},
            50,
            True,
        ),
        # In the first transaction after a snapshot; the slot is confirmed up to the row.
        ({"lsn": 60, "lsn_proc": 60, "messageType": "INSERT", "lsn_events_processed": 1}, 60, True),
        # Older releases left INSERT there after the commit: the transaction is repeated rather than lost.
        ({"lsn": 40, "lsn_proc": 40, "lsn_commit": 50, "messageType": "INSERT"}, 50, False),
    ],
)
def test_debeziums_offsets_are_understood(stored: dict[str, Any], done: int, in_transaction: bool) -> None:
    offset = decode_offset(json.dumps(stored).encode())
    assert (offset.done_lsn, offset.in_transaction) == (done, in_transaction)


def test_unfinished_snapshot_is_no_position() -> None:
    stored = {"lsn": 40, "snapshot": "INITIAL", "snapshot_completed": False, "last_snapshot_record": False}
    assert decode_offset(json.dumps(stored).encode()) is None


@pytest.mark.parametrize("data", [b"{", b"[1]", b"{}", b'{"lsn":"x"}', b'{"lsn":-1}'])
def test_what_is_no_offset_is_refused(data: bytes) -> None:
    with pytest.raises(OffsetError):
        decode_offset(data)
