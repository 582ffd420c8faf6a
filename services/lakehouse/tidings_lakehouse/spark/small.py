"""Rows of small batches in this process's JVM: decoded by a plan that is kept, and written without a task of Spark's.

A job of Spark costs as much for ten rows as for ten thousand: its plan is made and optimized, its tasks are sent, and each of them
makes its decoders anew. Here an optimized plan is kept, its leaf is exchanged for a batch's rows, and Spark's own rule
for plans over rows that are there (`ConvertToLocalRelation`) evaluates it, by the same expressions as a task would. Iceberg's writer
is given the rows where a task would give them to it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from tidings_lakehouse.spark.java_items import items

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL_BYTES = 8 << 20
"""Bytes of a small batch's keys, values and headers at most: decoded, they are several times as large."""
_SMALL_SPAN = 31 * 86_400_000_000
"""Microseconds between its oldest and its newest record at most: a table that is partitioned by day has a file open for each."""
_MOST_OPEN = 64
"""Files that may be open at once because of buckets."""
_BUCKETS = re.compile(r"bucket\[([0-9]+)\]")
_COARSE_TIMES = ("day", "month", "year")
_TIMES = ("timestamp", "__timestamp")
"""Columns with the time of the record."""
_EVALUATED_LATER = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in ("ConvertToLocalRelation", "PropagateEmptyRelation")
)
_LOCAL = "LocalRelation"
_OF_TASKS = (
    "spark.sql.codegen.factoryMode",
    "spark.sql.codegen.wholeStage",
    "spark.sql.caseSensitive",
    "spark.sql.session.timeZone",
)
"""Settings that a task looks at."""


def is_local(frame: DataFrame) -> bool:
    """Whether a frame's rows are in memory, or come from such by expressions alone."""
    return bool(frame._jdf.queryExecution().optimizedPlan().nodeName() == _LOCAL)  # noqa: SLF001


class LocalRows:
    """Makes frames of rows that are in memory; for any thread.

    Args:
        most: a batch of as many records is not small; 0: none is.
    """

    def __init__(self, session: SparkSession, most: int) -> None:
        self._most = most
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Spark's plans
        sql = jvm.org.apache.spark.sql
        self._dataset = getattr(getattr(sql.classic, "Dataset$"), "MODULE$")
        self._relation = sql.catalyst.plans.logical.LocalRelation
        self._evaluate = sql.catalyst.optimizer.ConvertToLocalRelation
        self._wrap = jvm.scala.collection.immutable.ArraySeq
        self._none = jvm.scala.Option.empty()
        self._seq = jvm.PythonUtils.toSeq
        # Plans are kept as they are before their rows are there.
        self._planner = session.newSession()
        self._planner.conf.set("spark.sql.optimizer.excludedRules", _EVALUATED_LATER)

    def takes(self, records: int, size: int, span: int) -> bool:
        """Whether a batch is small.

        Args:
            size: bytes of keys, values and headers.
            span: microseconds between its oldest and its newest record.
        """
        return records < self._most and size < _SMALL_BYTES and span < _SMALL_SPAN

    def collected(self, frame: DataFrame) -> DataFrame:
        """The same rows, in memory; one job, or none when they are there already."""
        session = frame.sparkSession
        for key in _OF_TASKS:  # an action of a frame would tell its tasks
            session.sparkContext.setLocalProperty(key, session.conf.get(key) or "")
        execution = frame._jdf.queryExecution()  # noqa: SLF001
        rows = execution.executedPlan().executeCollect()
        return self._frame(frame.sparkSession, self._of(execution.analyzed().output(), rows))

    @staticmethod
    def layout(frame: DataFrame) -> Any:
        """A frame's columns as Java has them, to be compared."""
        return frame._jdf.queryExecution().analyzed().schema()  # noqa: SLF001

    @staticmethod
    def texts(frame: DataFrame) -> list[str]:
        """The one column of a frame that is in memory, by one question to Java; texts without line breaks, such as JSON."""
        told = str(frame._jdf.queryExecution().analyzed().data().mkString("\n"))  # noqa: SLF001
        return [line[1:-1] for line in told.split("\n")] if told else []

    def picked(self, frame: DataFrame, places: Sequence[int]) -> DataFrame:
        """Some of the rows of a frame that is in memory."""
        analyzed = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        data = analyzed.data()
        rows = self._seq([data.apply(place) for place in places])
        return self._frame(frame.sparkSession, self._relation(analyzed.output(), rows, False, self._none))

    @staticmethod
    def count(frame: DataFrame) -> int:
        """Rows of a frame that is in memory."""
        return int(frame._jdf.queryExecution().optimizedPlan().data().size())  # noqa: SLF001

    def plan(self, rows: DataFrame, decode: Callable[[DataFrame], DataFrame]) -> KeptPlan:
        """What `decode` does to rows like these, made and optimized once."""
        output = rows._jdf.queryExecution().analyzed().output()  # noqa: SLF001
        leaf = self._relation(output, self._seq([]), False, self._none)
        plan = decode(self._frame(self._planner, leaf))._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
        return KeptPlan(self, plan if self._begins_with(plan, leaf) else None)

    @staticmethod
    def _begins_with(plan: Any, leaf: Any) -> bool:
        """Whether a plan is a chain of steps from a leaf, which the optimizer has left as it was."""
        while not plan.children().isEmpty():
            if plan.children().size() != 1:
                return False
            plan = plan.children().head()
        return bool(plan.nodeName() == _LOCAL and plan.output().equals(leaf.output()))

    def evaluated(self, plan: Any, rows: DataFrame) -> DataFrame | None:
        """A plan's result on rows in memory; None when it needs more than an expression for each row."""
        found = self._evaluated(plan, rows._jdf.queryExecution().analyzed().data())  # noqa: SLF001
        return None if found is None else self._frame(rows.sparkSession, found)

    def filter(self, columns: Any, test: str) -> Any:
        """A plan that finds the rows for which an expression is true, made and optimized once."""
        leaf = self._relation(columns, self._seq([]), False, self._none)
        return self._frame(self._planner, leaf).where(test)._jdf.queryExecution().optimizedPlan()  # noqa: SLF001

    def among(self, plan: Any, rows: DataFrame) -> Any:
        """What such a plan finds among rows that are in memory; None when it cannot be evaluated here."""
        found = self._evaluated(plan, rows._jdf.queryExecution().optimizedPlan().data())  # noqa: SLF001
        return None if found is None else found.data()

    def _evaluated(self, plan: Any, data: Any) -> Any:
        children = plan.children()
        if children.isEmpty():
            return self._relation(plan.output(), data, False, self._none)
        child = self._evaluated(children.head(), data)
        if child is None:
            return None
        found = self._evaluate.apply(plan.withNewChildren(self._seq([child])))
        return found if found.nodeName() == _LOCAL else None

    def _of(self, output: Any, rows: Any) -> Any:
        return self._relation(output, self._wrap.unsafeWrapArray(rows), False, self._none)

    def _frame(self, session: SparkSession, relation: Any) -> DataFrame:
        return DataFrame(self._dataset.ofRows(session._jsparkSession, relation), session)  # noqa: SLF001


class KeptPlan:
    """An optimized plan whose leaf is exchanged for the rows of each batch; for one thread at a time.

    Args:
        plan: None when there is none of that kind.
    """

    def __init__(self, rows: LocalRows, plan: Any) -> None:
        self._rows = rows
        self._plan = plan

    def of(self, rows: DataFrame) -> DataFrame | None:
        """The result for a batch's rows; None when it needs a task, as a function in Python does."""
        found = None if self._plan is None else self._rows.evaluated(self._plan, rows)
        if found is None:
            self._plan = None  # so it will be with every batch
        return found


class Nulls:
    """Looks for nulls among rows in memory where their table has none: Iceberg's writer, which is given them, does not look."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001
        self._local = LocalRows(session, 0)
        self._attributes = jvm.org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
        self._kept: dict[tuple[str, int], tuple[bool, Any]] = {}
        """By table and schema: whether no field of a struct may not be null, and a plan that finds rows with a null; each is made once."""

    def allow(self, table: Any, held: Any, rows: DataFrame) -> bool:
        """Whether rows have a value in every column that may not be null.

        Args:
            held: the table's columns, as Spark has them.
        """
        key = str(table.uuid()), int(table.schema().schemaId())
        if key not in self._kept:
            self._kept[key] = self._made(held)
        is_flat, plan = self._kept[key]
        if plan is None:
            return is_flat
        found = self._local.among(plan, rows)
        return found is not None and found.isEmpty()

    def _made(self, held: Any) -> tuple[bool, Any]:
        columns, nullable = (
            st.StructType.fromJson(json.loads(one.json())) for one in (held, held.asNullable())
        )
        if any(one.dataType != other.dataType for one, other in zip(columns, nullable, strict=True)):
            return False, None
        names = [field.name for field in columns.fields if not field.nullable]
        test = " OR ".join(f"`{name.replace('`', '``')}` IS NULL" for name in names)
        return True, self._local.filter(self._attributes(held.asNullable()), test) if names else None


class FileWriter:
    """Writes the data files of a table from a frame of rows in memory, as one task would."""

    def __init__(self, session: SparkSession) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001
        write = jvm.org.apache.spark.sql.connector.write
        self._jvm = jvm
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - for arrays
        self._gateway = gateway
        self._table = jvm.org.apache.iceberg.spark.source.SparkTable
        self._logical, self._physical = write.LogicalWriteInfoImpl, write.PhysicalWriteInfoImpl
        self._options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap
        self._wrap, self._absent = jvm.scala.collection.immutable.ArraySeq, jvm.java.util.Optional.empty()
        self._lists = jvm.scala.jdk.javaapi.CollectionConverters
        method = jvm.java.lang.Class.forName("org.apache.iceberg.spark.source.SparkWrite$TaskCommit")
        self._files = method.getDeclaredMethod("files", gateway.new_array(jvm.java.lang.Class, 0))
        self._files.setAccessible(True)
        self._schemas = jvm.org.apache.iceberg.spark.SparkSchemaUtil
        self._data_type = getattr(getattr(jvm.org.apache.spark.sql.types, "DataType$"), "MODULE$")
        self._nulls = Nulls(session)

    def takes(self, table: Any, rows: DataFrame) -> bool:
        """Whether a task would write no other files: the rows have the table's columns, and its files are not sorted otherwise
        than new tables' are. Such rows, and those that would have more files open than there are days or buckets, are sorted and
        spread by Spark."""
        schema = table.schema()
        order = [
            f"{schema.findColumnName(field.sourceId())} {field}"
            for field in items(table.sortOrder().fields())
        ]
        partitions = items(table.spec().fields())
        if not all(_is_of_few(schema, field, rows) for field in partitions) or not _is_by_offset(order):
            return False
        held, columns = self._schemas.convert(schema), rows._jdf.queryExecution().analyzed().schema()  # noqa: SLF001
        fits = bool(self._data_type.equalsIgnoreNullability(columns, held))
        return fits and self._nulls.allow(table, held, rows)

    def write(self, table: Any, rows: DataFrame) -> list[Any]:
        """Write rows in the table's columns to files that no snapshot names yet; gives Iceberg's descriptions of them."""
        execution = rows._jdf.queryExecution()  # noqa: SLF001
        collected = self._rows_of(execution)
        if collected.isEmpty():
            return []
        options = self._jvm.java.util.HashMap()
        options.put("fanout-enabled", "true")  # rows of several days may stand in any order
        options.put("check-nullability", "false")  # `takes` has looked at the values
        info = self._logical(
            uuid.uuid4().hex,
            execution.analyzed().schema(),
            self._options(options),
            self._absent,
            self._absent,
        )
        batch = self._table(table).newWriteBuilder(info).build().toBatch()
        writer = batch.createBatchWriterFactory(self._physical(1)).createWriter(0, 0)
        try:
            writer.writeAll(self._lists.asJava(collected).iterator())
            message = writer.commit()
        except BaseException:
            writer.abort()
            raise
        finally:
            writer.close()
        return list(self._files.invoke(message, self._gateway.new_array(self._jvm.java.lang.Object, 0)))

    def _rows_of(self, execution: Any) -> Any:
        analyzed = execution.analyzed()
        if analyzed.nodeName() == _LOCAL:
            return analyzed.data()  # without a plan that copies them
        return self._wrap.unsafeWrapArray(execution.executedPlan().executeCollect())


def _is_of_few(schema: Any, field: Any, rows: DataFrame) -> bool:
    """Whether a small batch's rows have few values of a partition: for each a file is open."""
    transform, column = str(field.transform()), str(schema.findColumnName(field.sourceId()))
    if found := _BUCKETS.fullmatch(transform):
        return int(found[1]) <= _MOST_OPEN or (is_local(rows) and LocalRows.count(rows) <= _MOST_OPEN)
    return transform in _COARSE_TIMES and column in _TIMES


def _is_by_offset(order: list[str]) -> bool:
    """Whether files are sorted as a small batch is, or not at all; an entry begins with the column and ends in what comes first."""
    names = [one.partition(" ")[0] for one in order]
    return not order or (
        names == ["partition", "offset"]
        and all("identity(" in one and one.endswith("ASC NULLS FIRST") for one in order)
    )
