"""Options about snapshots."""

from typing import Final

from tidings_capture.cdc.signals.option_table import INCREMENTAL
from tidings_capture.cdc.snapshots.options import OVERRIDES
from tidings_capture.postgres.settings.option_checks import patterns_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    not_negative_long_problem,
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
    Option(
        "snapshot.delay.ms",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="How long to wait before the snapshot, in milliseconds.",
    ),
    Option(
        "streaming.delay.ms",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="How long to wait between snapshot and stream, in milliseconds.",
    ),
    Option(
        "snapshot.max.threads",
        "int",
        "1",
        check=positive_problem,
        documentation="How many tables a snapshot reads at a time.",
        remark="Sessions that read tables at once, all as of the same exported snapshot.",
    ),
    Option(
        "snapshot.tables.order.by.row.count",
        default="disabled",
        values=("disabled", "ascending", "descending"),
        documentation="Whether a snapshot begins with the smallest or the largest tables.",
        remark="By the rows that the server's statistics estimate.",
    ),
    Option(
        "snapshot.include.collection.list",
        "list",
        check=patterns_problem,
        documentation="Regular expressions: the captured tables that a snapshot reads.",
    ),
    Option(
        OVERRIDES,
        "list",
        documentation="Tables that a snapshot reads by a SELECT of your own, given in an option for each.",
        remark="Columns that the statement does not give are null.",
    ),
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
