"""Names the points between fetching and the committed transaction at which a test may end the process.

They lie between steps whose order is what keeps a crash harmless; capture has points of its own. What ends it: `tidings_envelope.fault_points`.
"""

from typing import Final

from tidings_envelope.fault_points import reached

__all__ = ["POINTS", "reached"]

POINTS: Final[dict[str, str]] = {
    "assigned": "partitions were given to this process, nothing has been restored",
    "restored": "state and positions are restored, no predecessor can commit any more",
    "batch.handled": "a batch's outputs wait for the next transaction",
    "transaction.begun": "a Kafka transaction is open and empty",
    "outputs.produced": "outputs and state are queued for Kafka, the offsets are not in the transaction",
    "offsets.sent": "everything is in the transaction, which is not committed",
    "transaction.committed": "it is committed, and nobody in this process knows",
    "part.added": "a part of a transaction that is on disk waits for the next Kafka transaction (sequencer)",
    "revoked": "partitions are about to be given up, what is pending is not committed",
    "drained": "it is committed, the partitions are not given up",
}
"""All points, and what is true there."""
