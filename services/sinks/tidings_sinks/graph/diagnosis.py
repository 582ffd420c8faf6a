"""What is wrong with a graph that nodes would be written to."""

from collections.abc import Iterator
from typing import Final

from tidings_connect.diagnosis import WARNING, Diagnosis
from tidings_connect.errors import ConnectError
from tidings_sinks.diagnosis import of_error
from tidings_sinks.errors import TargetError
from tidings_sinks.graph import options as names
from tidings_sinks.graph.client import Client
from tidings_sinks.graph.constraints import missing_constraints
from tidings_sinks.graph.settings import Settings
from tidings_sinks.graph.writer import explained

_WHERE: Final = f"{names.URI}, {names.USER} and {names.PASSWORD}"
_DATABASES: Final = (
    "SHOW DATABASES YIELD name, access, currentStatus, home RETURN name, access, currentStatus, home"
)


def diagnose(settings: Settings) -> Iterator[Diagnosis]:
    """See `SinkConnector.diagnose`."""
    client = Client(settings)
    try:
        client.check()
        found = list(_database(client, settings))
        yield from found
        if not found:
            yield from _statements(client, settings)
            yield from _constraints(client, settings)
    except ConnectError as error:
        yield of_error(error, _WHERE)
    finally:
        client.close()


def _database(client: Client, settings: Settings) -> Iterator[Diagnosis]:
    databases = {name: (access, status) for name, access, status, home in client.of_system(_DATABASES)
                 if name == settings.database.lower() or (home and not settings.database)}  # fmt: skip
    if not databases:
        yield Diagnosis(
            "no-database", f"there is no database {settings.database or 'that is the home of the user'}",
            "the connector's tasks fail", f"CREATE DATABASE {settings.database}, or correct {names.DATABASE}",
        )  # fmt: skip
    for name, (access, status) in databases.items():
        if status != "online":
            yield Diagnosis(
                "not-online", f"database {name} is {status}", "nothing is written", f"START DATABASE {name}"
            )
        elif access != "read-write":
            yield Diagnosis(
                "read-only", f"database {name} is {access}", "the connector's tasks fail",
                f"ALTER DATABASE {name} SET ACCESS READ WRITE, or server.databases.read_only in neo4j.conf",
            )  # fmt: skip


def _statements(client: Client, settings: Settings) -> Iterator[Diagnosis]:
    for option, statement in explained(settings):
        try:
            client.explain(statement, option)
        except TargetError as error:
            yield Diagnosis(
                "statement", str(error), "the connector's tasks fail", error.hint or f"correct {option}"
            )


def _constraints(client: Client, settings: Settings) -> Iterator[Diagnosis]:
    for pattern, label, keys in missing_constraints(client, settings):
        wanted = ", ".join(f"n.{key}" for key in keys)
        yield Diagnosis(
            "no-constraint", f"no constraint makes the key of {pattern} unique", "it is slow, and two tasks may write a node twice",
            f"CREATE CONSTRAINT FOR (n:{label}) REQUIRE ({wanted}) IS UNIQUE", WARNING,
        )  # fmt: skip
