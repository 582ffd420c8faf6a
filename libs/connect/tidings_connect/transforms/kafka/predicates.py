"""Kafka's three predicates."""

from tidings_connect.java.regex import compile_java, regex_problem
from tidings_connect.transforms.config import ConfigSpec, Setting, Settings
from tidings_connect.transforms.record import Predicate, SourceRecord


def _not_empty(text: str) -> str | None:
    return None if text else "String must be non-empty"


class TopicNameMatches(Predicate):
    """The whole topic's name matches a regular expression."""

    CONFIG = ConfigSpec(
        Setting("pattern", required=True, check=lambda text: _not_empty(text) or regex_problem(text))
    )

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._matches = compile_java(settings.text("pattern")).matches

    def test(self, record: SourceRecord) -> bool:
        """See `Predicate.test`."""
        return self._matches(record.topic)


class HasHeaderKey(Predicate):
    """There is a header of that name."""

    CONFIG = ConfigSpec(Setting("name", required=True, check=_not_empty))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._name = settings.text("name")

    def test(self, record: SourceRecord) -> bool:
        """See `Predicate.test`."""
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone(Predicate):
    """The value is null."""

    CONFIG = ConfigSpec()

    def test(self, record: SourceRecord) -> bool:
        """See `Predicate.test`."""
        return record.value is None
