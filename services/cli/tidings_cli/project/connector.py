"""The connector of a project: what capture is told, and why each choice was made."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidings_domain.starting.database import Server
from tidings_domain.starting.tables import Table

_PLAIN = re.compile(r"[A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of the connector, its value, and the reason."""

    option: str
    value: str
    why: str


def captured(tables: Sequence[Table]) -> list[Table]:
    """The tables that can be published without PostgreSQL refusing their updates."""
    return [table for table in tables if table.identity]


def choices(name: str, server: Server, tables: Sequence[Table]) -> list[Choice]:
    """Every option that is written, in the order of the file."""
    slot = f"tidings_{name.replace('-', '_')}"
    chosen = captured(tables)
    return [
        Choice(
            "connector.class",
            "io.debezium.connector.postgresql.PostgresConnector",
            "Tidings' capture and Kafka Connect with Debezium take the same configuration.",
        ),
        Choice("tasks.max", "1", "A database's WAL is one stream."),
        *_place(server),
        Choice("topic.prefix", name, f"The technical topics are {name}.<schema>.<table>; it stays for good."),
        Choice("plugin.name", "pgoutput", "PostgreSQL's own, nothing has to be installed on the server."),
        Choice("slot.name", slot, "By it PostgreSQL keeps the WAL that was not read yet; no two readers share one."),
        Choice("publication.name", slot, "Which tables' changes PostgreSQL sends."),
        Choice(
            "publication.autocreate.mode",
            "filtered",
            "The publication is made with the tables below and no others: of a published table without a replica identity"
            " PostgreSQL refuses every UPDATE and DELETE, also your application's.",
        ),
        *_partitions(chosen),
        Choice("table.include.list", ",".join(_expression(table.name) for table in chosen), _tables_why(tables)),
        Choice("snapshot.mode", "initial", "Rows that are there already are read once, then the changes follow."),
        Choice(
            "provide.transaction.metadata",
            "true",
            "Says where a transaction ends, so that rules see whole transactions and never a part of one.",
        ),
        Choice("decimal.handling.mode", "precise", _decimals_why(chosen)),
        Choice(
            "heartbeat.interval.ms",
            "10000",
            "The slot moves on while only other databases of the server, or tables that are not captured, change.",
        ),
    ]  # fmt: skip


def _place(server: Server) -> Iterator[Choice]:
    where = "From the environment (.env), so that one file serves this machine, containers and Kubernetes."
    for option, variable, why in (
        ("hostname", "HOST", where),
        ("port", "PORT", where),
        ("dbname", "NAME", where),
        ("user", "USER", where),
        ("password", "PASSWORD", "A reference: no file here holds the password."),
    ):
        yield Choice(f"database.{option}", f"${{env:TIDINGS_DATABASE_{variable}}}", why)
    if server.ssl_mode is not None:
        yield Choice("database.sslmode", server.ssl_mode, "As in the URL that you gave.")


def _partitions(tables: Sequence[Table]) -> Iterator[Choice]:
    found = [table.name for table in tables if table.partitioned]
    if found:
        yield Choice(
            "publish.via.partition.root",
            "true",
            f"Partitioned: {', '.join(found)}. A partition's rows come as the table's own, on one topic, also those of"
            " partitions that are made later.",
        )


def _tables_why(tables: Sequence[Table]) -> str:
    left = [table.name for table in tables if not table.identity]
    if not left:
        return "The tables that were found. A new one is not captured before it stands here."
    return (
        f"Left out, because they have no primary key and no replica identity: {', '.join(left)}. ALTER TABLE ... ADD PRIMARY KEY,"
        " or REPLICA IDENTITY FULL where there is none to be had; then run `tidings init` again."
    )


def _decimals_why(tables: Sequence[Table]) -> str:
    exact = [
        f"{table.name}.{column.name}"
        for table in tables
        for column in table.columns
        if "Decimal" in column.kind.python
    ]
    said = f"numeric, exact to the last digit: {', '.join(exact[:6])}{' ...' if len(exact) > 6 else ''}." if exact else (
        "There is no numeric column today; one that comes is exact to the last digit."
    )  # fmt: skip
    return f"{said} double would round."


def _expression(name: str) -> str:
    """A table's name as the expression that the option takes."""
    return name if _PLAIN.fullmatch(name) else re.sub(r"([^\w.])", r"\\\1", name)
