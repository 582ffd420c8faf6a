"""``connection.url``: JDBC's form or SQLAlchemy's, for the databases that are spoken. Pure.

What JDBC's drivers call their parameters, libpq and PyMySQL call otherwise; one that has no counterpart is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tidings_sinks.jdbc.mariadb_tls import tls_parameter

_POSTGRES: Final = (
    "jdbc:postgresql:",
    "postgresql:",
    "postgres:",
    "postgresql+psycopg:",
    "postgresql+psycopg2:",
)
_MARIADB: Final = (
    "jdbc:mariadb:",
    "jdbc:mysql:",
    "mariadb:",
    "mysql:",
    "mariadb+pymysql:",
    "mysql+pymysql:",
)
_SQLITE: Final = ("jdbc:sqlite:", "sqlite:")
_ANY: Final = "sqlalchemy:"
_SAME: Final = frozenset(
    {"sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "connect_timeout", "application_name", "target_session_attrs",
     "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "gssencmode",
     "channel_binding", "options"}
)  # fmt: skip
_RENAMED: Final = {
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
_WITHOUT_EFFECT: Final = frozenset(
    {"reWriteBatchedInserts", "stringtype", "prepareThreshold", "tcpKeepAlive"}
)
"""Of JDBC's driver, and about how it works, not about what it does; here values are text that the server reads."""
_OF_JAVA: Final = frozenset(
    {"useUnicode", "characterEncoding", "rewriteBatchedStatements", "useServerPrepStmts", "cachePrepStmts",
     "prepStmtCacheSize", "prepStmtCacheSqlLimit", "useBulkStmts", "allowPublicKeyRetrieval", "tcpKeepAlive",
     "useCompression", "autoReconnect", "charset"}
)  # fmt: skip
"""The same of the drivers for MariaDB and MySQL."""
_ZONES: Final = frozenset({"serverTimezone", "connectionTimeZone"})
_UTC: Final = frozenset({"UTC", "GMT", "+00:00", "ETC/UTC"})
"""In which the session is in any case."""
_SESSIONS: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "preferSecondary": "prefer-standby",
}


class UrlError(ValueError):
    """A URL cannot be used; the message holds no part of it but names of parameters."""


@dataclass(frozen=True, slots=True)
class Address:
    """Which database."""

    dialect: str
    """``postgresql``, ``mariadb``, ``sqlite``, or ``sqlalchemy`` for any other."""
    parameters: Mapping[str, str]
    """libpq's, without user and password; of SQLite ``file``; of SQLAlchemy ``url``; of MariaDB ``host``, ``port``, ``database``,
    ``connect_timeout``, and what `tls_options` takes."""
    user: str | None = None


def read_url(url: str) -> Address:
    """What a URL says.

    Raises:
        UrlError: it is not understood, or of a database that is not spoken.
    """
    text = url.strip()
    for scheme in _POSTGRES:
        if text.lower().startswith(scheme):
            return _postgres(text[len(scheme) :])
    for scheme in _MARIADB:
        if text.lower().startswith(scheme):
            return _mariadb(text[len(scheme) :])
    for scheme in _SQLITE:
        if text.lower().startswith(scheme):
            return _sqlite(text[len(scheme) :], jdbc=scheme.startswith("jdbc"))
    if text.lower().startswith(_ANY):
        return _any(text[len(_ANY) :])
    raise UrlError(
        "a URL that begins with jdbc:postgresql:, jdbc:mariadb: or jdbc:sqlite: is expected (also postgresql:, mariadb: and sqlite:);"
        " other databases by sqlalchemy: and their URL of SQLAlchemy's form"
    )


class _Parts(NamedTuple):
    """Of a URL with hosts."""

    user: str
    hosts: list[tuple[str, str]]
    """Names and ports."""
    database: str
    pairs: list[tuple[str, str]]


def _split(rest: str, port: str) -> _Parts:
    """What is behind the scheme.

    Args:
        port: where none is given.
    """
    if not rest.startswith("//"):
        rest = "//localhost/" + rest.removeprefix("/")
    try:
        parts = urlsplit("postgresql:" + rest)
        login, _, hosts = parts.netloc.rpartition("@")
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise UrlError("the URL cannot be read") from None
    user, has_password, _ = login.partition(":")
    if has_password or any(name == "password" for name, _ in pairs):
        raise UrlError(
            "the URL holds a password; put it into connection.password, which is not shown to anybody"
        )
    found = []
    for host in filter(None, hosts.split(",")):
        name, _, own = host.rpartition(":") if ":" in host.rpartition("]")[2] else (host, "", port)
        if not own.isdigit():
            raise UrlError("the URL has a port that is not a number")
        found.append((unquote(name.strip("[]")), own))
    user = next((value for name, value in pairs if name == "user"), user)
    pairs = [(name, value) for name, value in pairs if name != "user"]
    return _Parts(unquote(user), found, unquote(parts.path.strip("/")), pairs)


def _postgres(rest: str) -> Address:
    parts = _split(rest, "5432")
    found: dict[str, str] = {}
    if parts.hosts:
        names, ports = zip(*parts.hosts, strict=True)
        found |= {"host": ",".join(names), "port": ",".join(ports)}
    if parts.database:
        found["dbname"] = parts.database
    for name, value in parts.pairs:
        found |= _parameter(name, value)
    return Address("postgresql", found, parts.user or None)


def _mariadb(rest: str) -> Address:
    parts = _split(rest, "3306")
    found: dict[str, str] = {}
    if len(parts.hosts) > 1:
        raise UrlError("the URL names several hosts, which is not possible here with MariaDB")
    for host, port in parts.hosts:
        found |= {"host": host, "port": port}
    if parts.database:
        found["database"] = parts.database
    for name, value in parts.pairs:
        if name in {"connectTimeout", "connect_timeout"} and value.isdigit():
            # JDBC's is in milliseconds, PyMySQL's in seconds.
            seconds = int(value) if name == "connect_timeout" else max(1, int(value) // 1000)
            found["connect_timeout"] = str(seconds)
        elif (tls := tls_parameter(name, value)) is not None:
            found |= tls
        elif name not in _OF_JAVA and not (name in _ZONES and value.upper() in _UTC):
            raise UrlError(f"the URL's parameter {name} has no counterpart here, or not with that value")
    return Address("mariadb", found, parts.user or None)


def _parameter(name: str, value: str) -> dict[str, str]:
    if name in _SAME:
        return {name: value}
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name in _WITHOUT_EFFECT:
        return {}
    if name == "ssl":
        return {"sslmode": "verify-full"} if value.lower() in {"", "true"} else {"sslmode": "disable"}
    if name == "currentSchema":
        return {"options": f"-csearch_path={value.replace(' ', '')}"}
    if name == "targetServerType" and value in _SESSIONS:
        return {"target_session_attrs": _SESSIONS[value]}
    raise UrlError(f"the URL's parameter {name} has no counterpart here, or not with that value")


def _sqlite(rest: str, *, jdbc: bool) -> Address:
    path, _, query = rest.partition("?")
    if not jdbc:
        path = path.removeprefix("//").removeprefix("/")  # SQLAlchemy's: three slashes, then the path
    path = path.removeprefix("file:")
    if query:
        raise UrlError("the URL of SQLite takes no parameters here")
    if not path or path == ":memory:":
        raise UrlError("the URL of SQLite names no file: what is in memory is gone with the task")
    return Address("sqlite", {"file": unquote(path)})


def _any(url: str) -> Address:
    if "://" not in url:
        raise UrlError(
            "a URL of SQLAlchemy's form is expected behind sqlalchemy:, as in sqlalchemy:dialect+driver://host/name"
        )
    login, _, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    if ":" in login:
        raise UrlError(
            "the URL holds a password; put it into connection.password, which is not shown to anybody"
        )
    return Address("sqlalchemy", {"url": url})
