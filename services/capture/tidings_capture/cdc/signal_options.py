"""The options of signals, incremental snapshots and notifications, typed."""

import re
from dataclasses import dataclass, field
from typing import Final

_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
_NAME: Final = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern})){{1,2}}")


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
    """``schema.table``, with or without the database before it; each may stand in double quotes.

    Raises:
        ValueError: it is neither.
    """
    if not text:
        return None
    if "," in text:
        raise ValueError("For single task connector only one signal data collection is permitted.")
    if not _NAME.fullmatch(text):
        raise ValueError("must be schema.table")
    parts = [plain or quoted.replace('""', '"') for quoted, plain in _PART.findall(text)]
    return parts[-2], parts[-1]
