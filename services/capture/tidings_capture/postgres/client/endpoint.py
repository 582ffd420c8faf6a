"""Where a database is and how to log in."""

import getpass
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import pq

from tidings_capture.postgres.errors import PostgresError
from tidings_service import Retry

_FORMATS: Final = "-c DateStyle=ISO,MDY -c IntervalStyle=postgres -c TimeZone=UTC -c extra_float_digits=3 -c bytea_output=hex -c standard_conforming_strings=on"
_ASKED: Final = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""The server asks a silent connection whether anybody is there, and ends it after a minute without an answer. By itself it asks
after two hours as a rule: so long the locks of a snapshot would hold up whoever alters a table, its transaction VACUUM, and its
slot WAL, after its host was gone. There is no ``tcp_user_timeout``: a task that waits for Kafka does not read, and is there."""
_CONNECT_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a database is and how to log in; libpq's words."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    sslmode: str = "prefer"
    initial_statements: tuple[str, ...] = ()
    """SQL that every ordinary session runs first (``database.initial.statements``)."""
    query_timeout_ms: int = 0
    """How long a statement of an ordinary session may take, milliseconds; 0: as the server says. COPY may take longer."""
    answer_seconds: float = 300.0
    """How long an ordinary session waits for the answer to a statement before it takes the connection for lost; 0: for
    ever. Of COPY only the kernel knows."""
    require_auth: str = ""
    """libpq's ``require_auth`` (``tidings.database.require.auth``); empty: no password in the clear to a server that has not
    proved who it is."""
    extra: tuple[tuple[str, str], ...] = ()
    """Further libpq parameters, for example ``sslrootcert``."""

    def parameters(self, *, replication: bool = False) -> dict[str, str]:
        found = {
            "host": self.host,
            "port": str(self.port),
            "user": self.user,
            "password": self.password,
            "dbname": self.database,
            "sslmode": self.sslmode,
            "connect_timeout": str(_CONNECT_SECONDS),
            "application_name": "tidings-capture",
            "client_encoding": "UTF8",
            "options": f"{_FORMATS} {_ASKED}",
            "keepalives_idle": "30",
            "keepalives_interval": "10",
            "tcp_user_timeout": "60000",  # else what is sent to a host that is gone is repeated for a quarter of an hour
            **dict(self.extra),
        }
        require_auth = self.require_auth or _default_require_auth(self.sslmode)
        if require_auth:
            found.setdefault("require_auth", require_auth)
        if replication:
            found["replication"] = "database"
        return found


def _default_require_auth(sslmode: str) -> str:
    """Every method but a password in the clear, unless a certificate has shown whose server it is.

    A server chooses how it is logged in to: whoever answers in its place would only have to ask. With ``require`` and less
    anybody can answer; LDAP, PAM and tokens, which need a password in the clear, belong on ``verify-full``.
    """
    return "" if sslmode in {"verify-ca", "verify-full"} else "!password"


def read_url(url: str) -> Endpoint:
    """An endpoint from a URL or a libpq connection string; what it does not say comes from libpq's defaults.

    Raises:
        PostgresError: it is neither; the message never holds the text, which may hold a password.
    """
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise PostgresError(
            "the database's URL cannot be read",
            hint="write postgresql://user:password@host:port/database",
            retry=Retry.NEVER,
        ) from error
    known = {
        default.keyword.decode(): (default.val or b"").decode() for default in pq.Conninfo.get_defaults()
    }

    def take(name: str, otherwise: str) -> str:
        return str(given.pop(name, None) or known.get(name) or otherwise)

    user = take("user", getpass.getuser())
    return Endpoint(
        host=take("host", "localhost"),
        port=int(take("port", "5432")),
        user=user,
        database=take("dbname", user),
        password=take("password", ""),
        sslmode=take("sslmode", "prefer"),
        extra=tuple((name, str(value)) for name, value in given.items() if value is not None),
    )
