"""Iceberg tables: made when a topic's first record arrives, widened as its schema grows.

A column is never dropped or narrowed: one that a topic no longer has reads as null, one whose type widens (int to
bigint, a decimal with more digits) is widened, and one whose type changes otherwise is kept beside a new column
``<name>__<type>``. The topic that a table belongs to is a property of the table, so that two topics can never be mixed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.errors import TableConflictError
from tidings_lakehouse.layout_rules import Layout
from tidings_lakehouse.spark.held_rows import Deleted
from tidings_lakehouse.spark.small import is_local
from tidings_lakehouse.tables.branch import Note
from tidings_lakehouse.tables.column_names import safe_name as safe_name  # noqa: PLC0414 - where writers look for it
from tidings_lakehouse.tables.commits import Commits
from tidings_lakehouse.tables.descriptions import (
    COMMENTS_PROPERTY,
    bare_columns,
    identifiers_of,
    never_null_in,
)
from tidings_lakehouse.tables.layouts import buckets_of, distribution_of, partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

R = TypeVar("R")
TOPIC_PROPERTY = "tidings.topic"
_SHUFFLED = dict.fromkeys(
    ("write.delete.distribution-mode", "write.merge.distribution-mode", "write.update.distribution-mode"),
    "hash",
)
"""Without it several tasks write deletes of one data file, each with those that the file had before: they double with every
commit, and the number of rows that the metadata give is wrong."""
_FEW_MANIFESTS = {"commit.manifest.min-count-to-merge": "5"}
"""Each commit has one or two manifests of its own, which every reader opens; Iceberg puts them together from a hundred on."""
_PROPERTIES = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.parquet.compression-codec": "zstd",
    # A batch is small: one shuffle less, and as many files as tasks.
    "write.distribution-mode": "none",
    **_SHUFFLED,
    **_FEW_MANIFESTS,
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


_SOUGHT_BY = ("last_commit_lsn", "lsn", "commit_lsn", "ce_time", "__commit_lsn", "__lsn")
"""Columns by whose least and greatest value files are left out; of a wide table Iceberg notes only the first hundred columns'."""


def frame_of(session: SparkSession, rows: Sequence[Mapping[str, object]], schema: st.StructType) -> DataFrame:
    """Rows of ours, each by its columns' names, for an append or an overwrite.

    As JSON, because rows handed over as Python objects would go through a Python worker process, every batch.
    """
    text, shape = sf.lit(json.dumps(rows)), st.ArrayType(schema)
    return session.range(1, numPartitions=1).select(sf.inline(sf.from_json(text, shape)))


def _measures(schema: st.StructType) -> dict[str, str]:
    return {
        f"write.metadata.metrics.column.{name}": "full" for name in _SOUGHT_BY if name in schema.fieldNames()
    }


def quoted(name: str) -> str:
    """A column's name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"


def ddl(data_type: st.DataType) -> str:
    """A type as SQL writes it."""
    if isinstance(data_type, st.StructType):
        return "struct<" + ", ".join(f"{quoted(f.name)}: {ddl(f.dataType)}" for f in data_type.fields) + ">"
    if isinstance(data_type, st.ArrayType):
        return f"array<{ddl(data_type.elementType)}>"
    if isinstance(data_type, st.MapType):
        return f"map<{ddl(data_type.keyType)}, {ddl(data_type.valueType)}>"
    return data_type.simpleString()


def widened(have: st.DataType, want: st.DataType) -> st.DataType | None:
    """The type that holds both, if Iceberg can promote `have` to it; None when it cannot."""
    if have == want or can_cast(want, have):
        return have
    return want if can_cast(have, want) else None


def can_cast(narrow: st.DataType, wide: st.DataType) -> bool:
    """Whether every value of `narrow` is one of `wide` (Iceberg specification, "Schema Evolution")."""
    if isinstance(narrow, st.DecimalType) and isinstance(wide, st.DecimalType):
        return narrow.scale == wide.scale and narrow.precision <= wide.precision
    return (
        narrow == wide
        or (isinstance(narrow, st.IntegerType) and isinstance(wide, st.LongType))
        or (isinstance(narrow, st.FloatType) and isinstance(wide, st.DoubleType))
    )


@dataclass(frozen=True)
class Change:
    """One step of a table's evolution: ``ADD COLUMN`` or ``ALTER COLUMN ... TYPE``."""

    path: tuple[str, ...]
    type: st.DataType
    is_new: bool


def evolve(
    have: st.StructType, want: st.StructType, path: tuple[str, ...] = ()
) -> tuple[st.StructType, list[Change]]:
    """The struct that holds both, and the steps from `have` to it."""
    fields = {field.name: field.dataType for field in have.fields}
    changes: list[Change] = []
    for field in want.fields:
        name = target_name(fields, field.name, field.dataType)
        current = fields.get(name)
        if current is None:
            fields[name] = field.dataType
            changes.append(Change((*path, name), field.dataType, is_new=True))
        elif isinstance(current, st.StructType) and isinstance(field.dataType, st.StructType):
            fields[name], inner = evolve(current, field.dataType, (*path, name))
            changes += inner
        else:
            wide = widened(current, field.dataType)
            if wide is not None and wide != current:
                fields[name] = wide
                changes.append(Change((*path, name), wide, is_new=False))
    return st.StructType([st.StructField(name, type_) for name, type_ in fields.items()]), changes


def target_name(fields: dict[str, st.DataType], name: str, wanted: st.DataType) -> str:
    """The column that holds values of a type: `name`, or ``<name>__<type>`` where that has an incompatible one."""
    current = fields.get(name)
    if current is None or _compatible(current, wanted):
        return name
    return f"{name}__{_suffix(wanted)}"


def _compatible(current: st.DataType, wanted: st.DataType) -> bool:
    if isinstance(current, st.StructType) and isinstance(wanted, st.StructType):
        return True
    return widened(current, wanted) is not None


def _suffix(data_type: st.DataType) -> str:
    return "".join(c if c.isalnum() else "_" for c in data_type.simpleString()).strip("_")


class Table:
    """One Iceberg table as this process, its only writer, knows it."""

    def __init__(self, session: SparkSession, name: str, topic: str, commits: Commits) -> None:
        self._session = session
        self._commits = commits
        self.name = name
        self._topic = topic
        self.schema: st.StructType | None = None
        self._is_laid_out = False
        self._required: frozenset[str] = frozenset()
        """Columns that may not be null."""
        self._identifiers: tuple[str, ...] = ()
        self._comments: dict[str, str] = {}
        """Those that it was given, by path."""
        self._asked: dict[str, str] | None = None
        """Those that it was to be given last: of columns that it does not have, too."""
        held = commits.open(name)
        if held is not None:
            self.schema, self._required = bare_columns(held), never_null_in(held)
            self._check_topic()
            self._bring_up_to_date()

    @property
    def exists(self) -> bool:
        """Whether the table has been made."""
        return self.schema is not None

    @property
    def rows_held(self) -> int:
        """Rows in its data files, those that delete files mark included."""
        return self._commits.rows_of(self.name)

    def buckets(self, keys: Sequence[str]) -> tuple[str, int] | None:
        """The column of the key by whose buckets the table is partitioned, and their number."""
        return self._commits.looked_at(self.name, lambda table: buckets_of(table, keys))

    def ensure(
        self,
        wanted: st.StructType,
        *,
        partitioned_by: Sequence[str] = (),
        ordered_by: Sequence[str] = (),
        keys: Sequence[str] = (),
        never_null: Collection[str] = (),
        identified_by: Sequence[str] = (),
    ) -> st.StructType:
        """Make the table or widen it, so that it holds `wanted`, and lay it out as the setting says; gives its schema.

        Args:
            partitioned_by: partitions that a new table gets where the setting says nothing: columns, or ``days(column)``.
            ordered_by: columns by which the rows of a new table's files are sorted, likewise.
            keys: columns of the key of a current state.
            never_null: columns that no row has as null. A table that is made requires them; one that requires others lets those be null
                from now on. What was not required from the beginning never is: there may be rows without it.
            identified_by: columns that identify a row, which Iceberg is told if none of them may be null.

        Raises:
            TableConflictError: the table cannot be laid out as the setting says.
        """
        if self.schema is None:
            # `wanted` may name a column more than once, with the fields of several schema versions.
            schema, _ = evolve(st.StructType([]), wanted)
            self._required = frozenset(never_null) & set(schema.names)
            layout = self._commits.layouts.of(self.name, partitioned_by, keys)
            self._create(schema, layout, partitioned_by, ordered_by, identified_by)
            self.schema, self._is_laid_out = schema, True
            return self.schema
        self._relax(self._required - frozenset(never_null), identified_by)
        schema, changes = evolve(self.schema, wanted)
        additions = [change for change in changes if change.is_new]
        if additions:
            columns = ", ".join(f"{_path(c.path)} {ddl(c.type)}" for c in additions)
            self._alter(f"ADD COLUMNS ({columns})")
        for change in changes:
            if not change.is_new:
                self._alter(f"ALTER COLUMN {_path(change.path)} TYPE {ddl(change.type)}")
        if changes:
            self.schema = schema
        if not self._is_laid_out:
            layout = self._commits.layouts.of(self.name, partitioned_by, keys)
            if layout != Layout():
                self._commits.lay_out(self.name, layout)
            self._is_laid_out = True
        return schema

    def _alter(self, change: str) -> None:
        self._commits.alter(self.name, lambda: self._session.sql(f"ALTER TABLE {self.name} {change}"))

    def relax(self, columns: Collection[str]) -> None:
        """Let columns be null that may not be, where rows with null are to come."""
        self._relax(self._required & set(columns), self._identifiers)

    def _relax(self, optional: frozenset[str], identified_by: Sequence[str]) -> None:
        required = self._required - optional
        identifiers = tuple(identified_by) if required.issuperset(identified_by) else ()
        # Columns that identified a row do not once there is a part of the key that may be null.
        if optional or (self._identifiers and set(identifiers) != set(self._identifiers)):
            self._commits.relax(self.name, optional, identifiers)
            self._required, self._identifiers = required, identifiers

    @property
    def comments(self) -> Mapping[str, str]:
        """What this job has had it say; see `comment`."""
        return self._comments

    def comment(self, wanted: dict[str, str]) -> None:
        """Have columns say what they are for, by path (``after.name``), and the table, by ""; costs something only when that has changed."""
        if self.schema is not None and wanted not in (self._comments, self._asked):
            self._comments = self._commits.comment(self.name, self._comments, wanted)
            self._asked = dict(wanted)

    def rename(self, path: Sequence[str], name: str) -> None:
        """Rename a column, or a field of one; its values stay."""
        self._alter(f"RENAME COLUMN {_path(path)} TO {quoted(name)}")
        self._identifiers = tuple(name if (one,) == tuple(path) else one for one in self._identifiers)
        held = self._session.table(self.name).schema
        self.schema, self._required = bare_columns(held), never_null_in(held)

    def property(self, key: str) -> str:
        """A property of the table; empty when it has none of that name."""
        return self._commits.property(self.name, key)

    def set_property(self, key: str, value: str) -> None:
        """Set a property."""
        self._commits.set_properties(self.name, {key: value})

    def noted(self) -> dict[str, Any]:
        """What the last write has noted of what the table holds; see `Commits.noted`."""
        return self._commits.noted(self.name)

    def note(self, note: Note) -> None:
        """Note something that is true of what the table holds."""
        self._commits.note(self.name, note)

    def append(
        self, rows: DataFrame, note: Note | None = None, behind: Callable[[], None] | None = None
    ) -> None:
        """Append rows in the table's columns; those that are in memory without a job of Spark's.

        Args:
            note: what to note with them.
            behind: is called when they are written, and not readable yet.

        Raises:
            SecondWriterError: another job has written to the table.
        """
        if is_local(rows) and self._commits.append(self.name, rows, note, behind):
            return

        def write(name: str) -> None:
            rows.writeTo(name).append()
            if behind is not None:
                behind()

        self.write(write, note)

    def replace(
        self,
        replaced: Callable[[Any], tuple[Deleted, DataFrame]],
        note: Note | None,
        behind: Callable[[], None],
    ) -> bool:
        """Replace rows in one commit; see `Commits.replace`."""
        return self._commits.replace(self.name, replaced, note, behind)

    def looked_at(self, look: Callable[[Any], R]) -> R:
        """What somebody sees who looks at Iceberg's table; nobody but this job has written to it."""
        return self._commits.looked_at(self.name, look)

    def ordered(self, rows: DataFrame) -> DataFrame:
        """Rows of the table with its columns in its own order, in which files are written; new columns come last in it."""
        names = [] if self.schema is None else self.schema.names
        return rows.select(*[quoted(name) for name in names if name in rows.columns])

    def add(self, staged: str, rows: DataFrame) -> None:
        """Append rows that are in memory to what a write under way has staged."""
        if not self._commits.add(staged, rows):
            rows.writeTo(staged).append()

    def write(self, action: Callable[[str], None], note: Note | None = None) -> None:
        """Write in one commit; see `Commits.write`."""
        self._commits.write(self.name, action, note)

    def _create(
        self,
        schema: st.StructType,
        layout: Layout,
        partitioned_by: Sequence[str],
        ordered_by: Sequence[str],
        identified_by: Sequence[str],
    ) -> None:
        properties = {**_PROPERTIES, **_measures(schema), TOPIC_PROPERTY: self._topic}
        partitions = layout.partitions
        if partitions is None:
            partitions = partitions_of(partitioned_by)
        else:
            properties["write.distribution-mode"] = distribution_of(partitions)
        order = ordered_by if layout.order is None else layout.order
        columns = st.StructType(
            [st.StructField(one.name, one.dataType, one.name not in self._required) for one in schema.fields]
        )
        self._identifiers = identifiers_of(schema, identified_by, self._required)
        self._commits.create(self.name, columns, properties, partitions, order, self._identifiers)

    def _bring_up_to_date(self) -> None:
        """Give a table of a former release what new ones have, as far as nobody has chosen otherwise."""
        measures = {} if self.schema is None else _measures(self.schema)
        added = _FEW_MANIFESTS | measures
        wanted = [*_SHUFFLED, *added, COMMENTS_PROPERTY]
        have, self._identifiers = self._commits.properties(self.name, wanted)
        self._comments = json.loads(have.get(COMMENTS_PROPERTY, "{}"))
        lacking = {key: value for key, value in _SHUFFLED.items() if have.get(key) == "none"}
        lacking |= {key: value for key, value in added.items() if key not in have}
        if lacking:
            self._commits.set_properties(self.name, lacking)

    def _check_topic(self) -> None:
        owner = self.property(TOPIC_PROPERTY)
        if owner != self._topic:
            whose = f"belongs to the topic {owner}" if owner else "was not made by this job"
            raise TableConflictError(
                f"the table {self.name} {whose}, so {self._topic} cannot be written to it",
                hint="tidings.topics says which table each topic has: rename this one, or leave the topic out by a pattern",
            )


def _path(path: Sequence[str]) -> str:
    return ".".join(quoted(part) for part in path)
