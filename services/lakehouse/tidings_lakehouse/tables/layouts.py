"""Partitions and sort orders of Iceberg's tables, by Iceberg's own interface: of new ones, and of such as there are.

A changed layout is a commit of metadata alone. Files that are there keep their partitions, and every reader and writer looks at
each file by the partitions that it was written with (Iceberg specification, "Partition Evolution").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from tidings_lakehouse.errors import TableConflictError
from tidings_lakehouse.layout_rules import Layout, LayoutRule, Partition, layout_of
from tidings_lakehouse.spark.java_items import items
from tidings_lakehouse.topics import BUSINESS, TECHNICAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DAYS: Final = re.compile(r"days\((.+)\)")
_BUCKETS: Final = re.compile(r"bucket\[([0-9]+)\]")
_TIMES: Final = ("hour", "day", "month", "year", "void")
_DISTRIBUTION: Final = "write.distribution-mode"


class Layouts:
    """Knows the layouts that are wished for, and gives them to tables."""

    def __init__(self, session: SparkSession, rules: Sequence[LayoutRule] = ()) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        self._iceberg = jvm.org.apache.iceberg
        self._terms = jvm.org.apache.iceberg.expressions.Expressions
        self._rules = rules

    def of(self, table: str, partitioned_by: Sequence[str], keys: Sequence[str]) -> Layout:
        """The layout that the setting has for a table, with every column named.

        Args:
            partitioned_by: what the table has by default; see `partitions_of`.
            keys: columns of the key of a current state.

        Raises:
            TableConflictError: the table has no such column.
        """
        if table.partition(".")[0] not in {TECHNICAL, BUSINESS}:
            return Layout()
        layout = layout_of(self._rules, table)
        if layout.partitions is None:
            return layout
        time = next((one.column for one in partitions_of(partitioned_by) if one.transform == "day"), None)
        found = []
        for one in layout.partitions:
            column = one.column or (next(iter(keys), None) if one.transform == "bucket" else time)
            if column is None:
                lacking = "a key" if one.transform == "bucket" else "a time of its records"
                raise _refused(
                    table, f"it does not have {lacking}, so {one.transform} has to name a column of it"
                )
            found.append(Partition(one.transform, column, one.buckets))
        return Layout(tuple(found), layout.order)

    def spec(self, table: str, columns: Any, partitions: Sequence[Partition]) -> Any:
        """Iceberg's partitions of a new table.

        Args:
            columns: Iceberg's schema.
        """
        with _explained(table):
            builder = self._iceberg.PartitionSpec.builderFor(columns)
            for one in partitions:
                add = getattr(builder, one.transform)
                builder = add(one.column, one.buckets) if one.buckets else add(one.column)
            return builder.build()

    def order(self, table: str, columns: Any, names: Sequence[str]) -> Any:
        """Iceberg's sort order of a new table."""
        with _explained(table):
            builder = self._iceberg.SortOrder.builderFor(columns)
            for one in names:
                builder = builder.asc(one)
            return builder.build()

    def change(self, name: str, table: Any, layout: Layout) -> bool:
        """Have what is written to a table from now on laid out otherwise; gives whether it was not so before.

        Args:
            table: Iceberg's.

        Raises:
            TableConflictError: the table has no such column, or it cannot be used like this.
        """
        changed = False
        with _explained(name):
            if layout.partitions is not None:
                changed = self._partition(table, layout.partitions)
                mode = distribution_of(layout.partitions)
                if str(table.properties().get(_DISTRIBUTION) or "") != mode:
                    table.updateProperties().set(_DISTRIBUTION, mode).commit()
            if layout.order is not None and tuple(sorted_by(table)) != layout.order:
                update = table.replaceSortOrder()
                for one in layout.order:
                    update = update.asc(self._terms.ref(one), self._iceberg.NullOrder.NULLS_FIRST)
                update.commit()
                changed = True
        return changed

    def _partition(self, table: Any, wanted: Sequence[Partition]) -> bool:
        schema = table.schema()
        held = {
            (str(schema.findColumnName(field.sourceId())), str(field.transform())): str(field.name())
            for field in items(table.spec().fields())
        }
        want = {(str(one.column), _transform(one)): one for one in wanted}
        if held.keys() == want.keys():
            return False
        update = table.updateSpec()
        for place, name in held.items():
            if place not in want:
                update = update.removeField(name)
        for place, one in want.items():
            if place not in held:
                update = update.addField(self._term(one))
        update.commit()
        return True

    def _term(self, one: Partition) -> Any:
        if one.transform == "identity":
            return self._terms.ref(one.column)
        make: Callable[..., Any] = getattr(self._terms, one.transform)
        return make(one.column, one.buckets) if one.buckets else make(one.column)


def partitions_of(texts: Sequence[str]) -> tuple[Partition, ...]:
    """Partitions as this package's own tables name theirs: columns, or ``days(column)``."""
    found = [(_DAYS.fullmatch(one), one) for one in texts]
    return tuple(
        Partition("identity", one) if day is None else Partition("day", day[1]) for day, one in found
    )


def distribution_of(partitions: Sequence[Partition]) -> str:
    """How Spark's tasks share the rows of a write: with values of keys as partitions each task would write files of all of them."""
    return "hash" if any(one.transform in {"bucket", "identity"} for one in partitions) else "none"


def is_sorted_otherwise(table: Any) -> bool:
    """Whether somebody has given a table a sort order: a compaction has to keep it, which a log's own order does by itself."""
    return sorted_by(table) not in ([], ["partition", "offset"])


def is_to_be_spread(session: SparkSession, name: str, table: Any) -> bool:
    """Whether a table is partitioned by values of columns, and has files from before it was.

    Times are left out: files of a former layout by times, as logs have them, leave themselves out of a search for times.
    """
    spec = table.spec()
    kinds = [str(field.transform()) for field in items(spec.fields())]
    if table.specs().size() == 1 or all(kind in _TIMES for kind in kinds):
        return False
    files = session.table(f"{name}.files").where(f"spec_id <> {spec.specId()}")
    return not files.isEmpty()


def buckets_of(table: Any, keys: Sequence[str]) -> tuple[str, int] | None:
    """The first column of some by whose buckets a table is partitioned, and their number."""
    schema = table.schema()
    for field in items(table.spec().fields()):
        found = _BUCKETS.fullmatch(str(field.transform()))
        column = str(schema.findColumnName(field.sourceId()))
        if found and column in keys:
            return column, int(found[1])
    return None


def sorted_by(table: Any) -> list[str]:
    """Columns by which a table's files are sorted, in ascending order; others with what makes them different."""
    schema, found = table.schema(), []
    for field in items(table.sortOrder().fields()):
        name, text = str(schema.findColumnName(field.sourceId())), str(field)
        is_plain = "identity(" in text and text.endswith("ASC NULLS FIRST")
        found.append(name if is_plain else f"{name} {text}")
    return found


def _transform(one: Partition) -> str:
    return f"bucket[{one.buckets}]" if one.buckets else one.transform


@contextmanager
def _explained(table: str) -> Iterator[None]:
    try:
        yield
    except IllegalArgumentException as error:  # pyspark has made it of Java's
        raise _refused(table, str(error).splitlines()[0]) from error
    except Py4JJavaError as error:
        kind = str(error.java_exception.getClass().getName())
        if kind != "org.apache.iceberg.exceptions.ValidationException":
            raise
        raise _refused(table, str(error.java_exception.getMessage()).splitlines()[0]) from error


def _refused(table: str, why: str) -> TableConflictError:
    return TableConflictError(
        f"TIDINGS_LAKEHOUSE_LAYOUT: {table} cannot be laid out as its first pattern says: {why}",
        hint="name columns that the table has, or leave the table out of the pattern; see the page of the lakehouse",
    )
