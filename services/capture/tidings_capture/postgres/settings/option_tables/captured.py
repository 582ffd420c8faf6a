"""Options about what is captured: schemas, tables, columns, operations."""

from dataclasses import replace
from typing import Final

from tidings_capture.cdc.option_table import SKIP_UNCHANGED, SOURCE_TYPES, patterns_problem
from tidings_capture.postgres.settings.option_checks import message_keys_problem, operations_problem
from tidings_connect.config.option import Option

OPTIONS: Final = (
    Option(
        "schema.include.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions: the schemas to capture.",
    ),
    Option(
        "schema.exclude.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions: the schemas not to capture.",
    ),
    Option(
        "table.include.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions of schema.table: the tables to capture.",
    ),
    Option(
        "table.exclude.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions of schema.table: the tables not to capture.",
    ),
    Option(
        "column.include.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions of schema.table.column: the only columns that events have.",
    ),
    Option(
        "column.exclude.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions of schema.table.column: columns that events do not have.",
    ),
    Option(
        "message.key.columns",
        check=message_keys_problem,
        documentation="Columns that make the key of a table, instead of its primary key: schema.table:column,column; ...",
        remark="`<table>:<column>,<column>;<table>:<column>`",
    ),
    replace(
        SKIP_UNCHANGED,
        documentation="Leave out updates in which no captured column has changed; needs REPLICA IDENTITY FULL.",
    ),
    Option(
        "message.prefix.include.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions: logical messages with these prefixes only.",
    ),
    Option(
        "message.prefix.exclude.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions: no logical messages with these prefixes.",
    ),
    *SOURCE_TYPES,
    Option(
        "skipped.operations",
        "list",
        "t",
        check=operations_problem,
        may_be_empty=False,
        documentation="Operations to leave out: c, u, d, t, or none.",
        remark="A publication that is created leaves them out, where the option is set. As in Debezium, truncates are skipped unless `none` is given, and a changed key is not an update, but a delete and a create.",
    ),
)
