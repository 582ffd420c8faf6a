"""Where a database is: JDBC's and SQLAlchemy's URLs. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tidings_connect.errors import OptionError

_POSTGRES: Final = frozenset({"postgresql", "postgres"})
_PARAMETERS: Final[Mapping[str, str]] = {
    "user": "user",
    "password": "password",
    "ssl": "ssl",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "applicationname": "application_name",
    "application_name": "application_name",
    "connecttimeout": "connect_timeout",
    "connect_timeout": "connect_timeout",
    "options": "options",
}
"""The parameters of PostgreSQL's JDBC driver that libpq has as well, in lower case."""


@dataclass(frozen=True, slots=True)
class Address:
    """A database."""

    dialect: str
    """``postgresql`` or ``sqlite``."""
    database: str
    """Its name; of SQLite the file."""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    """libpq's."""

    def __str__(self) -> str:
        if self.dialect == "sqlite":
            return f"sqlite database {self.database}"
        return f"postgresql database {self.database} at {self.parameters['host']}:{self.parameters['port']}"


def read_address(config: Mapping[str, str]) -> Address:
    """The database of ``connection.url``, ``connection.user`` and ``connection.password``.

    Raises:
        OptionError: the URL cannot be read; it is not shown, for it may hold a password.
    """
    url = config["connection.url"].strip()
    url = url.removeprefix("jdbc:")
    scheme = url.partition(":")[0].partition("+")[0].lower()
    if scheme == "sqlite":
        return Address("sqlite", _sqlite_file(url))
    if scheme not in _POSTGRES:
        raise OptionError(
            f"connection.url is of {scheme!r}, which is not supported"
            if re.fullmatch(r"\w+", scheme)
            else "connection.url is not a URL of a database",
            hint="jdbc:postgresql://host:5432/name, postgresql://host:5432/name or sqlite:///file are",
        )
    return _postgres(url, config)


def _sqlite_file(url: str) -> str:
    rest = url.partition(":")[2]
    file = rest.removeprefix("///") if rest.startswith("///") else rest
    if not file or file == ":memory:" or file.startswith("//"):
        raise OptionError("connection.url names no file of SQLite", hint="sqlite:////directory/file.db does")
    return unquote(file)


def _postgres(url: str, config: Mapping[str, str]) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or 5432
    except ValueError:
        raise OptionError("connection.url has a port that is not a number") from None
    database = unquote(parts.path.lstrip("/"))
    if not database:
        raise OptionError("connection.url names no database", hint="jdbc:postgresql://host:5432/name does")
    parameters = {"host": host, "port": str(port), "dbname": database}
    for name, value in parse_qsl(parts.query):
        known = _PARAMETERS.get(name.lower())
        if known is None:
            raise OptionError(f"connection.url has the parameter {name}, which nobody would obey")
        if known == "ssl":
            parameters.setdefault("sslmode", "verify-full" if value.lower() == "true" else "prefer")
        else:
            parameters[known] = value
    if parts.password or "password" in parameters:
        raise OptionError("connection.url is shown, and holds a password: put it into connection.password")
    login = {
        "user": config.get("connection.user") or unquote(parts.username or ""),
        "password": config.get("connection.password", ""),
    }
    return Address(
        "postgresql", database, {**parameters, **{name: given for name, given in login.items() if given}}
    )
