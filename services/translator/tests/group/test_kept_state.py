"""When a member that keeps its partitions through a rebalance may go on with the state in its memory."""

from typing import Any, cast

import pytest

from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.progress import PROGRESS_KEY
from tidings_translator.sequencer.changelog import Changelog
from tidings_translator.sequencer.session import Session
from tidings_translator.translation.shard import Shard, ShardContext

NOTHING = cast("Any", None)


def shard(next_offset: int) -> Shard:
    context = ShardContext(NOTHING, NOTHING, NOTHING, "letters", 1)
    return Shard(context, Partition("sets", 0), Partition("state", 0), 7, next_offset, "live")


def test_a_shard_is_kept_when_all_of_it_is_committed_and_nobody_went_on() -> None:
    one = shard(5)
    assert one.is_as_committed(5), "as it was read"
    assert not one.is_as_committed(6), "somebody else has gone on"
    one.next_offset = 8
    assert not one.is_as_committed(5), "something was done, and dropped"
    assert not one.is_as_committed(8), "somebody else has done it, perhaps by other rules"
    one.committed = 8
    assert one.is_as_committed(8)
    assert not one.is_as_committed(9)


@pytest.fixture
def session() -> Session:
    changelog = Changelog()
    changelog.progress.finish(1, 100)
    changelog.memory.set_row("public.customers", "1", {"id": 1})
    changelog.take_changes()
    return Session(7, changelog, NOTHING, NOTHING, NOTHING, NOTHING, 1, [])


def test_the_next_generation_goes_on_with_the_memory_and_the_progress_that_was_committed(
    session: Session,
) -> None:
    session.progress.note_row(Partition("topic", 0), 3, 0)
    changelog = session.changelog_of_next(8)
    assert changelog is session.changelog
    assert changelog.progress.commit_lsn == 100
    assert changelog.progress.unreadable == [], "read, but not stored: it will be read again"
    assert changelog.memory.row("public.customers", "1") == {"id": 1}


def test_the_memory_is_read_again_where_it_may_not_be_what_is_stored(session: Session) -> None:
    assert session.changelog_of_next(9) is None, "somebody else may have been the owner"
    session.added += 1
    assert session.changelog_of_next(8) is None, "something was not committed"
    session.committed += 1
    assert session.changelog_of_next(8) is not None
    session.memory.set_root("Order", "public.payments", "1", "2")
    assert session.changelog_of_next(8) is None, "it knows of rows that did not come out"
    assert PROGRESS_KEY in session.sent_progress
