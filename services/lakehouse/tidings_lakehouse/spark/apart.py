"""Rows without the plan that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def apart(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The same rows without the plan that reads them.

    A write to a table has Spark read again whatever is kept of it, and a frame cannot be joined with one that it was made of.
    """
    execution = frame._jdf.queryExecution()  # noqa: SLF001 - no public way keeps rows as they are
    spark: Any = session._jsparkSession  # noqa: SLF001
    return DataFrame(spark.internalCreateDataFrame(execution.toRdd(), frame._jdf.schema(), False), session)  # noqa: SLF001
