"""What is late, and up to where a table is complete."""

from tidings_lakehouse.positions import PartitionId, Position, Progress, Span

P0, P1 = PartitionId("id", 0), PartitionId("id", 1)


def streamed(first: tuple[int, int], last: tuple[int, int], offsets: tuple[int, int] = (0, 9)) -> Span:
    return Span(*offsets, snapshot_lsns=None, first_lsns=None, streamed=(Position(*first), Position(*last)))


def snapshot(lsn: int) -> Span:
    return Span(0, 9, snapshot_lsns=(lsn, lsn), first_lsns=None, streamed=None)


def test_rows_behind_what_the_table_has_are_late() -> None:
    progress = Progress()
    assert not progress.is_late({P0: streamed((10, 11), (20, 21))})
    progress.advance({P0: streamed((10, 11), (20, 21))})
    assert not progress.is_late({P0: streamed((20, 22), (30, 31))})
    assert progress.is_late({P0: streamed((20, 20), (30, 31))})


def test_rows_of_a_topic_made_again_are_compared() -> None:
    progress = Progress()
    progress.advance({P0: streamed((10, 11), (20, 21))})
    assert progress.is_late({PartitionId("another", 0): streamed((30, 31), (40, 41))})


def test_a_table_is_complete_up_to_its_slowest_partition() -> None:
    progress = Progress()
    assert progress.complete_lsn is None
    progress.advance({P0: streamed((10, 11), (20, 21)), P1: streamed((12, 13), (15, 16))})
    assert progress.complete_lsn == 15
    assert progress.newest_position == (20, 21)


def test_the_first_transaction_after_a_snapshot_is_newer_than_the_snapshot() -> None:
    """Its rows do not know the last commit, and may have been written before the snapshot."""
    progress = Progress()
    progress.advance({P0: snapshot(100)})
    first = Span(10, 11, snapshot_lsns=None, first_lsns=(90, 95), streamed=None)
    assert not progress.is_late({P0: first})
    progress.advance({P0: first})
    assert progress.newest_position == (100, 95)
    assert not progress.is_late({P0: streamed((110, 105), (110, 106))})
