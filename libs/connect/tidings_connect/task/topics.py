"""The topics of a task: which may be written to, which exist, and making those that do not."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from tidings_connect.errors import BrokerError
from tidings_connect.kafka.topic_bounds import TopicBounds
from tidings_connect.kafka.topic_creation import TopicCreation, TopicGroup
from tidings_service import get_logger

_TOPICS_AT_ONCE: Final = 50
"""Topics in one request: with fifty partitions each the broker's controller takes some hundreds."""
_FOUND_SECONDS: Final = 60.0
"""How long a topic counts as existing that was found at the start: somebody may delete it."""

_log = get_logger(__name__)


class TopicMaker(Protocol):
    """What creates topics."""

    def topics(self) -> set[str]:
        """Those that exist."""
        ...

    def create_topics(self, topics: Mapping[str, TopicGroup]) -> set[str]:
        """Ask for many in one request; those that exist then."""
        ...

    def ensure_topic(
        self, name: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]
    ) -> object:
        """Create one unless it exists, or say why not."""
        ...


class TaskTopics:
    """Sees to the topics of one run of a task.

    Args:
        maker: creates them; None where the worker's ``topic.creation.enable`` does not allow it.
        creation: the connector's settings for new topics.
        bounds: says which topics no record may go to.
        on_wait: called between requests; may raise to give up.
    """

    def __init__(
        self,
        maker: TopicMaker | None,
        creation: TopicCreation,
        bounds: TopicBounds,
        on_wait: Callable[[], None],
    ) -> None:
        self._maker = maker
        self._creation = creation
        self._bounds = bounds
        self._on_wait = on_wait
        self._topics: set[str] = set()
        """Topics that were seen to, in this run."""
        self._found_topics: set[str] = set()
        self._found_until = 0.0

    def find(self) -> None:
        """Learn in one request which topics exist, so that not each of them is asked for when its first record comes."""
        if self._maker is not None:
            self._found_topics = self._maker.topics()
            self._found_until = time.monotonic() + _FOUND_SECONDS

    def prepare(self, topics: Iterable[str]) -> None:
        """Create many topics in a few requests.

        Raises:
            TopicError: no record may go to one of them.
        """
        if self._maker is None:
            return
        missing = sorted(topic for topic in set(topics) if not self._exists(topic))
        for topic in missing:
            self._bounds.check(topic)
        for start in range(0, len(missing), _TOPICS_AT_ONCE):
            some = {topic: self._creation.group(topic) for topic in missing[start : start + _TOPICS_AT_ONCE]}
            self._topics |= self._maker.create_topics(some)
            self._on_wait()
        for topic in missing:  # what was refused is refused once more, with its reason
            self.ensure(topic)

    def _exists(self, topic: str) -> bool:
        if topic in self._topics:
            return True
        if self._found_topics and time.monotonic() > self._found_until:
            self._found_topics = set()
        return topic in self._found_topics

    def ensure(self, topic: str) -> None:
        """Create a topic unless it exists, where the worker allows it.

        Raises:
            TopicError: no record may go there.
        """
        self._bounds.check(topic)
        if self._maker is None or self._exists(topic):
            return
        group = self._creation.group(topic)
        try:
            self._maker.ensure_topic(
                topic,
                partitions=group.partitions,
                replication_factor=group.replication_factor,
                config=group.config,
            )
        except BrokerError as error:
            if "AUTHORIZATION" not in str(error):
                raise
            # The topic may exist, or the broker may create it: the first record will tell.
            _log.warning("may not create topics", topic=topic, reason=str(error))
        self._topics.add(topic)
