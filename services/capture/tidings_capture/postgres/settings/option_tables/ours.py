"""Options that are Tidings' own, and no other connector has."""

from typing import Final

from tidings_capture.cdc.option_table import patterns_problem
from tidings_capture.postgres.settings.option_checks import (
    limit_problem,
    require_auth_problem,
)
from tidings_capture.postgres.wal.options import GUARD, ON_LOSS, PAUSED_CONNECTORS, VOLUME
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import not_negative_problem, size_problem

REQUIRE_AUTH: Final = "tidings.database.require.auth"

OPTIONS: Final = (
    Option(
        REQUIRE_AUTH,
        check=require_auth_problem,
        documentation="How the server may ask for a login, as libpq's require_auth. Default: no password in the clear unless database.sslmode is verify-ca or verify-full.",
        remark="How the server may ask for a login, as libpq's `require_auth`: `scram-sha-256,md5`, `password`, `!password`.",
        default_text="no password in the clear unless `database.sslmode` is `verify-ca` or `verify-full`",
    ),
    Option(
        "tidings.receive.timeout.ms",
        "int",
        "300000",
        check=not_negative_problem,
        remark="A server that has been silent for so long on the replication connection, and does not answer when it is asked, counts as lost: the task connects again. So does one that has not answered a query on an ordinary connection for so long. 0: never.",
        documentation="How long the server may be silent before it counts as lost, in milliseconds; 0: for ever.",
    ),
    Option(
        "tidings.managed.by",
        documentation="Whose the connector is: the chart's registration removes its own and no other's.",
        remark="Whose the connector is; the Helm chart's registration removes its own and no other's.",
        form="text",
    ),
    Option(
        "tidings.schema.changes",
        "boolean",
        "false",
        documentation="Whether changes of table structures are published on <prefix>.schema-changes.",
        remark="Publishes `<prefix>.schema-changes`; see [Schema changes](#schema-changes).",
    ),
    Option(
        "tidings.streaming.mode",
        default="off",
        values=("off", "on", "parallel"),
        documentation="Whether transactions in progress are streamed by the server before they commit.",
        remark="The server sends big transactions before they are committed; see [Protocol](#protocol). `parallel` needs PostgreSQL 16 and differs only in what the server says of aborts.",
    ),
    Option(
        "tidings.streaming.memory.bytes",
        "int",
        "16777216",
        check=not_negative_problem,
        documentation="How much of a streamed transaction is kept in memory before it is spilled to disk, in bytes.",
        remark="Changes of unfinished transactions above this are kept on disk.",
    ),
    Option(
        "tidings.two.phase",
        "boolean",
        "false",
        documentation="Whether prepared transactions are decoded when they are prepared.",
        remark="The server sends prepared transactions at PREPARE TRANSACTION (PostgreSQL 15 and newer); they are published at COMMIT PREPARED.",
    ),
    Option(
        ON_LOSS,
        values=("fail", "snapshot", "incremental", "continue"),
        documentation="Default: as snapshot.mode says; incremental where tidings.wal.guard.drop is set.",
        remark="What to do where slot, publication or server cannot give what follows the stored offset; unset: as `snapshot.mode` says. See [operations](operations.md#loss-is-never-silent).",
    ),
    Option(
        VOLUME,
        check=size_problem,
        documentation="The room for pg_wal on the database server, such as 100GB; for forecasts and percentages.",
        remark="The room for `pg_wal` on the server, such as `100GB`: for forecasts and percentages.",
        form="size",
    ),
    Option(
        f"{GUARD}warn",
        check=limit_problem,
        documentation="WAL the slot may retain before the guard acts: 20GB, or 80% of the room there is.",
        remark="The [guard](operations.md#the-guard)'s limits: WAL the slot may retain before it acts.",
        form="size or %",
    ),
    Option(
        f"{GUARD}stop.snapshots",
        check=limit_problem,
        documentation="WAL the slot may retain before the guard acts: 20GB, or 80% of the room there is.",
        remark="Interrupts snapshots.",
        form="size or %",
    ),
    Option(
        f"{GUARD}pause",
        check=limit_problem,
        documentation="WAL the slot may retain before the guard acts: 20GB, or 80% of the room there is.",
        remark="Rests other work.",
        form="size or %",
    ),
    Option(
        f"{GUARD}drop",
        check=limit_problem,
        documentation="WAL the slot may retain before the guard acts: 20GB, or 80% of the room there is.",
        remark="Drops the slot; the tables are read again.",
        form="size or %",
    ),
    Option(
        PAUSED_CONNECTORS,
        "list",
        check=patterns_problem,
        documentation="Connectors of this worker that rest from step pause on.",
        remark="The connectors of this worker, for other servers, that rest then.",
    ),
)
