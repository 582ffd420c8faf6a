"""Handles sources without transaction metadata: every row comes out for itself, as if it were a transaction.

For connectors that cannot be told ``provide.transaction.metadata=true``, and only where it is asked for: a rule then sees an
aggregate between the rows of one commit, rows of different tables come in any order, and positions (and with them event
ids) depend on that order, so that they are others when history is read again. What a crash repeats is recognised within a
partition, by the last commit before the row's and its LSN, which never go back there.
"""

from tidings_domain.routing.transactions import CompleteTransaction
from tidings_envelope.envelope import Envelope
from tidings_translator.base.records import Partition
from tidings_translator.sequencer.assembly.assembler import Assembler


class SingleRows(Assembler):
    """An `Assembler` that waits for nothing. Positions are LSNs, raised where needed so that they always grow."""

    assembles = False

    def _single_row(self, partition: Partition, offset: int, envelope: Envelope) -> None:  # noqa: ARG002 - where it is read
        source = envelope.source
        position = self.progress.single_row(str(partition), (source.last_commit_lsn or 0, source.lsn or 0))
        if position is None:
            self.duplicates += 1
        else:
            self._out.append(CompleteTransaction(source.tx_id or 0, position, [envelope]))

    def unreadable(self, partition: Partition, offset: int) -> bool:
        """A record that could not be decoded, for the dead letters; no other depends on it."""
        self.nothing(partition, offset)
        return True
