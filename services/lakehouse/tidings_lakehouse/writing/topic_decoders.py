"""Decodes the technical topics' records: a decoder and what is known of the tables, by topic and kept between batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.choices import Choices
from tidings_lakehouse.decoding.batches import Kept, TopicSurvey
from tidings_lakehouse.decoding.binlog import Limits
from tidings_lakehouse.decoding.change_decoder import (
    SOURCE_FIELDS,
    ChangeDecoder,
    check_envelope,
    check_key,
    log_schema,
    naming_of,
)
from tidings_lakehouse.decoding.described import Described
from tidings_lakehouse.decoding.never_null import PROPERTY, NeverNull, never_null, of_text
from tidings_lakehouse.decoding.schemas import DecodingPlan, Planner
from tidings_lakehouse.errors import TableConflictError
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.spark.small import LocalRows
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.erased import ERASED_PROPERTY
from tidings_lakehouse.tables.names import Names
from tidings_lakehouse.tables.naming import Naming
from tidings_lakehouse.tables.tables import Table
from tidings_lakehouse.tables.troubles import trouble_of_topic
from tidings_lakehouse.topics import TECHNICAL, log_of
from tidings_lakehouse.watermark.transactions import TransactionLog
from tidings_lakehouse.writing.column_renames import note_renames, rename_columns
from tidings_lakehouse.writing.renames import Renames
from tidings_lakehouse.writing.targets import Decoded, Target, merged_of, progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RECORD = ("topic_id", "partition", "offset")
"""What identifies a row of a log."""
_AFTER = "after."
"""Before a column's name, it makes its path in a log."""


class TopicDecoders:
    """A decoder for each technical topic; topics may be decoded in parallel, each by one thread."""

    def __init__(
        self,
        session: SparkSession,
        schemas: SchemaSource,
        commits: Commits,
        names: Names,
        local: LocalRows,
        renames: Renames,
        transactions: TransactionLog,
        *,
        choices: Choices,
        found: Callable[[Target], None],
    ) -> None:
        """
        Args:
            found: told of each topic whose log is there before this object has written to it.
        """
        self._session = session
        self._commits = commits
        self._names = names
        self._local = local
        self._values = Planner(schemas, check_envelope, keep={"source": SOURCE_FIELDS})
        self._keys = Planner(schemas, check_key)
        self._renames = renames
        self._transactions = transactions
        self._choices = choices
        self._found = found
        self._targets: dict[str, Target] = {}

    def forget(self, topic: str) -> None:
        """What is known of a topic may not be true any more; it is read anew when it is needed."""
        self._targets.pop(topic, None)

    def forget_all(self) -> None:
        """Have every topic read anew, and its log told to `found` again."""
        self._targets.clear()

    def decode(self, kept: Kept, topic: str, topic_id: str, survey: TopicSurvey) -> Decoded:
        """A batch's records of a topic as changes, with its log made ready for them; the caller unpersists them.

        Raises:
            TableConflictError: the topic is kept as text, and has a current state.
        """
        values = self._values.plan(f"{topic}-value", survey.value_ids)
        keys = self._keys.plan(f"{topic}-key", survey.key_ids)
        target = self.target(topic)
        choices = self._choices.of(topic, target.current.name)
        if choices.is_text and target.current.exists:
            raise TableConflictError(
                f"TIDINGS_LAKEHOUSE_TEXT names {topic}, whose current state {target.current.name} would miss what is kept as text",
                hint="leave the topic out of the setting, or drop the current state",
            )
        naming = naming_of(values, self._renames.of(topic))
        choices = replace(choices, keys=frozenset(_key_fields(keys, target.log.schema)))
        is_new = not target.log.exists
        schema = target.log.ensure(
            log_schema(values, keys, naming, choices),
            partitioned_by=["days(timestamp)"],
            ordered_by=["partition", "offset"],
            never_null=RECORD,
            identified_by=RECORD,
        )
        if is_new:
            note_renames(target.log, naming.renames)
        made_for = topic_id, values, keys, schema, naming, choices, Limits(self._transactions.domain)
        if target.decoder is None or target.decoder.made_for != made_for:
            target.decoder, target.plan = ChangeDecoder(*made_for), None
            _note_never_null(target, never_null(values, keys, schema, naming, choices), is_new=is_new)
        _describe(target, values.describing(survey.value_ids), naming)
        own = kept.records.where(sf.col("topic") == topic)
        changes = self._decoded_here(target, target.decoder, kept.here)
        if changes is None:
            changes = target.decoder.decode(own).persist(StorageLevel.MEMORY_AND_DISK)
        return Decoded(target, survey, own, changes)

    def _decoded_here(
        self, target: Target, decoder: ChangeDecoder, records: DataFrame | None
    ) -> DataFrame | None:
        """A topic's part of a small batch; None when the batch is not, or a record ends the decoder."""
        if records is None:
            return None
        try:
            if target.plan is None:
                target.plan = self._local.plan(
                    records, lambda rows: decoder.decode(rows.where(sf.col("topic") == target.topic))
                )
            return target.plan.of(records)
        except (PySparkException, Py4JJavaError) as error:
            if trouble_of_topic(error) is None:
                raise
            return None  # a job finds the record

    def target(self, topic: str) -> Target:
        """A topic's tables and what is known of them; a renamed column of theirs follows."""
        target = self._targets.get(topic)
        if target is None:
            name = self._names.of(TECHNICAL, topic)
            log = Table(self._session, log_of(name), topic, self._commits)
            target = Target(topic, log, Table(self._session, name, topic, self._commits))
            rename_columns(self._session, target, self._renames.of(topic))
            if log.exists:
                target.progress = progress_of(self._session, log)
                target.is_erased = bool(log.property(ERASED_PROPERTY))
                target.never_null = of_text(log.property(PROPERTY))
                target.comments = {name.removeprefix(_AFTER): text for name, text in log.comments.items()}
                target.merged = merged_of(target) if target.current.exists else None
                self._found(target)
            self._targets[topic] = target
        return target


def _note_never_null(target: Target, told: NeverNull, *, is_new: bool) -> None:
    """Have the log say which columns are never null, before it has the first record that may have one as null."""
    held = told if is_new else target.never_null
    target.never_null = held.also(told)
    if is_new or target.never_null != held:
        target.log.set_property(PROPERTY, target.never_null.text)


def _describe(target: Target, told: Described | None, naming: Naming) -> None:
    """Have the log say what its columns are for; the current state follows when it is written (`Target.comments`)."""
    if told is not None:
        target.comments = told.by_column(naming.sole)
        target.log.comment({name and _AFTER + name: text for name, text in target.comments.items()})


def _key_fields(keys: DecodingPlan, log: st.StructType | None) -> list[str]:
    """The fields of a topic's key, also of records that have come before."""
    held = None if log is None or "key" not in log.names else log["key"].dataType
    names = held.names if isinstance(held, st.StructType) else []
    return [*names, *(name for group in keys.groups for name, _ in group.reader.fields)]
