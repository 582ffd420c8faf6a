"""Named points of the way from the server to Kafka and back, at which a test may end the process (`tidings_envelope.fault_points`).

They lie between steps whose order is what keeps a crash harmless (`tidings_connect.task.checkpoints`).
"""

from typing import Final

from tidings_envelope.fault_points import reached

__all__ = ["POINTS", "reached"]

POINTS: Final[dict[str, str]] = {
    "slot.created": "the slot is there, no offset has been stored",
    "snapshot.begun": "an unfinished snapshot has been stored, no row has been sent",
    "snapshot.rows": "rows of a table have been sent",
    "snapshot.table": "the last row of a table has been sent",
    "snapshot.sent": "every row has been sent, the offset that ends the snapshot is not stored",
    "window.read": "a chunk of an incremental snapshot has been read",
    "window.sent": "its rows have been sent",
    "batch.sent": "a batch of changes has been queued for Kafka",
    "records.acknowledged": "Kafka has acknowledged all records, the offset is not written (not in exactly once)",
    "offset.written": "the offset is queued for Kafka; exactly once: the transaction is not committed",
    "offset.stored": "Kafka has acknowledged the offset or the transaction, the slot is not confirmed",
    "slot.confirmed": "the server has been told",
    "config.connector": "a connector's configuration is stored, its task's is not",
    "config.task": "both are, the record that commits them is not",
}
"""All points, and what is true there."""
