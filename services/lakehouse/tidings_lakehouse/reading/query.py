"""A look at the tables by Spark: one read-only statement in a session of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from tidings_lakehouse.errors import QueryError
from tidings_lakehouse.reading.rows import Rows
from tidings_lakehouse.settings import WarehouseSettings
from tidings_lakehouse.spark.session import running_session
from tidings_lakehouse.tables.names import known_names
from tidings_lakehouse.tables.table_counts import row_count, table_names
from tidings_lakehouse.topics import SET_ASIDE_TABLE, log_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONF = {"spark.sql.caseSensitive": "false"}
"""People write names as they like."""
_READING = re.compile(
    r"\s*(\(|select\b|with\b|values\b|from\b|table\b|show\b|describe\b|desc\b|explain\b)", re.IGNORECASE
)
_WRITING_PLANS = ("Insert", "Overwrite", "Append", "Delete", "Update", "Merge", "Create", "Drop", "Alter")


def select(settings: WarehouseSettings, statement: str) -> Rows:
    """Run a statement that only reads.

    Raises:
        QueryError: it does more, or Spark refuses it.
    """
    with running_session(settings, "tidings-lakehouse-sql", conf=_CONF) as session:
        return answer(session, statement)


def answer(session: SparkSession, statement: str) -> Rows:
    """The same on a session that there is."""
    statement = statement.strip().rstrip(";")
    if not _READING.match(statement):
        raise _refusal()
    try:
        _refuse_writing(session, statement)
        return _rows(session.sql(statement))
    except PySparkException as error:
        message = str(error).strip().splitlines()
        raise QueryError(message[0] if message else type(error).__name__) from error


def _refusal() -> QueryError:
    return QueryError(
        "only statements that read are run here", hint="begin with SELECT, WITH, SHOW or DESCRIBE"
    )


def list_tables(settings: WarehouseSettings) -> Rows:
    """Every table with its number of rows, null where it cannot be read, and why its topic is set aside, if it is."""
    with running_session(settings, "tidings-lakehouse-tables", conf=_CONF) as session:
        return tables_of(session)


def tables_of(session: SparkSession) -> Rows:
    """The same on a session that there is."""
    troubles: dict[str, str] = {}
    if session.catalog.tableExists(SET_ASIDE_TABLE):
        names = known_names(session)
        for row in session.table(SET_ASIDE_TABLE).collect():
            name = names.get((row["stream"], row["topic"]), "")
            troubles |= dict.fromkeys(
                (name, log_of(name)), f"{row['code']} since {row['since']:%Y-%m-%d %H:%M:%S}"
            )
    return Rows(
        ("table", "rows", "set aside"),
        [(name, _count(session, name), troubles.get(name, "")) for name in table_names(session)],
        (False, True, False),
    )


def _count(session: SparkSession, name: str) -> int | None:
    try:
        return row_count(session, name)
    except Py4JJavaError:  # what cannot be read is why the list is looked at
        return None


def _refuse_writing(session: SparkSession, statement: str) -> None:
    """A WITH or FROM in front of an INSERT changes nothing; Spark's parser tells them apart."""
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(statement)  # noqa: SLF001 - no public parser
    pending = [plan]
    while pending:
        node = pending.pop()
        if node.getClass().getSimpleName().startswith(_WRITING_PLANS):
            raise _refusal()
        children = node.children()
        pending += [children.apply(number) for number in range(children.size())]


def _rows(frame: DataFrame) -> Rows:
    """Values that JSON has no type for are written as SQL writes them, by Spark: Python has no year 294247."""
    fields = frame.schema.fields
    numeric = tuple(isinstance(field.dataType, st.NumericType) for field in fields)
    names = tuple(field.name for field in fields)
    plain = frame.toDF(*[f"c{number}" for number in range(len(fields))])
    shown = plain.select(
        *[_plain(f"c{number}", field.dataType).alias(f"c{number}") for number, field in enumerate(fields)]
    )
    return Rows(names, [tuple(row) for row in shown.collect()], numeric)


def _plain(name: str, data_type: st.DataType) -> Column:
    column = sf.col(name)
    if isinstance(data_type, st.IntegralType | st.FractionalType | st.BooleanType | st.StringType):
        return column
    if isinstance(data_type, st.BinaryType):
        return sf.hex(column)
    if isinstance(data_type, st.StructType | st.ArrayType | st.MapType):
        return sf.to_json(column)
    return column.cast("string")
