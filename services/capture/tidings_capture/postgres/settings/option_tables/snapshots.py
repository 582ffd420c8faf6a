"""Options about snapshots."""

from dataclasses import replace
from typing import Final

from tidings_capture.cdc.option_table import patterns_problem
from tidings_capture.cdc.signals.option_table import INCREMENTAL
from tidings_capture.cdc.snapshots.option_table import (
    DELAYS,
    MAX_THREADS,
    ORDER_BY_ROWS,
    select_overrides_option,
)
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    not_negative_problem,
    positive_problem,
)

OPTIONS: Final = (
    Option(
        "snapshot.mode",
        default="initial",
        values=(
            "always",
            "initial_only",
            "configuration_based",
            "when_needed",
            "initial",
            "no_data",
            "never",
        ),
        documentation="When rows are read rather than streamed.",
        remark="`never` is Debezium's old name of `no_data`. `when_needed` also takes a new snapshot when the slot was lost, dropped or moved.",
    ),
    Option(
        "snapshot.mode.configuration.based.snapshot.data",
        "boolean",
        "false",
        documentation="With configuration_based: whether to read the rows.",
        remark="A snapshot at every start.",
    ),
    Option(
        "snapshot.mode.configuration.based.snapshot.schema",
        "boolean",
        "false",
        documentation="The schema is read with the data: accepted, without effect.",
        remark="Accepted, without effect: the schema is read with the data.",
    ),
    Option(
        "snapshot.mode.configuration.based.start.stream",
        "boolean",
        "false",
        documentation="With configuration_based: whether to stream afterwards.",
    ),
    Option(
        "snapshot.mode.configuration.based.snapshot.on.schema.error",
        "boolean",
        "false",
        documentation="There is no schema history: accepted, without effect.",
        remark="Accepted, without effect: there is no schema history.",
    ),
    Option(
        "snapshot.mode.configuration.based.snapshot.on.data.error",
        "boolean",
        "false",
        documentation="With configuration_based: whether to read the rows when the offset is no longer there.",
        remark="A new snapshot when the slot was lost, dropped or moved.",
    ),
    *DELAYS,
    replace(
        MAX_THREADS,
        check=positive_problem,
        remark="Sessions that read tables at once, all as of the same exported snapshot.",
    ),
    ORDER_BY_ROWS,
    Option(
        "snapshot.include.collection.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions: the captured tables that a snapshot reads.",
    ),
    select_overrides_option("schema"),
    *INCREMENTAL,
    Option(
        "snapshot.isolation.mode",
        default="serializable",
        values=("serializable", "repeatable_read"),
        documentation="The isolation level of the snapshot's transactions.",
        remark="The same here: every session reads one exported snapshot.",
    ),
    Option(
        "snapshot.fetch.size",
        "int",
        check=not_negative_problem,
        documentation="COPY streams: accepted, without effect.",
        remark="Accepted, without effect: COPY streams.",
    ),
    Option(
        "snapshot.lock.timeout.ms",
        "long",
        "10000",
        documentation="No locks are taken: accepted, without effect.",
        remark="Accepted, without effect: a snapshot takes no locks.",
    ),
)
