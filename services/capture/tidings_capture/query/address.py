"""Where a database is: JDBC's and SQLAlchemy's URLs. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tidings_connect.errors import OptionError

_POSTGRES: Final = frozenset({"postgresql", "postgres"})
_MARIADB: Final = frozenset({"mariadb", "mysql"})
_MARIADB_PARAMETERS: Final[Mapping[str, str]] = {
    "user": "user",
    "connecttimeout": "connect_timeout",
    "usessl": "ssl",
    "requiressl": "ssl",
    "sslmode": "sslmode",
    "serversslcert": "sslrootcert",
}
"""The parameters of the JDBC drivers of MariaDB and MySQL that are obeyed, in lower case."""
_MARIADB_FIXED: Final[Mapping[str, frozenset[str]]] = {
    "allowpublickeyretrieval": frozenset({"true"}),
    "useunicode": frozenset({"true"}),
    "characterencoding": frozenset({"utf-8", "utf8", "utf8mb4"}),
    "tinyint1isbit": frozenset({"false"}),
}
"""Those of them that say what is done anyway, and the values that do, in lower case."""
_SSL_MODES: Final[Mapping[str, str]] = {
    "disable": "disable",
    "disabled": "disable",
    "trust": "trust",
    "required": "trust",
    "verify-ca": "verify-ca",
    "verify_ca": "verify-ca",
    "verify-full": "verify-full",
    "verify_identity": "verify-full",
}
"""What the drivers call them, in lower case."""
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

_SHOWN: Final = "connection.url is shown, and holds a password: put it into connection.password"


@dataclass(frozen=True, slots=True)
class Address:
    """A database."""

    dialect: str
    """``postgresql``, ``mariadb`` or ``sqlite``; ``sqlalchemy`` for any other."""
    database: str
    """Its name; of SQLite the file; empty: all of MariaDB's that the user may see; of SQLAlchemy the dialect's name."""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By libpq's names; of SQLAlchemy ``url``, ``user`` and ``password``."""

    def __str__(self) -> str:
        if self.dialect == "sqlite":
            return f"sqlite database {self.database}"
        if self.dialect == "sqlalchemy":
            return f"{self.database} database"
        place = f"{self.parameters['host']}:{self.parameters['port']}"
        return (
            f"{self.dialect} database {self.database} at {place}"
            if self.database
            else f"{self.dialect} at {place}"
        )


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
    if scheme == "sqlalchemy":
        return _any(url.partition(":")[2], config)
    if scheme not in _POSTGRES | _MARIADB:
        raise OptionError(
            f"connection.url is of {scheme!r}, which is not supported"
            if re.fullmatch(r"\w+", scheme)
            else "connection.url is not a URL of a database",
            hint="jdbc:postgresql://host:5432/name, jdbc:mariadb://host:3306/name, jdbc:mysql://host:3306/name or sqlite:///file are;"
            " other databases by sqlalchemy: and their URL of SQLAlchemy's form, as in sqlalchemy:oracle+oracledb://host/?service_name=x",
        )
    return _server(url, config, "postgresql" if scheme in _POSTGRES else "mariadb")


def _sqlite_file(url: str) -> str:
    rest = url.partition(":")[2]
    file = rest.removeprefix("///") if rest.startswith("///") else rest
    if not file or file == ":memory:" or file.startswith("//"):
        raise OptionError("connection.url names no file of SQLite", hint="sqlite:////directory/file.db does")
    return unquote(file)


def _any(url: str, config: Mapping[str, str]) -> Address:
    found = re.fullmatch(r"(\w+)(?:\+\w+)?://([^/]*)(?:/.*)?", url)
    if found is None:
        raise OptionError(
            "connection.url has no URL of SQLAlchemy's form behind sqlalchemy:",
            hint="sqlalchemy:dialect+driver://host:port/name is one",
        )
    if ":" in found[2].rpartition("@")[0]:
        raise OptionError(_SHOWN)
    login = {"user": config.get("connection.user", ""), "password": config.get("connection.password", "")}
    return Address(
        "sqlalchemy",
        found[1].lower(),
        {"url": url, **{name: given for name, given in login.items() if given}},
    )


def _server(url: str, config: Mapping[str, str], dialect: str) -> Address:
    postgres = dialect == "postgresql"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or (5432 if postgres else 3306)
    except ValueError:
        raise OptionError("connection.url has a port that is not a number") from None
    if not url[len(parts.scheme) :].startswith("://"):
        raise OptionError(
            "connection.url names several servers, or a way to choose one: name one server",
            hint=f"jdbc:{parts.scheme}://host:{port}/name names one",
        )
    database = unquote(parts.path.lstrip("/"))
    if not database and postgres:
        raise OptionError("connection.url names no database", hint="jdbc:postgresql://host:5432/name does")
    parameters = {"host": host, "port": str(port), **({"dbname": database} if postgres else {})}
    parameters |= (_postgres_parameters if postgres else _mariadb_parameters)(parse_qsl(parts.query))
    if parts.password or "password" in parameters:
        raise OptionError(_SHOWN)
    login = {
        "user": config.get("connection.user") or unquote(parts.username or ""),
        "password": config.get("connection.password", ""),
    }
    return Address(
        dialect, database, {**parameters, **{name: given for name, given in login.items() if given}}
    )


def _postgres_parameters(query: Sequence[tuple[str, str]]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in query:
        known = _known(_PARAMETERS, name)
        if known == "ssl":
            parameters.setdefault("sslmode", "verify-full" if value.lower() == "true" else "prefer")
        else:
            parameters[known] = value
    return parameters


def _mariadb_parameters(query: Sequence[tuple[str, str]]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in query:
        if name.lower() == "password":
            parameters["password"] = value
            continue
        if value.lower() in _MARIADB_FIXED.get(name.lower(), ()):
            continue
        known = _known(_MARIADB_PARAMETERS, name)
        if known == "ssl":
            parameters.setdefault("sslmode", "verify-full" if value.lower() == "true" else "disable")
        elif known == "sslmode":
            mode = _SSL_MODES.get(value.lower())
            if mode is None:
                raise OptionError(
                    f"connection.url has an {name} that is not known",
                    hint="disable, trust, verify-ca and verify-full are",
                )
            parameters["sslmode"] = mode
        elif known == "connect_timeout":
            if not value.isdigit():
                raise OptionError(f"connection.url has a {name} that is not a number of milliseconds")
            parameters["connect_timeout"] = str(max(1, int(value) // 1000))
        else:
            parameters[known] = value
    return parameters


def _known(parameters: Mapping[str, str], name: str) -> str:
    known = parameters.get(name.lower())
    if known is None:
        raise OptionError(f"connection.url has the parameter {name}, which has no effect here: remove it")
    return known
