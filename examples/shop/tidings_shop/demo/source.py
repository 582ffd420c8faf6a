"""Which database the demo's shop is in, and what differs because of it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Source:
    """A kind of database."""

    name: str
    """As the command's argument has it."""
    member: str
    """Of the stack."""
    title: str
    """For people."""
    database: str
    """The shop's."""
    log: str
    """What capture reads, in a word."""
    connector: str
    """The file with the connector's configuration."""
    connector_class: str = ""
    """Where it is another than the file's."""


POSTGRESQL: Final = Source("postgresql", "pg", "PostgreSQL", "shop", "WAL", "connector.json")
# A database of MariaDB or MySQL is what a schema is to PostgreSQL. With this name topics, tables of the lake and the domain are the same.
MARIADB: Final = Source("mariadb", "mariadb", "MariaDB", "public", "log", "connector.mariadb.json")
MYSQL: Final = replace(
    MARIADB,
    name="mysql",
    member="mysql",
    title="MySQL",
    connector_class="io.debezium.connector.mysql.MySqlConnector",
)
SOURCES: Final[Mapping[str, Source]] = {one.name: one for one in (POSTGRESQL, MARIADB, MYSQL)}
