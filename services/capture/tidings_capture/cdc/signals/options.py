"""The options of signals, incremental snapshots and notifications, typed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidings_capture.cdc.sql_fragment import enclosed
from tidings_connect.kafka.settings import translate_client_settings

_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
SIGNAL_CONSUMER: Final = "signal.consumer."
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
    enclose: Callable[[str], str] = enclosed
    """Makes SQL of a signal's fit to stand between parentheses, by the database's lexical rules; raises ValueError."""
    brief: bool = False
    """Whether notifications tell what Debezium 3.5 tells: no DATA_COLLECTIONS_RESOLVED, no counts of chunks and of all rows."""


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


def read_signal_options(
    config: Mapping[str, str],
    text: Callable[[str], str],
    number: Callable[[str], int],
    prefix: str,
    *,
    enclose: Callable[[str], str] = enclosed,
    brief: bool = False,
) -> SignalOptions:
    """The options of a configuration.

    Args:
        text: an option's value, or its default.
        number: the same of a whole number, of which an empty value is none.
        prefix: ``topic.prefix``.
        enclose: see `SignalOptions`; so does `brief`.

    Raises:
        ValueError: the signal table is not named as one.
        WorkerConfigError: a setting of the topic's consumer cannot be used; by name.
    """
    kafka = {"group.id": text("signal.kafka.groupId")}
    if config.get("signal.kafka.bootstrap.servers"):
        kafka["bootstrap.servers"] = text("signal.kafka.bootstrap.servers")
    own = {n.removeprefix(SIGNAL_CONSUMER): v for n, v in config.items() if n.startswith(SIGNAL_CONSUMER)}
    return SignalOptions(
        table=table_name(text("signal.data.collection")),
        channels=_names(text("signal.enabled.channels")),
        file=text("signal.file"),
        kafka_topic=text("signal.kafka.topic") or f"{prefix}-signal",
        kafka_settings={**kafka, **translate_client_settings(own, SIGNAL_CONSUMER)},
        poll_seconds=number("signal.poll.interval.ms") / 1000,
        chunk_rows=number("incremental.snapshot.chunk.size"),
        close_by_delete=text("incremental.snapshot.watermarking.strategy").lower() == "insert_delete",
        read_only=text("read.only").lower() == "true",
        notifications=_names(text("notification.enabled.channels")),
        notification_topic=text("notification.sink.topic.name"),
        enclose=enclose,
        brief=brief,
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip().lower() for part in text.split(",") if part.strip())
