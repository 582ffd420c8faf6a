"""What is compared of events."""

from __future__ import annotations

from typing import Any

from tidings_lakehouse.replay.run import Replayed
from tidings_translator.base.records import Output


def bytes_of(found: Replayed) -> set[tuple[Any, ...]]:
    """What is published of each event."""
    return {
        (
            row["topic"],
            row["id"].encode(),
            bytes(row["body"]),
            tuple((one["key"], bytes(one["value"])) for one in row["headers"]),
        )
        for row in found.events.collect()
    }


def published(outputs: list[Output]) -> set[tuple[Any, ...]]:
    return {(one.topic, one.key, one.value, tuple(one.headers or ())) for one in outputs}
