"""How large a request's body may be: Kafka Connect takes any, and fails where the configuration does not fit into a record."""

from typing import Final

from tidings_connect.config.worker import WorkerConfig
from tidings_connect.kafka.producer import LARGEST_RECORD_BYTES

_WORDY: Final = 8
"""A body is at most so many times longer than what is stored of it: six characters for one (``\\u0061``), and spaces."""


def most_bytes(worker: WorkerConfig) -> int:
    """Bytes of a body that can still be a record of the config topic; a larger one is answered 413."""
    own = worker.common_client().get("message.max.bytes", "")  # max.request.size
    return _WORDY * max(LARGEST_RECORD_BYTES, int(own) if own.isdigit() else 0)
