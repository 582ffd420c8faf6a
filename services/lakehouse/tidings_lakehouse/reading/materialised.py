"""Histories as tables of their own: what `technical.<table>_history` is by choice, for readers that ask it often.

A table has what the view gives when it is made, and is made anew by the same command: in one commit, so that whoever reads it keeps what he
has begun with for an hour. `MATERIALISED_PROPERTY` tells it from a captured table of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.tables.tables import TOPIC_PROPERTY, quoted
from tidings_lakehouse.topics import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MATERIALISED_PROPERTY = "tidings.history.of"
"""Of a table that is a history: the table whose."""
_KEPT = "INTERVAL 1 HOUR"


def is_materialised(session: SparkSession, history: str) -> bool:
    """Whether a history is a table that was made here."""
    if not session.catalog.tableExists(history):
        return False
    found = session.sql(f"SHOW TBLPROPERTIES {history}").collect()
    return any(row["key"] == MATERIALISED_PROPERTY for row in found)


def materialise(
    session: SparkSession, table: str, history: str, statement: str, *, topic: str, keys: Sequence[str]
) -> int:
    """Make, or make anew, a history as a table; gives how many versions it has.

    Args:
        session: of the lakehouse.
        table: whose history.
        history: its name.
        statement: Spark's SELECT of it.
        topic: of the table; who erases rows looks for it.
        keys: the columns of the table's key, by which versions stand together.

    Raises:
        QueryError: the name is a captured table's, or Spark refuses it.
    """
    try:
        is_view = history.partition(".")[2] in _views(session, history.partition(".")[0])
        if is_view:
            session.sql(f"DROP VIEW {history}")
        elif session.catalog.tableExists(history) and not is_materialised(session, history):
            raise QueryError(
                f"{history} is the table of a topic, so the history of {table} cannot be a table of that name"
            )
        order = ", ".join([*map(quoted, keys), "__valid_from_lsn"])
        own = f"'{MATERIALISED_PROPERTY}' = '{table}', '{TOPIC_PROPERTY}' = '{topic}'"
        made = f"CREATE OR REPLACE TABLE {history} USING iceberg TBLPROPERTIES ({own})"
        session.sql(f"{made} AS SELECT * FROM ({statement}) ORDER BY {order}")  # noqa: S608 - names of our own
        before = session.sql(f"SELECT cast(current_timestamp() - {_KEPT} AS string)").collect()[0][0]
        session.sql(
            f"CALL {CATALOG}.system.expire_snapshots(table => '{history}', older_than => TIMESTAMP '{before}', retain_last => 1)"
        )
        return int(session.table(history).count())
    except PySparkException as error:
        raise QueryError(f"{history} cannot be made a table: {str(error).strip().splitlines()[0]}") from error


def drop_materialised(session: SparkSession, history: str) -> bool:
    """Remove a history that is a table, with its files; whether there was one. Then it is the view's again."""
    if not is_materialised(session, history):
        return False
    session.sql(f"DROP TABLE {history} PURGE")
    return True


def _views(session: SparkSession, namespace: str) -> set[str]:
    return {row["viewName"] for row in session.sql(f"SHOW VIEWS IN {namespace}").collect()}
