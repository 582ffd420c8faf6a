"""What a sink's user may not do in MariaDB or MySQL, and what the server itself does not."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tidings_connect.diagnosis import WARNING, Diagnosis
from tidings_sinks.jdbc.database import TableName
from tidings_sinks.jdbc.databases.mariadb import MariaDbDatabase
from tidings_sinks.jdbc.settings import Settings

_GRANT: Final = re.compile(
    r"GRANT (.+?) ON (?:TABLE )?(`(?:[^`]|``)+`|\*)\.(`(?:[^`]|``)+`|\*) TO ", re.IGNORECASE
)
_ALL: Final = "ALL PRIVILEGES"
_FAIL: Final = "the connector's tasks fail"


def mariadb_rights(
    database: object, settings: Settings, tables: Sequence[TableName], *, makes: bool
) -> Iterator[Diagnosis]:
    """What is wrong.

    Args:
        tables: those that are written and are there.
        makes: whether the sink would make others.
    """
    assert isinstance(database, MariaDbDatabase)
    ((version, read_only, name, user, role),) = database.ask(
        "SELECT version(), @@read_only, database(), current_user(), current_role()"
    )
    server = database.server
    if server.is_newer_than(str(version)):
        oldest = ".".join(map(str, server.oldest))
        yield Diagnosis(
            "server-old", f"the server is {server.title} {version}", f"nothing older than {oldest} was tried",
            "upgrade it", WARNING,
        )  # fmt: skip
    if read_only:
        yield Diagnosis(
            "read-only", "the server is read-only", "nothing is written: partitions rest",
            "connection.url of the primary, or SET GLOBAL read_only = OFF",
        )  # fmt: skip
    grants = [row[0] for row in database.ask(server.grants)]
    if role and not server.is_mysql:
        grants += [row[0] for row in database.ask("SHOW GRANTS FOR CURRENT_ROLE")]
    schema, _, positions = settings.positions.rpartition(".")
    at = schema or str(name)
    wanted = [(at, positions, ["SELECT", "INSERT", "UPDATE", "DELETE"])]
    if not database.columns(TableName(schema or None, positions)):
        wanted = [(at, positions, ["CREATE", "SELECT", "INSERT", "UPDATE", "DELETE"])]
    for table in tables:
        rights = ["SELECT", "INSERT", "UPDATE"] + ["DELETE"] * (settings.deletes or settings.truncates)
        wanted.append((table.schema or str(name), table.name, rights + ["ALTER"] * settings.adds_columns))
    if makes:
        wanted.append((str(name), "*", ["CREATE", "SELECT", "INSERT", "UPDATE"]))
    for where, table_name, rights in wanted:
        lacking = [each for each in rights if not _has(grants, where, table_name, each)]
        if lacking:
            place = f"`{where}`.{'*' if table_name == '*' else f'`{table_name}`'}"
            who = "@".join(f"'{part}'" for part in str(user).split("@"))
            yield Diagnosis(
                "no-right", f"the user lacks {', '.join(lacking)} on {place}", _FAIL,
                f"GRANT {', '.join(lacking)} ON {place} TO {who}",
            )  # fmt: skip


def _has(grants: Sequence[str], schema: str, table: str, right: str) -> bool:
    for text in grants:
        match = _GRANT.match(text)
        if match is None:
            continue
        rights = {each.strip().upper() for each in match[1].split(",")}
        if not {right, _ALL} & rights:
            continue
        at, of = (part[1:-1].replace("``", "`") if part != "*" else "*" for part in (match[2], match[3]))
        # In a database's name _ and % stand for others, unless a backslash is before them.
        pattern = "".join(
            {"%": ".*", "_": "."}.get(part, re.escape(part.removeprefix("\\")))
            for part in re.findall(r"\\.|.", at)
        )
        if (at == "*" or re.fullmatch(pattern, schema)) and of in {"*", table}:
            return True
    return False
