"""What is stored: the stream's position with an interrupted snapshot, an incremental one, and the server's history."""

from types import SimpleNamespace
from typing import Any

from tidings_capture.postgres.offsets.history import History
from tidings_capture.postgres.offsets.offset import SourceOffset, decode_offset, encode_offset
from tidings_capture.postgres.offsets.positions import Positions, SnapshotPosition, position_at

INCREMENTAL = {
    "incremental_snapshot_collections": "[]",
    "incremental_snapshot_correlation_id": "s",
    "tidings_incremental_snapshot_keys": "{}",
}


def stored(position: Any) -> Any:
    """As a restart finds it."""
    return decode_offset(encode_offset(position))


def positions(incremental: Any = None, confirmed: Any = None) -> tuple[Any, ...]:
    checkpoints = SimpleNamespace(sign=None, stored=confirmed)
    made = Positions(checkpoints)
    made.incremental = lambda: incremental
    return made, checkpoints


def test_a_position_of_the_stream_alone_is_the_streams() -> None:
    position = SourceOffset(done_lsn=5, lsn=5)
    assert positions()[0].of_stream(position) is position


def test_a_position_of_the_stream_keeps_what_is_unfinished() -> None:
    of, _ = positions(INCREMENTAL)
    of.follow(SourceOffset(done_lsn=1, lsn=1, unfinished=("public.a",)))
    found = stored(of.of_stream(SourceOffset(done_lsn=5, lsn=5)))
    assert (found.done_lsn, found.unfinished, found.incremental) == (5, ("public.a",), INCREMENTAL)
    of.follow(SourceOffset(done_lsn=6, lsn=6))
    assert of.of_stream(SourceOffset(done_lsn=7, lsn=7)).unfinished is None, "of the stream before"


def test_an_interrupted_snapshot_is_kept_where_nothing_incremental_is_under_way() -> None:
    of, _ = positions()
    of.follow(SourceOffset(done_lsn=1, lsn=1, unfinished=()))
    assert of.of_stream(SourceOffset(done_lsn=5, lsn=5)).unfinished == ()


def test_every_position_says_which_history_it_is_of() -> None:
    of, checkpoints = positions()
    assert checkpoints.sign(position_at(3)).history is None
    of.history = History("1", 1)
    assert stored(checkpoints.sign(position_at(3))).history == History("1", 1)


def test_nothing_is_confirmed_before_the_first_checkpoint() -> None:
    assert positions()[0].confirmed_lsn == 0
    assert positions(confirmed=SourceOffset(done_lsn=9, lsn=12))[0].confirmed_lsn == 9


def test_a_snapshot_that_is_interrupted_is_known_as_one_from_its_beginning_to_its_end() -> None:
    position = SnapshotPosition(100, ("public.a",), None)
    position.catch_up(SourceOffset(done_lsn=90, lsn=90, commit_lsn=80, incremental=INCREMENTAL))
    begun = stored(position.so_far())
    assert (begun.done_lsn, begun.commit_lsn, begun.incremental) == (100, 80, INCREMENTAL)
    assert begun.unfinished == ("public.a",)
    position.table_sent("public.b")
    assert stored(position.so_far()).unfinished == ("public.a", "public.b")
    end = position.end(7, 1_000, blocking=False)
    assert (end.unfinished, end.snapshot, end.tx_id, end.ts_us) == (None, "INITIAL", 7, 1_000)
    assert (end.done_lsn, end.lsn, end.commit_lsn) == (100, 100, 80)
    assert position.end(7, 1_000, blocking=True).snapshot is None
    assert position.given_up().unfinished is None


def test_a_first_snapshot_without_a_table_that_was_sent_is_unfinished_too() -> None:
    assert stored(SnapshotPosition(100, (), None).so_far()).unfinished == ()
