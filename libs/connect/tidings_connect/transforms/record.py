"""What a transform gets and gives: records with values and schemas, before any converter has seen them.

Values are Python's: a struct is a dict by field name (every field is there), an array a list, a map a dict, bytes are
`bytes`, a Connect Decimal is a `decimal.Decimal`, and Connect's Date, Time and Timestamp are the integers that they
are stored as. Keys and values belong to whoever made them: a transform copies what it changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from tidings_connect.data.errors import DataError
from tidings_connect.transforms.config import ConfigSpec, Settings
from tidings_envelope.schema import ConnectSchema

__all__ = ["DataError", "Header", "Predicate", "SourceRecord", "Transform"]


class Header(NamedTuple):
    """A record header."""

    key: str
    schema: ConnectSchema | None
    value: Any
    encoded: bytes | None = None
    """How the header arrived; it leaves like that unless a transform makes a new one."""


class SourceRecord(NamedTuple):
    """Kafka Connect's ``SourceRecord``."""

    topic: str
    partition: int | None
    """None: the producer chooses by the key."""
    key_schema: ConnectSchema | None
    key: Any
    value_schema: ConnectSchema | None
    """None for a tombstone, and for values without a schema."""
    value: Any
    timestamp: int | None
    """Milliseconds since the Unix epoch; None: when it is produced."""
    headers: list[Header]
    """In order. A delete and its tombstone begin with one list: Debezium's transforms append to it (`ExtractNewRecordState`
    for one), and so what they add to the delete, the tombstone has too, as in Kafka Connect. The methods here copy it."""
    offset: int | None = None
    """Of a sink's record: where it stands in its partition. A source's has none."""

    def with_key(self, schema: ConnectSchema | None, key: Any) -> "SourceRecord":
        """The same with another key."""
        return self._replace(key_schema=schema, key=key, headers=self.headers.copy())

    def with_value(self, schema: ConnectSchema | None, value: Any) -> "SourceRecord":
        """The same with another value."""
        return self._replace(value_schema=schema, value=value, headers=self.headers.copy())

    def with_topic(self, topic: str) -> "SourceRecord":
        """The same for another topic."""
        return self._replace(topic=topic, headers=self.headers.copy())

    def with_headers(self, headers: list[Header]) -> "SourceRecord":
        """The same with a list of headers of its own."""
        return self._replace(headers=headers)


class Transform(ABC):
    """The base class of all transforms, one's own included.

    A class that says what options it takes (`CONFIG`) gets them checked and typed; one that does not gets all of
    them as text. Raise `DataError` or any other exception for a record that cannot be transformed: the task stops,
    and says which transform it was and where the record stands.
    """

    CONFIG: ClassVar[ConfigSpec | None] = None

    def __init__(self, settings: Settings) -> None:
        """
        Args:
            settings: ``transforms.<alias>.*`` without that prefix.

        Raises:
            SettingError: an option is missing or wrong.
        """
        self.settings = settings

    @abstractmethod
    def apply(self, record: SourceRecord) -> SourceRecord | None:
        """The record to go on with; None drops it."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """The task ends."""


class Predicate(ABC):
    """The base class of predicates; options as a transform's."""

    CONFIG: ClassVar[ConfigSpec | None] = None

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def test(self, record: SourceRecord) -> bool:
        """Whether a transform with this predicate is applied."""


Config = Mapping[str, str]
