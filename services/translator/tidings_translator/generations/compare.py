"""Compares a generation's shadow topics with the business topics, up to the commit that both have behind them."""

import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import fastavro
import msgspec

from tidings_domain.changes import decode_change_set
from tidings_envelope.registry import RegistryClient
from tidings_envelope.wire import HEADER_BYTES, split
from tidings_service.kafka_access import KafkaAccess
from tidings_translator.base.errors import GenerationError
from tidings_translator.base.naming import group, prefix, shadow_topic
from tidings_translator.base.records import Partition
from tidings_translator.generations.corrections import superseded
from tidings_translator.generations.diff import Comparison, Difference, Notify, Said, said_of
from tidings_translator.generations.generations import Generations
from tidings_translator.kafka.offsets import Offsets
from tidings_translator.kafka.reading import read_partition
from tidings_translator.kafka.topics import Topics
from tidings_translator.ledger.ledger import CUT_KEY, Ledger
from tidings_translator.ledger.records import read_topic

_CHUNK = 2_000


class Comparer:
    """Compares generations of one source.

    Args:
        kafka: the cluster.
        source: the topic prefix.
        registry: where the schemas of Avro values are.
    """

    def __init__(self, kafka: KafkaAccess, source: str, registry: RegistryClient) -> None:
        self._kafka = kafka
        self._source = source
        self._registry = registry
        self._generations = Generations(kafka, source)
        self._topics = Topics(kafka)

    def compare(
        self,
        name: str,
        *,
        examples: int,
        topic: str | None = None,
        notify: Callable[[], Notify] | None = None,
    ) -> tuple[int, list[Difference]]:
        """The differences by business topic, and the commit LSN up to which they were looked for.

        Args:
            name: a generation that has not been discarded.
            examples: how many to keep of each kind and topic.
            topic: only this business topic.
            tell: makes for each topic what gets its differences.

        Raises:
            GenerationError: there is nothing to compare.
        """
        ledger = self._generations.ledger()
        ledger.check_runs(name)
        if name not in ledger.generations:
            raise GenerationError(
                f"generation '{name}' has no shadow topics", hint="compare one that was started with `start`"
            )
        have = self._topics.partitions()
        upto = self._common_position(name, ledger, have)
        differences = []
        for business in self._business_topics(name, ledger, have):
            if topic is None or business == topic:
                comparison = Comparison(
                    business,
                    self._payload,
                    upto=upto,
                    examples=examples,
                    superseded=superseded(self._events(business, have)) if ledger.has_corrections else None,
                    notify=None if notify is None else notify(),
                )
                differences.append(self._compare(comparison, business, name, have))
        return upto, differences

    def _compare(self, comparison: Comparison, business: str, name: str, have: dict[str, int]) -> Difference:
        live = self._events(business, have)
        shadow = self._events(shadow_topic(self._source, name, business), have)
        some = True
        while some:
            some = False
            for side, events in (("live", live), ("shadow", shadow)):
                for _ in range(_CHUNK):
                    said = next(events, None)
                    if said is None:
                        break
                    some = True
                    comparison.take("live" if side == "live" else "shadow", said)
        return comparison.finish()

    def _events(self, topic: str, have: dict[str, int]) -> Iterator[Said]:
        if topic in have:
            for key, value, headers in read_topic(self._kafka, topic, have[topic]):
                yield said_of(topic, key, value, headers)

    def _payload(self, value: bytes) -> dict[str, Any]:
        if value[:1] == b"{":
            document: dict[str, Any] = msgspec.json.decode(value)
            data: dict[str, Any] = document["data"]
            return data
        schema_id, _ = split(value)
        schema = self._registry.schema_by_id(schema_id)
        found = fastavro.schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), schema, None)
        assert isinstance(found, dict)
        return found

    def _business_topics(self, name: str, ledger: Ledger, have: dict[str, int]) -> list[str]:
        own = shadow_topic(self._source, name, "")
        shadows = {topic.removeprefix(own) for topic in have if topic.startswith(own)}
        domain = re.escape(ledger.generations[name].domain)
        published = {topic for topic in have if re.fullmatch(rf"{domain}\.[^.]+\.v\d+", topic)}
        return sorted(shadows | published)

    # --- how far

    def _common_position(self, name: str, ledger: Ledger, have: dict[str, int]) -> int:
        """The last commit LSN that both have evaluated; nothing of the shadow's is published up to there."""
        positions = [self._evaluated(one, have) for one in dict.fromkeys((name, ledger.live))]
        switched = ledger.fact("switched", name)
        if switched is not None:
            positions.append(switched.at)  # from there on its events are the live ones
        return min(positions)

    def _evaluated(self, name: str, have: dict[str, int]) -> int:
        """The commit LSN up to which a generation's events are on their topics."""
        position = self._generations.position(name, have) or 0
        topic = f"{prefix(self._source, name)}.change-sets"
        partitions = [Partition(topic, number) for number in range(have.get(topic, 0))]
        offsets = Offsets(self._kafka, group("translator", self._source, name))
        try:
            # The position was read first, so that its change sets are below these ends.
            ends = offsets.ends(partitions)
            committed = offsets.committed(partitions)
        finally:
            offsets.close()
        for partition in partitions:
            if committed[partition] < ends[partition]:
                waiting = self._next_commit(partition, committed[partition], ends[partition])
                if waiting is not None:
                    position = min(position, waiting - 1)
        return position

    def _next_commit(self, partition: Partition, start: int, end: int) -> int | None:
        """The commit LSN of the first change set from offset `start` on; None if only control records follow."""
        for key, value, _ in read_partition(self._kafka, partition, end, start=start):
            if key is not None and value is not None and key != CUT_KEY:
                return decode_change_set(value).commit_lsn
        return None
