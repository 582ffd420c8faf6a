"""Rows of a table that have some keys, found and marked as deleted by Iceberg's own readers and writers in this process's JVM.

Position deletes as Spark writes them: one delete file for each data file, which takes over what its former one marks (Iceberg
specification, "Position Delete Files").
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidings_lakehouse.spark.java_items import each, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = "PARQUET"
Key = tuple[int | str, ...]
"""Values of a key's columns, numbers as such and everything else as its text."""


@dataclass(frozen=True)
class HeldRow:
    """A row of a table that a reader would see."""

    file: str
    at: int
    """Its place in the file."""
    key: Key
    position: tuple[int, int]
    """Commit LSN and LSN of its newest change."""


@dataclass(frozen=True)
class Deleted:
    """Delete files that no snapshot names yet."""

    added: list[Any] = field(default_factory=list)
    replaced: list[Any] = field(default_factory=list)
    """Those whose marks they have taken over."""
    files: list[str] = field(default_factory=list)
    """The data files that they are of."""


class HeldRows:
    """Reads and marks rows of tables, whatever partitions each of their files was written with."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        iceberg = jvm.org.apache.iceberg
        self._jvm = jvm
        self._generics = iceberg.data.IcebergGenerics
        expressions = iceberg.expressions.Expressions
        self._true, self._and, self._in = (
            expressions.alwaysTrue,
            getattr(expressions, "and"),
            getattr(expressions, "in"),
        )
        self._false, self._or, self._is_null = (
            expressions.alwaysFalse,
            getattr(expressions, "or"),
            expressions.isNull,
        )
        self._from, self._to = expressions.greaterThanOrEqual, expressions.lessThanOrEqual
        self._schema = iceberg.Schema
        columns = iceberg.MetadataColumns
        self._metadata = [columns.FILE_PATH, columns.ROW_POSITION]
        self._format = iceberg.FileFormat.fromString(_FORMAT)
        self._by_file = iceberg.deletes.DeleteGranularity.FILE
        self._factory = iceberg.data.GenericFileWriterFactory.Builder
        self._writer = iceberg.deletes.SortingPositionOnlyDeleteWriter
        self._mark = iceberg.deletes.PositionDelete
        self._loader = iceberg.data.BaseDeleteLoader
        self._outputs = iceberg.io.OutputFileFactory
        self._of_file = iceberg.util.ContentFileUtil.referencedDataFile
        base = jvm.com.google.common.base
        self._functions, self._suppliers = base.Functions, base.Suppliers

    def find(
        self, table: Any, keys: Sequence[str], wanted: Sequence[Key], positions: Sequence[str]
    ) -> list[HeldRow]:
        """The rows whose key is wanted.

        Args:
            table: Iceberg's.
            keys: the key's columns.
            positions: the columns of a row's position.
        """
        schema = table.schema()
        columns = self._list([*map(schema.findField, [*keys, *positions]), *self._metadata])
        rows = (
            self._generics.read(table)
            .where(self._filter(keys, wanted))
            .project(self._schema(columns))
            .build()
        )
        found, among, width = [], set(wanted), len(keys)
        for row in each(rows):
            key = tuple(_plain(row.get(number)) for number in range(width))
            if key in among:
                commit_lsn, lsn = row.get(width), row.get(width + 1)
                found.append(HeldRow(row.get(width + 2), row.get(width + 3), key, (commit_lsn, lsn)))
        return found

    def has_few(self, table: Any, keys: Sequence[str], wanted: Sequence[Key], most: int) -> bool:
        """Whether the files that may have one of the keys, which `find` reads, have no more rows than `most`."""
        return self._rows_of(table, self._filter(keys, wanted), most) <= most

    def known(
        self,
        table: Any,
        column: str,
        wanted: Sequence[str],
        time: str,
        moments: Sequence[int | None],
        *,
        or_none: bool,
        most: int,
    ) -> set[str] | None:
        """Which values of a column a table has in rows of some times; None when more than `most` rows had to be read.

        Args:
            moments: the least and the greatest time, in microseconds since the epoch; None: no row with a time is looked at.
            or_none: whether rows without a time are looked at.
        """
        field, (least, greatest) = table.schema().findField, moments
        times = self._false()
        if least is not None and greatest is not None:
            times = self._and(self._from(time, least), self._to(time, greatest))
        if or_none:
            times = self._or(times, self._is_null(time))
        condition = self._and(times, self._in(column, self._list(wanted)))
        if not wanted or self._rows_of(table, condition, most) > most:
            return None if wanted else set()
        columns = self._schema(self._list([field(column), field(time)]))
        rows = self._generics.read(table).where(condition).project(columns).build()
        return {str(row.get(0)) for row in each(rows)}

    @staticmethod
    def _rows_of(table: Any, condition: Any, most: int) -> int:
        """Rows of the files that may have such as meet a condition; of so many files that they have more than `most`."""
        found = 0
        for task in each(table.newScan().filter(condition).planFiles()):
            found += task.file().recordCount()
            if found > most:
                break
        return found

    def delete(self, table: Any, rows: Sequence[HeldRow], keys: Sequence[str]) -> Deleted:
        """Write delete files for rows that `find` gave.

        Raises:
            KeyError: a data file is not the table's any more.
        """
        places: dict[str, list[int]] = {}
        for row in rows:
            places.setdefault(row.file, []).append(row.at)
        if not places:
            return Deleted()
        tasks = self._tasks_of(table, keys, [row.key for row in rows])
        factory = self._factory(table).deleteFileFormat(self._format).build()
        outputs = self._outputs.builderFor(table, 0, 0).format(self._format).operationId(uuid.uuid4().hex)
        files = outputs.suffix("deletes").build()
        deleted = Deleted()
        for path, marked in places.items():
            task = tasks[path]
            # A reader looks for a file's marks among those of its own partition, by the partitions that it was written with.
            spec = task.spec()
            partition = None if spec.isUnpartitioned() else task.file().partition()
            output = files.newOutputFile() if partition is None else files.newOutputFile(spec, partition)
            one = factory.newPositionDeleteWriter(output, spec, partition)
            former = self._former(table, path, items(task.deletes()))
            writer = self._writer(self._suppliers.ofInstance(one), self._by_file, former)
            mark = self._mark.create()
            for at in marked:
                writer.write(mark.set(path, at))
            writer.close()
            result = writer.result()
            deleted.added.extend(items(result.deleteFiles()))
            deleted.replaced.extend(items(result.rewrittenDeleteFiles()))
            deleted.files.append(path)
        return deleted

    def _filter(self, keys: Sequence[str], wanted: Sequence[Key]) -> Any:
        """A condition that the wanted rows meet; others may, if there are several columns."""
        found = self._true()
        for number, name in enumerate(keys):
            values = self._list(sorted({key[number] for key in wanted}, key=str))
            found = self._and(found, self._in(name, values))
        return found

    def _tasks_of(self, table: Any, keys: Sequence[str], wanted: Sequence[Key]) -> dict[str, Any]:
        """By data file, what a scan for some keys would read of it: its partition, and the delete files that apply to it."""
        tasks = each(table.newScan().filter(self._filter(keys, wanted)).planFiles())
        return {str(task.file().location()): task for task in tasks}

    def _former(self, table: Any, path: str, deletes: Sequence[Any]) -> Any:
        """Gives a data file's marks that a new delete file takes over: those of delete files that are of it alone."""
        own = [one for one in deletes if str(self._of_file(one)) == path]
        if not own:
            return self._functions.constant(None)
        io, inputs = table.io(), self._jvm.java.util.HashMap()
        for one in own:
            inputs.put(one, io.newInputFile(one.location()))
        index = self._loader(self._functions.forMap(inputs)).loadPositionDeletes(self._list(own), path)
        return self._functions.constant(index)

    def _list(self, items: Sequence[Any]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made


def _plain(value: Any) -> int | str:
    if isinstance(value, int | str):
        return value
    return str(value.toString()) if hasattr(value, "toString") else format(value, "f")
