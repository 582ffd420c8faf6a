"""What the stream is in the middle of: `Phase`, and which phase may follow which.

PostgreSQL sends whole transactions one after the other. Most are new and sent on; the rows of one that was sent in part are
repeated first; one that was sent as a whole before, or that lies behind the LSN to stop before, is left out.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidings_connect.errors import ConnectError


class Phase(Enum):
    """Where the stream stands."""

    BETWEEN = auto()
    """Between transactions."""
    SENDING = auto()
    """Within a transaction whose rows are sent."""
    REPEATING = auto()
    """Within a transaction that was sent in part, before its first row that was not."""
    SKIPPING = auto()
    """Within a transaction that was sent as a whole: a slot may be behind the stored position."""
    BEHIND_STOP = auto()
    """Within a transaction that was committed at the LSN to stop before, or later."""
    STOPPED = auto()
    """Between transactions, the last of which was behind the stop."""

    @property
    def in_transaction(self) -> bool:
        return self in _IN_TRANSACTION

    @property
    def leaves_out(self) -> bool:
        """Whether nothing of the transaction is sent."""
        return self in _LEFT_OUT


_IN_TRANSACTION: Final = frozenset({Phase.SENDING, Phase.REPEATING, Phase.SKIPPING, Phase.BEHIND_STOP})
_LEFT_OUT: Final = frozenset({Phase.SKIPPING, Phase.BEHIND_STOP})

NEXT: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.BETWEEN: _IN_TRANSACTION,
    Phase.SENDING: frozenset({Phase.BETWEEN}),
    Phase.REPEATING: frozenset({Phase.SENDING, Phase.BETWEEN}),
    Phase.SKIPPING: frozenset({Phase.BETWEEN}),
    Phase.BEHIND_STOP: frozenset({Phase.STOPPED}),
    # Transactions come in the order of their commits: none before the stop follows one behind it.
    Phase.STOPPED: frozenset({Phase.BEHIND_STOP}),
}
"""The phases that may follow each."""


def following(phase: Phase, next_phase: Phase) -> Phase:
    """The next phase.

    Raises:
        ConnectError: it cannot follow: the server sent messages in an order that the protocol does not know.
    """
    if next_phase not in NEXT[phase]:
        raise ConnectError(
            f"the server sent the stream out of order: {next_phase.name} cannot follow {phase.name}",
            hint="restart the connector; if it comes again, report it with the server's version",
        )
    return next_phase


def phase_at_begin(*, commit_lsn: int, done_lsn: int, stop_lsn: int | None, resumes: bool) -> Phase:
    """The phase that a transaction begins.

    Args:
        commit_lsn: of the transaction.
        done_lsn: transactions that ended here or before were sent as a whole.
        stop_lsn: the LSN to stop before; None: there is none.
        resumes: whether it is the transaction that was sent in part.
    """
    if stop_lsn is not None and commit_lsn >= stop_lsn:
        return Phase.BEHIND_STOP
    if commit_lsn < done_lsn:
        return Phase.SKIPPING
    return Phase.REPEATING if resumes else Phase.SENDING
