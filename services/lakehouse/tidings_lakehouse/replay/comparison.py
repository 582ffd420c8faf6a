"""Compares replayed events with the published ones in the lake, by their ids.

Both are compared as rows of the event's table: the replayed bytes are decoded by the same decoder, with the domain's contract.
So an equal event has the same id, attributes and values; the frame's schema id, which the registry gives, is not part of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_domain.evaluation.cloudevents import source_of
from tidings_domain.language.events import BusinessEvent, contract_of, topic_of
from tidings_domain.loading.domain import Domain
from tidings_lakehouse.decoding.batches import union
from tidings_lakehouse.decoding.events import EventDecoder, check_event, event_schema
from tidings_lakehouse.decoding.schemas import Planner
from tidings_lakehouse.tables.names import candidates, known_names
from tidings_lakehouse.tables.tables import evolve, quoted
from tidings_lakehouse.topics import BUSINESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA_ID = 1
_FRAME = b"\0" + _SCHEMA_ID.to_bytes(4, "big")
_PLACES = frozenset({"__topic_id", "__partition_no", "__offset", "__timestamp", "__schema_id"})
_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
STATES = ("equal", "missing", "extra", "different")


@dataclass(frozen=True)
class Compared:
    """One version of one event.

    Attributes:
        event: its topic.
        counts: by state: ``equal``; ``missing``: replayed and not published; ``extra``: published and not replayed;
            ``different``: one id and other values; ``told``: one of the last three, of an aggregate of which the replay has
            said that it does not know it exactly.
        examples: ids of events by state, some of each but ``equal``.
    """

    event: str
    counts: dict[str, int]
    examples: dict[str, list[str]]

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs but what was told."""
        return not any(self.counts[state] for state in STATES[1:])


class _Contracts:
    """A `SchemaSource` with the contract of one event version."""

    def __init__(self, event: type[BusinessEvent]) -> None:
        self._contract = contract_of(event)

    def close(self) -> None:
        """Nothing is open."""

    def check(self) -> None:
        """It is there."""

    def by_id(self, _schema_id: int) -> Any | None:
        return self._contract

    def latest(self, _subject: str) -> Any | None:
        return self._contract

    def age(self, schema_id: int) -> tuple[int, int]:
        return 0, schema_id

    def missing(self, _schema_id: int) -> str:
        return "there is no such contract"


def compare(
    session: SparkSession,
    replayed: DataFrame,
    domain: Domain,
    until: int,
    *,
    snapshot: int | None = None,
    examples: int = 5,
) -> list[Compared]:
    """All event versions of a domain.

    Args:
        session: of the lakehouse.
        replayed: rows of `task.SHAPE`.
        domain: whose rules were replayed.
        until: the last commit position that counts.
        snapshot: the first snapshot's position: events of rules that speak about it have ids that depend on the order in which the
            sequencer has read its rows, so these are told apart.
        examples: at most so many ids of each state.
    """
    names = known_names(session)
    told = _told(replayed, domain)
    of_snapshots = {
        topic_of(version)
        for rule in domain.rules
        if rule.snapshot
        for event in rule.emits
        for version in domain.events[event].versions
    }
    pairs = []
    for event in domain.event_classes():
        topic = topic_of(event)
        name = names.get((BUSINESS, topic), candidates(BUSINESS, topic)[0])
        table = session.table(name) if session.catalog.tableExists(name) else None
        pairs.append(_paired(replayed, table, event, until).withColumn("topic", sf.lit(topic)))
    of_snapshot = sf.lit(False)
    if snapshot is not None and of_snapshots:
        of_snapshot = sf.col("topic").isin(*of_snapshots) & (sf.col("about.sequence") <= f"{snapshot:016X}")
    states = _states(union(pairs), told, of_snapshot).persist()
    try:
        return _counted([topic_of(event) for event in domain.event_classes()], states, examples)
    finally:
        states.unpersist()


def decoded(replayed: DataFrame, event: type[BusinessEvent], table: st.StructType | None = None) -> DataFrame:
    """The replayed events of one version as rows of its table.

    Args:
        replayed: rows of `task.SHAPE`.
        event: the version.
        table: the columns that there are already.
    """
    topic = topic_of(event)
    plan = Planner(_Contracts(event), check_event).plan(f"{topic}-value", [_SCHEMA_ID])
    schema = event_schema(plan) if table is None else evolve(table, event_schema(plan))[0]
    records = replayed.where(sf.col("topic") == topic).select(
        "topic",
        sf.lit(0).alias("partition"),
        sf.lit(0).cast("bigint").alias("offset"),
        sf.timestamp_micros("ts_us").alias("timestamp"),
        sf.col("id").cast("binary").alias("key"),
        sf.concat(sf.lit(_FRAME), "body").alias("value"),
        "headers",
        sf.lit(_SCHEMA_ID).cast("bigint").alias("value_id"),
    )
    rows = EventDecoder("", plan, schema).decode(records)
    return rows.select(*[quoted(field.name) for field in schema.fields])


def _paired(
    replayed: DataFrame, table: DataFrame | None, event: type[BusinessEvent], until: int
) -> DataFrame:
    """By id: `ours` and `theirs` (all values as text, null where there is no such event), `source`, `subject`, `sequence`."""
    ours = decoded(replayed, event, None if table is None else table.schema)
    theirs = ours.where(sf.lit(False)) if table is None else table
    for field in ours.schema.fields:
        if field.name not in theirs.columns:
            theirs = theirs.withColumn(field.name, sf.lit(None).cast(field.dataType))
    sequence = sf.try_element_at("ce_extensions", sf.lit("sequence"))
    theirs = theirs.where(sequence.isNull() | (sf.substring(sequence, 1, 16) <= f"{until:016X}"))
    columns = [field for field in ours.schema.fields if field.name not in _PLACES]

    def side(rows: DataFrame, name: str) -> DataFrame:
        text = sf.to_json(sf.struct(*map(_comparable, columns)), _TIMES)
        return rows.select(
            "ce_id",
            text.alias(name),
            sf.struct(
                sf.col("ce_source").alias("source"),
                sf.col("ce_subject").alias("subject"),
                sf.substring(sequence, 1, 16).alias("sequence"),
            ).alias(f"{name}_about"),
        )

    pairs = side(ours, "ours").join(side(theirs, "theirs"), "ce_id", "full_outer")
    return pairs.select("ce_id", "ours", "theirs", sf.coalesce("ours_about", "theirs_about").alias("about"))


def _comparable(field: st.StructField) -> Column:
    column = sf.col(quoted(field.name))
    if isinstance(field.dataType, st.MapType):
        return sf.array_sort(sf.map_entries(column)).alias(field.name)
    return column.alias(field.name)


def _told(replayed: DataFrame, domain: Domain) -> DataFrame:
    """By source and subject, the ranges of positions in which an aggregate is not known exactly."""
    sources = sf.create_map(
        *[sf.lit(one) for name in domain.aggregates for one in (name, source_of(domain.name, name))]
    )
    told = replayed.where("told IS NOT NULL AND told <> 'partial' AND aggregate <> ''")
    ranges = sf.struct(
        sf.format_string("%016X", "commit_lsn").alias("since"), sf.format_string("%016X", "until").alias("to")
    )
    return (
        told.groupBy(
            sf.try_element_at(sources, "aggregate").alias("told_source"), sf.col("id").alias("told_subject")
        )
        .agg(sf.collect_set(ranges).alias("ranges"))
        .where("told_source IS NOT NULL")
    )


def _states(pairs: DataFrame, told: DataFrame, of_snapshot: Column) -> DataFrame:
    """Topic, id and state of every event."""
    sequence = sf.col("about.sequence")
    is_told = sf.exists("ranges", lambda one: (sequence >= one.since) & (sequence <= one.to))
    state = (
        sf.when(sf.col("ours") == sf.col("theirs"), "equal")
        .when(sf.coalesce(is_told, sf.lit(False)) | of_snapshot, "told")
        .when(sf.col("theirs").isNull(), "missing")
        .when(sf.col("ours").isNull(), "extra")
        .otherwise("different")
    )
    about = (sf.col("about.source") == sf.col("told_source")) & (
        sf.col("about.subject") == sf.col("told_subject")
    )
    return pairs.join(told, about, "left").select("topic", "ce_id", state.alias("state"))


def _counted(topics: list[str], states: DataFrame, examples: int) -> list[Compared]:
    counts = {topic: dict.fromkeys((*STATES, "told"), 0) for topic in topics}
    for row in states.groupBy("topic", "state").count().collect():
        counts[row["topic"]][row["state"]] = row["count"]
    shown: dict[str, dict[str, list[str]]] = {topic: {} for topic in topics}
    place = sf.row_number().over(Window.partitionBy("topic", "state").orderBy("ce_id"))
    others = states.where("state <> 'equal'").withColumn("place", place)
    for row in others.where(sf.col("place") <= examples).orderBy("topic", "state", "place").collect():
        shown[row["topic"]].setdefault(row["state"], []).append(row["ce_id"])
    return [Compared(topic, counts[topic], shown[topic]) for topic in topics]


def as_json(compared: list[Compared]) -> str:
    """One object a line."""
    return "".join(
        json.dumps({"event": one.event, **one.counts, "examples": one.examples}) + "\n" for one in compared
    )
