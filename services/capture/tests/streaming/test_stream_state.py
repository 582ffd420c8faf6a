"""The phases of the stream: which may follow which, and which one a transaction begins."""

from typing import Any

import pytest

from tidings_capture.postgres.streaming.state import Phase, following, phase_at_begin
from tidings_connect.errors import ConnectError

BETWEEN, SENDING, REPEATING = Phase.BETWEEN, Phase.SENDING, Phase.REPEATING
SKIPPING, BEHIND_STOP, STOPPED = Phase.SKIPPING, Phase.BEHIND_STOP, Phase.STOPPED

# Written out once more: a transition that is added or lost by mistake fails here.
ALLOWED = {
    (BETWEEN, SENDING), (BETWEEN, REPEATING), (BETWEEN, SKIPPING), (BETWEEN, BEHIND_STOP),
    (SENDING, BETWEEN),
    (REPEATING, SENDING), (REPEATING, BETWEEN),
    (SKIPPING, BETWEEN),
    (BEHIND_STOP, STOPPED),
    (STOPPED, BEHIND_STOP),
}  # fmt: skip


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("next_phase", Phase)
def test_transitions(phase: Any, next_phase: Any) -> None:
    if (phase, next_phase) in ALLOWED:
        assert following(phase, next_phase) is next_phase
    else:
        with pytest.raises(ConnectError, match=f"{next_phase.name} cannot follow {phase.name}"):
            following(phase, next_phase)


@pytest.mark.parametrize(
    ("commit", "done", "stop", "resumes", "phase"),
    [
        (200, 100, None, False, SENDING),
        (200, 100, None, True, REPEATING),
        (200, 200, None, False, SENDING),  # the server begins with what ends behind the requested position
        (199, 200, None, False, SKIPPING),
        (199, 200, None, True, SKIPPING),
        (200, 100, 201, False, SENDING),
        (200, 100, 200, False, BEHIND_STOP),
        (200, 100, 200, True, BEHIND_STOP),
        (200, 300, 200, False, BEHIND_STOP),
    ],
)
def test_the_phase_that_a_transaction_begins(
    commit: int, done: int, stop: int | None, resumes: bool, phase: Any
) -> None:
    assert phase_at_begin(commit_lsn=commit, done_lsn=done, stop_lsn=stop, resumes=resumes) is phase


def test_what_the_phases_mean() -> None:
    assert [phase for phase in Phase if phase.in_transaction] == [SENDING, REPEATING, SKIPPING, BEHIND_STOP]
    assert [phase for phase in Phase if phase.leaves_out] == [SKIPPING, BEHIND_STOP]
