"""Views in the catalog for other readers: histories, and all tables as of one commit. Made by Spark.

An Iceberg view holds the SQL of the engine that made it, so Spark reads these, and what takes Spark's views over; DuckDB and
pyiceberg read none. `tidings-lakehouse sql` makes its own as they are named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from tidings_lakehouse.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_views(session: SparkSession, queries: Mapping[str, str]) -> list[str]:
    """Make or replace views; gives their names.

    Raises:
        QueryError: the catalog cannot hold views, or Spark refuses one.
    """
    for name, statement in queries.items():
        try:
            session.sql(f"CREATE NAMESPACE IF NOT EXISTS {name.partition('.')[0]}")
            session.sql(f"CREATE OR REPLACE VIEW {name} AS {statement}")
        except PySparkException as error:
            raise QueryError(
                f"the view {name} cannot be made: {str(error).strip().splitlines()[0]}",
                hint="a JDBC catalog of version V1 or a REST catalog holds views; else print the queries and use them",
            ) from error
    return list(queries)
