"""Business events whose version ends say so in their headers (CloudEvents' ``deprecated`` extension): said once for a topic."""

from collections.abc import Sequence
from typing import Final

from tidings_connect.task.sink import SinkRecord
from tidings_connect.transforms.record import Header
from tidings_service import get_logger

_PREFIX: Final = "ce_deprecat"

_log = get_logger(__name__)


class Deprecations:
    """What one task has said."""

    def __init__(self) -> None:
        self._topics: set[str] = set()

    def look_at_all(self, batch: Sequence[SinkRecord]) -> None:
        """`look` at records, of which many have the headers of the one before them."""
        headers: list[Header] = []
        topic = ""
        for record in batch:
            if record.headers != headers or record.original.topic != topic:
                headers, topic = record.headers, record.original.topic
                self.look(record)

    def look(self, record: SinkRecord) -> None:
        """Log a topic's first record that says that its version ends."""
        if record.headers:
            self.look_at_headers(record.original.topic, [record.headers])

    def look_at_headers(self, topic: str, given: Sequence[Sequence[Header]]) -> None:
        """The same of the headers of a topic's records."""
        if topic in self._topics:
            return
        for headers in given:
            said = {header.key: header.value for header in headers if header.key.startswith(_PREFIX)}
            if said.get("ce_deprecated") in (True, "true"):
                self._topics.add(topic)
                _log.warning(
                    "events of a topic are deprecated",
                    topic=topic,
                    ends=str(said.get("ce_deprecationsunset", "")),
                    see=str(said.get("ce_deprecationmigration", "")),
                )
                return
