"""The options of snapshots."""

from dataclasses import replace
from typing import Final

from tidings_capture.cdc.signals.option_table import INCREMENTAL
from tidings_capture.cdc.snapshots.option_table import (
    DELAYS,
    MAX_THREADS,
    ORDER_BY_ROWS,
    select_overrides_option,
)
from tidings_capture.mysql.settings.captured_options import list_problem
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
)

BASED: Final = "snapshot.mode.configuration.based."
SNAPSHOTS: Final = (
    Option(
        "snapshot.mode",
        default="initial",
        values=(
            "always",
            "initial",
            "initial_only",
            "no_data",
            "schema_only",
            "never",
            "when_needed",
            "recovery",
            "schema_only_recovery",
            "configuration_based",
        ),
        documentation="Whether tables are read before the log.",
        remark="`initial`: where nothing is stored; `initial_only`: and then nothing more; `no_data` (formerly `schema_only`, `never`): never; `always`: at each start, behind the log; `when_needed`: also where the log does not hold the stored position any more; `recovery` (formerly `schema_only_recovery`): never, and the schema history is begun anew at the stored position; `configuration_based`: as the options below say. `custom` needs a Java class, and is refused.",
    ),
    Option(
        f"{BASED}snapshot.data",
        "boolean",
        "false",
        documentation="With configuration_based: whether tables are read at each start.",
    ),
    Option(
        f"{BASED}snapshot.schema",
        "boolean",
        "false",
        documentation="With configuration_based: the structure of tables is told with a snapshot; accepted, without effect.",
    ),
    Option(
        f"{BASED}start.stream",
        "boolean",
        "false",
        documentation="With configuration_based: whether the log is read afterwards.",
    ),
    Option(
        f"{BASED}snapshot.on.schema.error",
        "boolean",
        "false",
        documentation="With configuration_based: the schema history is not read; accepted, without effect.",
    ),
    Option(
        f"{BASED}snapshot.on.data.error",
        "boolean",
        "false",
        documentation="With configuration_based: whether tables are read where the log does not hold the stored position any more.",
    ),
    *DELAYS,
    Option(
        "snapshot.include.collection.list",
        "list",
        check=list_problem,
        documentation="Of the captured tables those that a snapshot reads, as database.table.",
    ),
    ORDER_BY_ROWS,
    select_overrides_option("database"),
    Option(
        "snapshot.locking.mode",
        default="minimal",
        values=("minimal", "extended", "none"),
        documentation="Which tables cannot be written while a snapshot is read.",
        remark="See [locks](#locks).",
    ),
    Option(
        "snapshot.lock.timeout.ms",
        "long",
        "10000",
        check=at_least_one_problem,
        documentation="How long a lock is waited for, in milliseconds; then the task fails, and is tried again.",
    ),
    replace(
        MAX_THREADS,
        check=at_least_one_problem,
        remark="See [several tables at a time](#several-tables-at-a-time).",
    ),
    Option(
        "snapshot.fetch.size",
        "int",
        "2048",
        check=at_least_one_problem,
        documentation="How many rows are read at a time.",
    ),
    *INCREMENTAL,
    Option(
        "incremental.snapshot.allow.schema.changes",
        "boolean",
        "false",
        documentation="Accepted, without effect: a chunk is read again when a table was altered meanwhile.",
    ),
)
