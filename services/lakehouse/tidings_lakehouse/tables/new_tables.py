"""Makes Iceberg tables by Iceberg's own interface, in one commit; by SQL it takes three statements."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from tidings_lakehouse.layout_rules import Partition
from tidings_lakehouse.tables.descriptions import Descriptions
from tidings_lakehouse.tables.layouts import Layouts
from tidings_lakehouse.topics import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NewTables:
    """Makes tables; for any thread."""

    def __init__(self, session: SparkSession, layouts: Layouts) -> None:
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to Iceberg's own interface
        self._session = session
        self._layouts = layouts
        self._descriptions = Descriptions(session)
        self._jvm = jvm
        self._lock = threading.Lock()
        self._namespaces: set[str] = set()
        self._types = jvm.org.apache.spark.sql.types.DataType
        self._util = jvm.org.apache.iceberg.spark.Spark3Util
        self._schemas = jvm.org.apache.iceberg.spark.SparkSchemaUtil

    def create(
        self,
        name: str,
        schema: st.StructType,
        properties: Mapping[str, str],
        partitions: Sequence[Partition],
        ordered_by: Sequence[str],
        identifiers: Sequence[str] = (),
    ) -> Any:
        """Make a table, and its namespace; gives Iceberg's own.

        Args:
            partitions: with their columns.
            ordered_by: columns by which the rows of its files are sorted.
            identifiers: columns that identify a row, which may not be null.
        """
        namespace = name.partition(".")[0]
        with self._lock:
            if namespace not in self._namespaces:
                self._session.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
                self._namespaces.add(namespace)
        iceberg = self._jvm.org.apache.iceberg
        columns = self._schemas.convert(self._types.fromJson(schema.json()))
        columns = self._descriptions.identified(columns, identifiers)
        catalog = self._util.loadIcebergCatalog(self._session._jsparkSession, CATALOG)  # noqa: SLF001
        table = catalog.buildTable(iceberg.catalog.TableIdentifier.parse(name), columns)
        table = table.withPartitionSpec(self._layouts.spec(name, columns, partitions))
        table = table.withSortOrder(self._layouts.order(name, columns, ordered_by))
        for key, value in properties.items():
            table = table.withProperty(key, value)
        return table.create()
