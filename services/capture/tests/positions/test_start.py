"""What a task begins with, by ``snapshot.mode``, what is stored, and what was lost: every row of the table."""

import itertools
from typing import Any

import pytest

from tidings_capture.cdc.snapshots.options import SnapshotOptions
from tidings_capture.cdc.start import Begin, Stored, begin, rest_of

INITIAL, ALWAYS = SnapshotOptions("initial"), SnapshotOptions("always")
INITIAL_ONLY, NO_DATA = SnapshotOptions("initial_only"), SnapshotOptions("no_data")
NOTHING_AT_ALL = SnapshotOptions("configuration_based")
DATA_ALONE = SnapshotOptions("configuration_based", based_data=True)
DATA_AND_STREAM = SnapshotOptions("configuration_based", based_data=True, based_stream=True)
MODES = [INITIAL, ALWAYS, INITIAL_ONLY, NO_DATA, NOTHING_AT_ALL, DATA_ALONE, DATA_AND_STREAM]


def decided(
    options: Any, stored: Any, *, log_kept: bool = True, lost: bool = False, choice: str = "fail"
) -> Any:
    return begin(options, stored, log_kept=log_kept, lost=lost, loss_choice=choice)


@pytest.mark.parametrize(
    ("options", "nothing", "interrupted", "part", "position"),
    [
        (
            INITIAL,
            Begin.SNAPSHOT,
            Begin.SNAPSHOT_BEHIND_LOG,
            Begin.SNAPSHOT_BEHIND_STREAM,
            Begin.STREAM,
        ),
        (
            ALWAYS,
            Begin.SNAPSHOT,
            Begin.SNAPSHOT_BEHIND_LOG,
            Begin.SNAPSHOT_BEHIND_STREAM,
            Begin.SNAPSHOT_BEHIND_STREAM,
        ),
        (INITIAL_ONLY, Begin.SNAPSHOT, Begin.SNAPSHOT, Begin.SNAPSHOT_ALONE, Begin.REST),
        (
            NO_DATA,
            Begin.STREAM_FROM_NOW,
            Begin.STREAM_FROM_NOW,
            Begin.STREAM_WITHOUT_SNAPSHOT,
            Begin.STREAM,
        ),
        (NOTHING_AT_ALL, Begin.REST, Begin.REST, Begin.SNAPSHOT_ALONE, Begin.REST),
        (DATA_ALONE, Begin.SNAPSHOT, Begin.SNAPSHOT, Begin.SNAPSHOT_ALONE, Begin.SNAPSHOT_ALONE),
        (
            DATA_AND_STREAM,
            Begin.SNAPSHOT,
            Begin.SNAPSHOT_BEHIND_LOG,
            Begin.SNAPSHOT_BEHIND_STREAM,
            Begin.SNAPSHOT_BEHIND_STREAM,
        ),
    ],
)
def test_by_mode_and_offset(options: Any, nothing: Any, interrupted: Any, part: Any, position: Any) -> None:
    assert [decided(options, stored) for stored in Stored] == [nothing, interrupted, part, position]


@pytest.mark.parametrize("options", MODES)
def test_without_the_log_an_interrupted_snapshot_is_a_first_one(options: Any) -> None:
    assert decided(options, Stored.INTERRUPTED, log_kept=False) is decided(options, Stored.NOTHING)


@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("stored", [Stored.PART, Stored.POSITION])
def test_a_loss_is_recovered_wherever_something_is_streamed(options: Any, stored: Any) -> None:
    found = decided(options, stored, lost=True)
    assert (found is Begin.RECOVER) is options.streams
    assert found is Begin.RECOVER or found is decided(options, stored)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("fail", Begin.STREAM_WITHOUT_SNAPSHOT),
        ("continue", Begin.STREAM_WITHOUT_SNAPSHOT),
        ("snapshot", Begin.SNAPSHOT_BEHIND_STREAM),
        ("incremental", Begin.SNAPSHOT_BEHIND_STREAM),
    ],
)
def test_a_snapshot_that_a_loss_has_asked_for_is_finished_in_every_mode(choice: str, expected: Any) -> None:
    assert decided(NO_DATA, Stored.PART, choice=choice) is expected
    assert decided(NO_DATA, Stored.POSITION, choice=choice) is Begin.STREAM


def test_a_task_streams_from_nowhere_only_when_nothing_is_stored() -> None:
    for options, stored, kept, lost in itertools.product(MODES, Stored, (True, False), (True, False)):
        found = decided(options, stored, log_kept=kept, lost=lost)
        without_position = stored in {Stored.NOTHING, Stored.INTERRUPTED}
        assert without_position or found not in {
            Begin.STREAM_FROM_NOW,
            Begin.SNAPSHOT,
            Begin.SNAPSHOT_BEHIND_LOG,
        }
        assert not without_position or found not in {
            Begin.STREAM,
            Begin.STREAM_WITHOUT_SNAPSHOT,
            Begin.RECOVER,
            Begin.SNAPSHOT_ALONE,
            Begin.SNAPSHOT_BEHIND_STREAM,
        }


def test_tables_that_were_sent_as_a_whole_are_not_read_again() -> None:
    work = rest_of([("a", "x"), ("a", "y"), ("b", "x")], ("a.x",), "position", {"a.y": "SELECT 1"})
    assert work.tables == [("a", "y"), ("b", "x")]
    assert (work.done, work.catch_up, work.selects) == (("a.x",), "position", {"a.y": "SELECT 1"})
