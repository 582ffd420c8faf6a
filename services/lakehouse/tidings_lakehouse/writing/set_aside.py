"""`tidings.set_aside`: topics that cannot be written, from which offsets on, since when and why.

A topic is set aside when its own trouble stops it: the other topics go on, and its rows are left out. The offsets that it has
to be read from are kept in the table, so nothing of it is skipped. It is tried again when a job starts and then ever more
rarely, in parts of a batch's size; when it has come to its end it is one of the others again. What is read twice that way
changes nothing, since a table's offsets guard it. What is not on the topic any more is skipped when a person has accepted its
loss (`accepted_losses`).

That the note can be written tells that catalog and storage are there: if it cannot, the failure was not the topic's.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.batches import TopicSurvey
from tidings_lakehouse.metrics import SET_ASIDE
from tidings_lakehouse.spark.kafka import Brokers, Offsets, read_range
from tidings_lakehouse.spark.kafka_login import KafkaLogin
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.tables import Table, frame_of
from tidings_lakehouse.tables.troubles import Trouble, trouble_of_topic
from tidings_lakehouse.topics import SET_ASIDE_TABLE
from tidings_lakehouse.writing.losses import Loss, accepted_losses
from tidings_service import get_logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = get_logger("tidings_lakehouse.writing.set_aside")
_FIRST_PAUSE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 3600.0
SCHEMA = st.StructType(
    [
        st.StructField("stream", st.StringType()),
        st.StructField("topic", st.StringType()),
        st.StructField("topic_id", st.StringType()),
        st.StructField("offsets", st.StringType()),
        st.StructField("code", st.StringType()),
        st.StructField("reason", st.StringType()),
        st.StructField("since", st.TimestampType()),
        st.StructField("attempts", st.LongType()),
    ]
)

R = TypeVar("R")


@dataclass(frozen=True)
class Aside:
    """A topic that is set aside."""

    topic: str
    topic_id: str
    offsets: Mapping[str, int]
    """By partition, the first offset that is not in its tables; of a partition that is not named, everything is to be read."""
    trouble: Trouble
    since: str
    """ISO 8601."""
    attempts: int = 1


class SetAside:
    """The topics of one stream that are set aside; kept in the table, in one commit for each change."""

    def __init__(self, session: SparkSession, stream: str, commits: Commits) -> None:
        self._session = session
        self._stream = stream
        self._table = Table(session, SET_ASIDE_TABLE, "", commits)
        self._lock = threading.RLock()  # several topics may fail at once
        self._topics = {aside.topic: aside for owner, aside in asides(session) if owner == stream}
        self._due = dict.fromkeys(self._topics, 0.0)
        """By topic, the moment from which it is tried again."""
        for aside in self._topics.values():
            SET_ASIDE.labels(aside.topic, aside.trouble.code).set(1)
        accepted_losses(session)  # told also when none of their topics is set aside any more

    def __bool__(self) -> bool:
        return bool(self._topics)

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def offsets(self) -> Offsets:
        """From where each topic has to be read."""
        return {topic: dict(aside.offsets) for topic, aside in tuple(self._topics.items())}

    def attempt(
        self,
        topic: str,
        topic_id: Callable[[], str],
        offsets: Callable[[], Mapping[str, int]],
        action: Callable[[], R],
    ) -> R | None:
        """Do something for one topic; what fails by its own trouble sets it aside, and gives None.

        Args:
            topic: which is not set aside.
            topic_id: gives that of its present incarnation.
            offsets: gives the offsets that it has to be read from if it fails.
            action: raises what is the trouble of everything, and of nothing else.
        """
        try:
            return action()
        except Exception as error:
            trouble = trouble_of_topic(error)
            if trouble is None:
                raise
            now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
            self._put(Aside(topic, topic_id(), dict(offsets()), trouble, now))
            return None

    def due(self) -> list[Aside]:
        """Topics that it is time to try again."""
        now = time.monotonic()
        return [aside for topic, aside in tuple(self._topics.items()) if self._due.get(topic, 0.0) <= now]

    def failed(self, aside: Aside, trouble: Trouble) -> None:
        """It was tried again in vain."""
        self._put(replace(aside, trouble=trouble, attempts=aside.attempts + 1))

    def came_to(self, aside: Aside, topic_id: str, offsets: Mapping[str, int]) -> None:
        """Everything before some offsets is in its tables now."""
        self._topics[aside.topic] = replace(aside, topic_id=topic_id, offsets=dict(offsets))
        self._write()

    def rejoin(self, topic: str) -> None:
        """It has come to its end."""
        self._forget_metric(topic)
        del self._topics[topic], self._due[topic]
        self._write()
        _LOG.info("a topic that was set aside has been caught up", topic=topic)

    def _put(self, aside: Aside) -> None:
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(aside.attempts - 1, 10))
        with self._lock:
            self._forget_metric(aside.topic)
            self._topics[aside.topic] = aside
            self._due[aside.topic] = time.monotonic() + pause
            self._write()
        SET_ASIDE.labels(aside.topic, aside.trouble.code).set(1)
        _LOG.error(
            "a topic is set aside: the others go on, and nothing of it is skipped",
            topic=aside.topic,
            code=aside.trouble.code,
            reason=aside.trouble.reason,
            attempts=aside.attempts,
            again_seconds=round(pause),
        )

    def _forget_metric(self, topic: str) -> None:
        if (known := self._topics.get(topic)) is not None:
            SET_ASIDE.remove(topic, known.trouble.code)

    def _write(self) -> None:
        self._table.ensure(SCHEMA, partitioned_by=["stream"])
        rows = [
            {
                "stream": self._stream,
                "topic": one.topic,
                "topic_id": one.topic_id,
                "offsets": json.dumps(one.offsets),
                "code": one.trouble.code,
                "reason": one.trouble.reason,
                "since": one.since,
                "attempts": one.attempts,
            }
            for one in self._topics.values()
        ]
        frame = frame_of(self._session, rows, SCHEMA)
        self._table.write(lambda name: frame.writeTo(name).overwrite(sf.col("stream") == self._stream))


def asides(session: SparkSession) -> list[tuple[str, Aside]]:
    """All topics that are set aside, each with its stream."""
    if not session.catalog.tableExists(SET_ASIDE_TABLE):
        return []
    return [(row["stream"], _aside(row)) for row in session.table(SET_ASIDE_TABLE).collect()]


def _aside(row: st.Row) -> Aside:
    since = row["since"].astimezone(dt.UTC).isoformat(timespec="microseconds")
    trouble = Trouble(row["code"], row["reason"])
    return Aside(
        row["topic"], row["topic_id"], json.loads(row["offsets"]), trouble, since, int(row["attempts"])
    )


def first_offsets(survey: TopicSurvey | None, read: Mapping[str, int]) -> dict[str, int]:
    """From where a topic has to be read when its part of a batch was not written.

    Args:
        survey: of its part of the batch; None when it has none.
        read: by partition, up to where the batch reads.
    """
    surveyed = {} if survey is None else {str(number): first for number, (first, _) in survey.offsets.items()}
    return {**read, **surveyed}


@dataclass(frozen=True)
class Missed:
    """A part of what a topic has missed."""

    topic: str
    topic_id: str
    stops: Mapping[str, int]
    """By partition, the offset that it ends before."""


Write = Callable[["SparkSession", DataFrame, Missed], None]
"""Writes records of a topic as a batch would; raises what goes wrong."""


class CatchUp:
    """Reads what the topics that are set aside have missed, and writes it as a batch would."""

    def __init__(
        self, session: SparkSession, aside: SetAside, brokers: Brokers, login: KafkaLogin, most: int
    ) -> None:
        """
        Args:
            login: to the brokers.
            most: records that are read at once.
        """
        self._session = session
        self._aside = aside
        self._brokers = brokers
        self._login = login
        self._most = most

    def step(self, write: Write) -> bool:
        """Read one part of every topic that is due; gives whether any has come to its end.

        To be called while the stream writes no batch. Everything on the topic up to now is read, at least as far as any batch
        has left it out, so that the stream goes on behind it without a gap.
        """
        has_rejoined = False
        for aside in self._aside.due():
            try:
                has_rejoined = self._step(aside, write) or has_rejoined
            except Exception as error:
                trouble = trouble_of_topic(error)
                if trouble is None:
                    raise
                self._aside.failed(aside, trouble)
        return has_rejoined

    def _step(self, aside: Aside, write: Write) -> bool:
        topic = aside.topic
        accepted = _accepted(accepted_losses(self._session), topic)
        if None in accepted.get(aside.topic_id, {}).values() and not self._brokers.has(topic):
            _LOG.warning("a topic has been deleted, and the loss of what it had is accepted", topic=topic)
            self._aside.rejoin(topic)
            return True
        topic_id = self._brokers.topic_ids([topic])[topic]
        ends = self._brokers.ends_of([topic])[topic]
        # A topic that was made again has nothing of the former one's offsets.
        known = aside.offsets if aside.topic_id == topic_id else {}
        begins = self._brokers.begins_of([topic])[topic]
        starts = {number: known.get(number, begins[number]) for number in ends}
        behind = {
            number: max(start, accepted.get(topic_id, {}).get(number) or 0)
            for number, start in starts.items()
        }
        if behind != starts:
            _LOG.warning(
                "records are skipped whose loss is accepted", topic=topic, known=starts, skipped_to=behind
            )
            starts = behind
        share = max(1, self._most // max(1, len(ends)))
        stops = {
            number: max(starts[number], min(end, starts[number] + share)) for number, end in ends.items()
        }
        if stops != starts:
            session = self._session.newSession()
            records = read_range(session, self._login, topic, starts, stops)
            write(session, records, Missed(topic, topic_id, stops))
        if any(stops[number] < end for number, end in ends.items()):
            self._aside.came_to(aside, topic_id, stops)
            return False
        self._aside.rejoin(topic)
        return True


def _accepted(losses: Iterable[Loss], topic: str) -> dict[str, dict[str, int | None]]:
    """By the id of the topic's incarnation and by partition, the offset behind a loss that is accepted; None: all of it is."""
    found: dict[str, dict[str, int | None]] = {}
    for one in losses:
        if one.topic == topic:
            found.setdefault(one.topic_id, {})[str(one.partition)] = one.next
    return found
