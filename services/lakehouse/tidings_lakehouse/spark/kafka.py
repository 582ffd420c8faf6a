"""What the job asks the brokers itself, through the Kafka client that Spark's source brings. The only module that does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JJavaError

from tidings_lakehouse.errors import DataLossError, KafkaRefusedError, KafkaUnreachableError, LakehouseError
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_service.kafka_access import KafkaAccess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

Offsets = dict[str, dict[str, int]]
"""By topic and partition; partitions as text, as in Spark's JSON."""

_REFUSALS = ("SaslAuthenticationException", "SslAuthenticationException", "IllegalSaslStateException")
_RIGHTS = ("TopicAuthorizationException", "GroupAuthorizationException", "ClusterAuthorizationException")
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A property of the JVM without which Kafka's client asks no token endpoint."""
_BATCH = {"groupIdPrefix": "spark-kafka-source-tidings"}
"""Of readers that are no query's: one right, to groups of this prefix, is enough for both."""
_UNKNOWN_TOPIC = "UnknownTopicOrPartitionException"
_TIMEOUT_MILLISECONDS = 10_000
_FIRST_TIMEOUT_MILLISECONDS = 20_000
"""A JVM that has just started on a busy machine has all of the client's classes to load before it can ask."""


class Brokers:
    """Questions to the cluster at `bootstrap`; raises KafkaUnreachableError when it does not answer."""

    def __init__(self, session: SparkSession, login: KafkaLogin) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to the client's classes
        self._jvm = jvm
        kafka = jvm.org.apache.kafka
        # Every dot costs py4j a search through all jars.
        self._admin = kafka.clients.admin.Admin
        self._topic_partition = kafka.common.TopicPartition
        self._latest = kafka.clients.admin.OffsetSpec.latest()
        self._earliest = kafka.clients.admin.OffsetSpec.earliest()
        self._committed = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)
        self._login = login
        if login.kafka.oauth is not None:
            jvm.java.lang.System.setProperty(_ALLOWED_URLS, login.kafka.oauth.endpoint)
        self._ids: dict[str, str] = {}

    def check(self) -> None:
        """See that a broker answers."""
        self._ask(lambda admin: admin.describeCluster().nodes().get(), _FIRST_TIMEOUT_MILLISECONDS)

    def refusal(self, topics: Iterable[str]) -> LakehouseError | None:
        """What the brokers have against this user's reading topics that he names: the list of topics leaves out what he may
        not see, as if it were not there. None when he may, whether they are there or not."""

        def look(admin: Any) -> LakehouseError | None:
            for topic in topics:
                try:
                    self._described(admin, [topic])
                except Py4JJavaError as error:
                    if _RIGHTS[0] in str(error):
                        return _lacks(self._login.kafka, f"Read on topic {topic}: {_RIGHTS[0]}")
            return None

        return cast("LakehouseError | None", self._ask(look, _FIRST_TIMEOUT_MILLISECONDS))

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The id of each topic's present incarnation; asked for once per start and topic.

        A topic that is deleted and made again while the query runs ends the query (offsets go back), so an id cannot
        go stale within one run.

        Raises:
            DataLossError: a topic has been deleted.
        """
        missing = [topic for topic in topics if topic not in self._ids]
        if missing:
            self._ids |= self._ask(
                lambda admin: {
                    topic: str(description.topicId())
                    for topic, description in self._described(admin, missing)
                }
            )
        return self._ids

    def has(self, topic: str) -> bool:
        """Whether there is a topic of that name."""
        return topic in self._ask(lambda admin: set(map(str, _items(admin.listTopics().names().get()))))

    def sees(self, pattern: str) -> bool:
        """Whether a topic that this user may see matches as a whole."""
        matching = re.compile(pattern)
        return bool(self._ask(lambda admin: self._matching(admin, matching), _FIRST_TIMEOUT_MILLISECONDS))

    def ends(self, pattern: str) -> Offsets:
        """The ends of all topics that match as a whole, as a reader of committed records sees them."""
        return cast(Offsets, self._ask(lambda admin: self._ends(admin, re.compile(pattern))))

    def ends_of(self, topics: Iterable[str]) -> Offsets:
        """The same of topics that are named.

        Raises:
            DataLossError: a topic has been deleted.
        """
        names = list(topics)
        return cast(Offsets, self._ask(lambda admin: self._offsets(admin, names, self._latest)))

    def begins_of(self, topics: Iterable[str]) -> Offsets:
        """The first offsets that topics still have; errors as for `ends_of`."""
        names = list(topics)
        return cast(Offsets, self._ask(lambda admin: self._offsets(admin, names, self._earliest)))

    def _ends(self, admin: Any, pattern: re.Pattern[str]) -> Offsets:
        return self._offsets(admin, self._matching(admin, pattern), self._latest)

    def _matching(self, admin: Any, pattern: re.Pattern[str]) -> list[str]:
        names = map(str, _items(admin.listTopics().names().get()))
        return [name for name in names if pattern.fullmatch(name)]

    def _offsets(self, admin: Any, topics: list[str], which: Any) -> Offsets:
        if not topics:
            return {}
        asked, partitions = self._jvm.java.util.HashMap(), []
        for name, description in self._described(admin, topics):
            for number in range(description.partitions().size()):
                partition = self._topic_partition(name, number)
                asked.put(partition, which)
                partitions.append((name, str(number), partition))
        found = admin.listOffsets(asked, self._committed).all().get()
        offsets: Offsets = {}
        for name, number_, partition in partitions:
            offsets.setdefault(name, {})[number_] = int(found[partition].offset())
        return offsets

    def _described(self, admin: Any, topics: list[str]) -> list[tuple[str, Any]]:
        found = admin.describeTopics(self._list(topics)).allTopicNames().get()
        return [(topic, found[topic]) for topic in topics]

    def _list(self, items: Iterable[str]) -> Any:
        result = self._jvm.java.util.ArrayList()
        for item in items:
            result.add(item)
        return result

    def _ask(self, question: Any, milliseconds: int = _TIMEOUT_MILLISECONDS) -> Any:
        properties = self._jvm.java.util.Properties()
        for name, value in self._login.settings().items():
            properties.setProperty(name, value)
        properties.setProperty("request.timeout.ms", str(milliseconds))
        properties.setProperty("default.api.timeout.ms", str(milliseconds))
        try:
            admin = self._admin.create(properties)
            try:
                return question(admin)
            finally:
                admin.close()
        except Py4JJavaError as error:
            if _UNKNOWN_TOPIC in str(error.java_exception.toString()):
                raise DataLossError("a topic has been deleted before it was read to its end") from error
            kafka = self._login.kafka
            raise explained(kafka, str(error)) or unreachable(kafka.bootstrap) from error


def _items(collection: Any) -> list[Any]:
    """A Java set as a list; iterating it would end with an exception that pyspark examines at length."""
    return list(collection.toArray())


def unreachable(bootstrap: str) -> KafkaUnreachableError:
    """The error for brokers that do not answer."""
    return KafkaUnreachableError(
        f"TIDINGS_KAFKA: the brokers at {bootstrap} do not answer",
        hint="check the address and that the brokers run; nothing was skipped, the job goes on where it stopped",
    )


def explained(kafka: KafkaAccess, text: str) -> LakehouseError | None:
    """The error for what Kafka's Java client has said in `text`; None when that is not known.

    Its exceptions are told apart by their names: they come wrapped, by Spark in a text only.
    """
    for mark in _REFUSALS:
        if mark in text:
            return KafkaRefusedError(
                f"the brokers at {kafka.bootstrap} refuse {kafka.principal}: {_reason(mark, text)}",
                hint=f"{kafka.login_settings}, TIDINGS_KAFKA_SECURITY_PROTOCOL",
            )
    for mark in _RIGHTS:
        if mark in text:
            return _lacks(kafka, f"a right: {_reason(mark, text)}")
    if "org.apache.kafka" in text and ("Timeout" in text or "timed out" in text):
        return unreachable(kafka.bootstrap)
    return None


def _lacks(kafka: KafkaAccess, what: str) -> KafkaRefusedError:
    return KafkaRefusedError(
        f"{kafka.principal} lacks {what}", hint="docs/security.md lists the ACLs that the lakehouse needs"
    )


def _reason(mark: str, text: str) -> str:
    """What the exception says, up to the end of its line."""
    found = re.search(rf"{mark}:? *([^\n]*)", text)
    return f"{mark}: {found[1]}" if found and found[1] else mark


def read_topics(session: SparkSession, login: KafkaLogin, pattern: str, max_records: int) -> DataStreamReader:
    """A streaming reader of all topics that match as a whole, new ones included, committed records only, from the beginning."""
    reader = session.readStream.format("kafka").options(**_options(login))
    return (
        # Spark takes a topic whose name contains a match: a shadow topic of a generation, or source myshop for shop.
        reader.option("subscribePattern", f"^(?:{pattern})$")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(max_records))
    )


def read_range(
    session: SparkSession, login: KafkaLogin, topic: str, starts: Mapping[str, int], stops: Mapping[str, int]
) -> DataFrame:
    """The committed records of a topic from some offsets on and before others, by partition; both name all partitions."""
    reader = session.read.format("kafka").options(**_options(login) | _BATCH).option("subscribe", topic)
    return (
        reader.option("startingOffsets", json.dumps({topic: dict(starts)}))
        .option("endingOffsets", json.dumps({topic: dict(stops)}))
        .load()
    )


def read_all(session: SparkSession, login: KafkaLogin, topic: str) -> DataFrame:
    """All committed records of a topic that is compacted."""
    reader = session.read.format("kafka").options(**_options(login) | _BATCH | {"failOnDataLoss": "false"})
    return reader.option("subscribe", topic).load()


def _options(login: KafkaLogin) -> dict[str, str]:
    return {
        # Only what is there is read. Behind each fetch the client asks for more at once, and Spark then for the partition's ends:
        # the broker answers in turn, so a batch would wait half a second for each partition in which nothing follows.
        "kafka.fetch.max.wait.ms": "10",
        **{f"kafka.{name}": value for name, value in login.settings().items()},
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.request.timeout.ms": "15000",
        "kafka.default.api.timeout.ms": "20000",
        "fetchOffset.numRetries": "2",
    }


def lags(read: Offsets, ends: Offsets) -> dict[str, int]:
    """Records per topic that stand behind what has been read; of a topic that has not been read, all."""
    return {
        topic: sum(max(0, end - read.get(topic, {}).get(number, 0)) for number, end in partitions.items())
        for topic, partitions in ends.items()
    }
