"""The options of signals, incremental snapshots and notifications, typed."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SignalOptions:
    """``signal.*``, ``incremental.snapshot.*``, ``read.only`` and ``notification.*``."""

    table: tuple[str, str] | None = None
    """``signal.data.collection``: schema and name of the table whose new rows are signals."""
    channels: frozenset[str] = frozenset({"source"})
    """``signal.enabled.channels``: ``source``, ``kafka``, ``file``."""
    file: str = "file-signals.txt"
    kafka_topic: str = ""
    kafka_settings: dict[str, str] = field(default_factory=dict, repr=False)
    """librdkafka's, for the topic's consumer; they come after the worker's own."""
    poll_seconds: float = 5.0
    """How often file and topic are looked at."""
    chunk_rows: int = 1024
    close_by_delete: bool = False
    """``incremental.snapshot.watermarking.strategy=insert_delete``: a window ends with the deletion of its row."""
    read_only: bool = False
    """``read.only``: nothing is written to the database; watermarks are positions in its WAL."""
    notifications: frozenset[str] = frozenset()
    """``notification.enabled.channels``: ``log``, ``sink``."""
    notification_topic: str = ""


def table_name(text: str) -> tuple[str, str] | None:
    """``schema.table``, with or without the database before it.

    Raises:
        ValueError: it is neither.
    """
    if not text:
        return None
    parts = text.split(".")
    if len(parts) not in {2, 3} or not all(parts):
        raise ValueError("must be schema.table")
    return parts[-2], parts[-1]
