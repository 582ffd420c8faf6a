"""Removes the rows of one person for good: `tidings-lakehouse erase`.

The order is such that the command can be run again after a crash at any point: first it is noted that rows are erased (so that the
job does not take them again from records that it has read), then each table's rows are deleted in one commit that keeps what its
writers have noted, then the files go that still hold them. `tidings.erasures` gets a row for each table before the first deletion and
another one behind everything; neither holds a value.
"""

from __future__ import annotations

import datetime as dt
import secrets
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.decoding.text_records import VALUE_TEXT
from tidings_lakehouse.erasing.files import FormerFiles
from tidings_lakehouse.erasing.quarantine import RecordReader, is_of
from tidings_lakehouse.erasing.selection import (
    LOG_PARTS,
    Selection,
    check_key,
    condition_on_log,
    condition_on_rows,
)
from tidings_lakehouse.errors import ErasureError
from tidings_lakehouse.formats.registry import SchemaSource
from tidings_lakehouse.reading.materialised import is_materialised
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.erased import ERASED_PROPERTY, offsets_of_text, offsets_text, written_offsets
from tidings_lakehouse.tables.names import known_names
from tidings_lakehouse.tables.positions import PartitionId, note_of, offsets_noted, offsets_of
from tidings_lakehouse.tables.tables import Table, frame_of
from tidings_lakehouse.topics import BUSINESS, ERASURES, HISTORY, QUARANTINE, TECHNICAL, log_of
from tidings_lakehouse.writing.set_aside import asides
from tidings_lakehouse.writing.targets import LOG_NOTE, Target, merged_of, progress_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = st.StructType(
    [
        st.StructField("erasure", st.StringType()),
        st.StructField("at", st.TimestampType()),
        st.StructField("state", st.StringType()),
        st.StructField("by", st.StringType()),
        st.StructField("reference", st.StringType()),
        st.StructField("table_name", st.StringType()),
        st.StructField("selected_table", st.StringType()),
        st.StructField("selected_columns", st.StringType()),
        st.StructField("salt", st.StringType()),
        st.StructField("digest", st.StringType()),
        st.StructField("rows", st.LongType()),
    ]
)
BEGUN, DONE = "begun", "done"
_MOST_OFFSETS = 5_000
"""Offsets in one condition."""


@dataclass(frozen=True)
class Subject:
    """A selection and what it is about."""

    selection: Selection
    topic: str
    is_change: bool
    conditions: dict[str, str]
    """By table, of the rows that are selected."""


@dataclass(frozen=True)
class Found:
    """Rows of one table that a selection is about."""

    table: str
    selection: Selection
    rows: int
    unreadable: int = 0
    """Quarantined records of the selection's topic of which nobody can say whose they are."""


@dataclass
class Quarantined:
    """Quarantined records that are selected."""

    offsets: dict[PartitionId, list[int]] = field(default_factory=lambda: defaultdict(list))
    unreadable: int = 0

    @property
    def rows(self) -> int:
        """How many they are."""
        return sum(map(len, self.offsets.values()))


class Erasure:
    """Looks for the rows of selections, and erases them; no job may write to the warehouse meanwhile."""

    def __init__(
        self,
        session: SparkSession,
        schemas: SchemaSource,
        selections: Sequence[Selection],
        *,
        with_unreadable: bool = False,
    ) -> None:
        """
        Args:
            schemas: to read quarantined records by.
            with_unreadable: also take the quarantined records of the tables' topics that cannot be read.

        Raises:
            ErasureError: a selection names what there is not.
        """
        self._session = session
        self._records = RecordReader(schemas)
        self._with_unreadable = with_unreadable
        self._topics = {name: key for key, name in known_names(session).items()}
        self._subjects = [self._subject(one) for one in selections]
        self._has_quarantine = session.catalog.tableExists(QUARANTINE)

    @property
    def set_aside(self) -> list[str]:
        """Topics of the tables that are set aside: what the job has not read of them comes later."""
        names = {subject.topic for subject in self._subjects}
        return sorted(aside.topic for _, aside in asides(self._session) if aside.topic in names)

    def look(self) -> list[Found]:
        """How many rows each table has."""
        found = []
        for subject in self._subjects:
            found += [
                Found(table, subject.selection, self._session.table(table).where(condition).count())
                for table, condition in subject.conditions.items()
            ]
            if self._has_quarantine:
                held = self._quarantined(subject)
                found.append(Found(QUARANTINE, subject.selection, held.rows, held.unreadable))
        return found

    def erase(self, by: str, reference: str) -> tuple[str, list[Found]]:
        """Erase them; gives the erasure's id and what was erased.

        Args:
            by: who does it, for the record.
            reference: why, for the record.

        Raises:
            ErasureError: not everything could be erased; it can be begun again.
            SecondWriterError: a job has written meanwhile.
        """
        commits = Commits(self._session)
        commits.mark(self._session)
        files = FormerFiles(self._session, commits)
        tables: dict[str, list[str]] = defaultdict(list)
        for subject in self._subjects:
            for table, condition in subject.conditions.items():
                tables[table].append(condition)
        if self._has_quarantine:
            tables[QUARANTINE] = []
        for table in tables:
            files.check(table)
        for subject in self._subjects:
            self._refuse_waiting(commits, subject)
        found = self.look()
        erasure = uuid.uuid4().hex
        salts = {one: secrets.token_hex(16) for one in {subject.selection for subject in self._subjects}}
        self._record(commits, erasure, BEGUN, by, reference, found, salts)
        for table, conditions in tables.items():
            if table == QUARANTINE:
                self._erase_quarantined(commits)
            else:
                self._delete(commits, table, conditions)
        for table in tables:
            files.remove(table)
        left = [one for one in self.look() if one.rows]
        if left:
            raise ErasureError(
                f"{left[0].table} still has rows that were to be erased", hint="run the same command again"
            )
        self._record(commits, erasure, DONE, by, reference, found, salts)
        return erasure, found

    # --- what it is about

    def _subject(self, selection: Selection) -> Subject:
        name = selection.table
        if name not in self._topics:
            base = name.removesuffix("_log")
            hint = (
                f"name {base}: its log is erased with it"
                if base in self._topics
                else "tidings.topics has the tables: name a current state, technical.<table>, or business.<event>"
            )
            raise ErasureError(f"--table: {name} is not a topic's table", hint=hint)
        namespace, topic = self._topics[name]
        if namespace == BUSINESS:
            check_key(selection, ())
        conditions = {}
        log = log_of(name)
        if namespace == TECHNICAL and self._session.catalog.tableExists(log):
            schema = self._session.table(log).schema
            if {*LOG_PARTS, VALUE_TEXT} & set(schema.names):  # else every record has gone to the quarantine
                key = schema["key"].dataType if "key" in schema.names else None
                check_key(selection, key.names if isinstance(key, st.StructType) else ())
                conditions[log] = condition_on_log(selection, schema)
        if self._session.catalog.tableExists(name):
            conditions[name] = condition_on_rows(selection, self._session.table(name).schema)
        history = name + HISTORY
        if is_materialised(self._session, history):
            conditions[history] = condition_on_rows(selection, self._session.table(history).schema)
        return Subject(selection, topic, namespace == TECHNICAL, conditions)

    def _quarantined(self, subject: Subject) -> Quarantined:
        found = Quarantined()
        rows = (
            self._session.table(QUARANTINE)
            .where(sf.col("topic") == subject.topic)
            # A change that lacked a value is in the log, and here without its bytes.
            .where("key IS NOT NULL OR value IS NOT NULL")
            .select("topic_id", "partition", "offset", "key", "value", "headers")
        )
        for row in rows.toLocalIterator():
            headers = [(one["key"], _bytes(one["value"])) for one in row["headers"] or ()]
            key, value = self._records.read(_bytes(row["key"])), self._records.read(_bytes(row["value"]))
            is_selected = is_of(subject.selection, key, value, headers, is_change=subject.is_change)
            found.unreadable += is_selected is None
            if is_selected or (is_selected is None and self._with_unreadable):
                found.offsets[PartitionId(row["topic_id"], row["partition"])].append(row["offset"])
        if self._with_unreadable:
            found.unreadable = 0
        return found

    # --- what is done

    def _refuse_waiting(self, commits: Commits, subject: Subject) -> None:
        """A change that waits in the log may say whose the row is, and the current state not yet."""
        name = subject.selection.table
        if not subject.is_change or not {name, log_of(name)} <= subject.conditions.keys():
            return
        log, current = (Table(self._session, one, subject.topic, commits) for one in (log_of(name), name))
        target = Target(subject.topic, log, current, progress_of(self._session, log))
        target.merged = merged_of(target)
        if target.waits:
            raise ErasureError(
                f"{name}: changes in its log are not merged yet (TIDINGS_LAKEHOUSE_MERGE); nothing has been erased",
                hint="run tidings lakehouse run --available-now, which merges them, then the same command again",
            )

    def _delete(self, commits: Commits, name: str, conditions: list[str]) -> None:
        topic = next(one.topic for one in self._subjects if name in one.conditions)
        table = Table(self._session, name, topic, commits)
        note: dict[str, Any] = {}
        if name.startswith(f"{BUSINESS}."):
            noted = offsets_of_text(table.property(ERASED_PROPERTY))
            for place, last in written_offsets(self._session, name).items():
                noted[place] = max(noted.get(place, last), last)
            table.set_property(ERASED_PROPERTY, offsets_text(noted))
        elif name.endswith("_log") and name not in self._topics:
            note = {LOG_NOTE: progress_of(self._session, table).note({})}
            table.set_property(ERASED_PROPERTY, dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
        whole = " OR ".join(f"({one})" for one in conditions)
        table.write(lambda staged: self._delete_where(staged, [whole]), note)

    def _erase_quarantined(self, commits: Commits) -> None:
        table = Table(self._session, QUARANTINE, "", commits)
        noted, note = table.noted(), {}
        held = self._session.table(QUARANTINE)
        for stream in (TECHNICAL, BUSINESS):
            own = noted.get(stream)
            offsets = (
                offsets_of(held.where(sf.col("stream") == stream)) if own is None else offsets_noted(own)
            )
            if offsets:
                note[stream] = note_of(offsets)
        conditions = []
        for subject in self._subjects:
            for (topic_id, partition), offsets_ in self._quarantined(subject).offsets.items():
                for first in range(0, len(offsets_), _MOST_OFFSETS):
                    numbers = ", ".join(map(str, offsets_[first : first + _MOST_OFFSETS]))
                    conditions.append(
                        f"topic_id = '{topic_id}' AND partition = {partition} AND offset IN ({numbers})"
                    )
        if conditions:
            table.write(lambda staged: self._delete_where(staged, conditions), note)

    def _delete_where(self, staged: str, conditions: list[str]) -> None:
        for condition in conditions:
            self._session.sql(f"DELETE FROM {staged} WHERE {condition}")  # noqa: S608 - quoted and escaped

    def _record(
        self,
        commits: Commits,
        erasure: str,
        state: str,
        by: str,
        reference: str,
        found: list[Found],
        salts: dict[Selection, str],
    ) -> None:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        rows = [
            {
                "erasure": erasure,
                "at": now,
                "state": state,
                "by": by,
                "reference": reference,
                "table_name": one.table,
                "selected_table": one.selection.table,
                "selected_columns": one.selection.columns,
                "salt": salts[one.selection],
                "digest": one.selection.digest(salts[one.selection]),
                "rows": one.rows,
            }
            for one in found
        ]
        table = Table(self._session, ERASURES, "", commits)
        table.ensure(SCHEMA)
        table.append(frame_of(self._session, rows, SCHEMA))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
