"""Small data files of a table put together by Iceberg's own readers and writers in this process's JVM, without a job of Spark's.

What a reader pays for many small batches is the opening of their files, of each one's delete file and of their manifests, not their
rows. Iceberg's planner says which files are small (`BinPackRewriteFilePlanner`); the commit that replaces them is of the operation
``replace``, as every compaction's.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tidings_lakehouse.spark.java_items import each, items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MIB: Final = 1 << 20
_MOST_FILES: Final = 60
"""Files that are read at once, while the table's writes wait."""
_NEWEST_FORMAT: Final = 2
"""From version 3 on rows have ids of their own, which these writers would give them anew."""


class SmallFiles:
    """Puts them together; for any thread."""

    OPTIONS: Final = {
        # A file that is no smaller is left alone: it costs more to read, and to write again, than to open.
        "min-file-size-bytes": _MIB,
        "target-file-size-bytes": 4 * _MIB,
        "max-file-group-size-bytes": 4 * _MIB,
        # No file is chosen for its size or its deleted rows: the table's upkeep looks at these.
        "max-file-size-bytes": 1 << 60,
        "delete-ratio-threshold": 1.0,
    }
    """Of Iceberg's planner."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - for arrays
        iceberg = jvm.org.apache.iceberg
        self._jvm, self._gateway = jvm, gateway
        self._planner = iceberg.actions.BinPackRewriteFilePlanner
        self._of_file = iceberg.util.ContentFileUtil.referencedDataFile
        self._factory = iceberg.data.GenericFileWriterFactory.Builder
        self._outputs = iceberg.io.OutputFileFactory
        self._format = iceberg.FileFormat.PARQUET
        class_of = jvm.java.lang.Class.forName
        reader = class_of("org.apache.iceberg.data.GenericReader")  # which is its package's own
        of_scan = self._array(
            jvm.java.lang.Class, [class_of("org.apache.iceberg.TableScan"), jvm.java.lang.Boolean.TYPE]
        )
        self._reader = reader.getDeclaredConstructor(of_scan)
        self._reader.setAccessible(True)
        of_task = self._array(jvm.java.lang.Class, [class_of("org.apache.iceberg.FileScanTask")])
        self._open = reader.getMethod("open", of_task)
        self._open.setAccessible(True)
        # py4j would take the method that writes one row.
        of_rows = self._array(jvm.java.lang.Class, [class_of("java.lang.Iterable")])
        self._write = class_of("org.apache.iceberg.io.FileWriter").getMethod("write", of_rows)

    def put_together(self, table: Any, least: int) -> int:
        """Replace small files of the same partition by one, in one commit, where there are at least so many; their deleted rows go.

        Gives how many files have been replaced. An error leaves the table as it is, and files perhaps that no snapshot names.

        Args:
            table: Iceberg's, to which nobody else writes meanwhile.
        """
        head = table.currentSnapshot()
        if head is None or table.operations().current().formatVersion() > _NEWEST_FORMAT:
            return 0
        update, replaced = table.newRewrite().validateFromSnapshot(head.snapshotId()), 0
        for group in self._groups(table, least):
            tasks = items(group.fileScanTasks())
            # Rows of a former layout would have to be spread over the partitions of today's.
            if any(task.spec().specId() != table.spec().specId() for task in tasks):
                continue
            for task in tasks:
                update = update.deleteFile(task.file())
                for marks in self._own(task):
                    update = update.deleteFile(marks)
            if (file := self._written(table, tasks)) is not None:
                update = update.addFile(file)
            replaced += len(tasks)
            if replaced >= _MOST_FILES:
                break
        if replaced:
            update.commit()
        return replaced

    def _groups(self, table: Any, least: int) -> list[Any]:
        planner, options = self._planner(table), self._jvm.java.util.HashMap()
        for name, value in {**self.OPTIONS, "min-input-files": least}.items():
            options.put(name, str(value))
        planner.init(options)
        return list(each(planner.plan().groups()))

    def _own(self, task: Any) -> list[Any]:
        """The delete files that mark rows of a data file and of no other one."""
        path = str(task.file().location())
        return [marks for marks in items(task.deletes()) if str(self._of_file(marks)) == path]

    def _written(self, table: Any, tasks: Sequence[Any]) -> Any:
        """The file that has the rows which readers see in others, of one partition; None when there is no such row."""
        spec = table.spec()
        partition = None if spec.isUnpartitioned() else tasks[0].file().partition()
        outputs = self._outputs.builderFor(table, 0, 0).format(self._format).operationId(uuid.uuid4().hex)
        files = outputs.build()
        output = files.newOutputFile() if partition is None else files.newOutputFile(spec, partition)
        writer = self._factory(table).dataFileFormat(self._format).build()
        writer = writer.newDataWriter(output, spec, partition)
        reader = self._reader.newInstance(self._array(self._jvm.java.lang.Object, [table.newScan(), False]))
        try:
            for task in tasks:
                rows = self._open.invoke(reader, self._array(self._jvm.java.lang.Object, [task]))
                try:
                    self._write.invoke(writer, self._array(self._jvm.java.lang.Object, [rows]))
                finally:
                    rows.close()
        finally:
            writer.close()
        file = writer.toDataFile()
        if file.recordCount():
            return file
        table.io().deleteFile(file.location())
        return None

    def _array(self, kind: Any, values: Sequence[Any]) -> Any:
        made = self._gateway.new_array(kind, len(values))
        for place, value in enumerate(values):
            made[place] = value
        return made
