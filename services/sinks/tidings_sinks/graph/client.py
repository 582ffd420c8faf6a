"""The driver: the one module that imports it. It has one connection at a time, and one transaction.

Errors are translated by their codes. The driver's own words are told only of statements that a person has written, and before
any record is put to them: otherwise they hold values.
"""

import ssl
from collections.abc import Callable
from datetime import datetime, time, timedelta, tzinfo
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import neo4j
import neo4j.exceptions
import neo4j.spatial
import neo4j.time

from tidings_service import get_logger
from tidings_sinks.errors import BusyError, DataProblemError, LostError, TargetError
from tidings_sinks.graph.settings import Settings

_OLDEST: Final = (5, 24)
_WGS_84: Final = 4326
_OF_DATA: Final = (
    "Neo.ClientError.Statement.",
    "Neo.ClientError.Schema.ConstraintV",
    "Neo.ClientError.Schema.TokenNameError",  # a property without a name
    "Neo.ClientError.General.",
)
_BUSY: Final = (
    "Neo.TransientError.",
    "Neo.ClientError.Cluster.",
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTerminated",
    "Neo.ClientError.Transaction.LockClientStopped",
    "Neo.DatabaseError.",
)
_T = TypeVar("_T")
_log = get_logger(__name__)
Answer = list[list[Any]]


def nano_datetime(moment: datetime, nanoseconds: int) -> object:
    """A moment without a zone, with nanoseconds after its microseconds."""
    exact = moment.microsecond * 1000 + nanoseconds
    return neo4j.time.DateTime(
        moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second, exact
    )


def nano_time(clock: time, nanoseconds: int) -> object:
    """A time of day, with nanoseconds after its microseconds."""
    return neo4j.time.Time(clock.hour, clock.minute, clock.second, clock.microsecond * 1000 + nanoseconds)


class _Offset(tzinfo):
    """Python's own offsets answer for moments only, and the driver asks them for a time of day."""

    def __init__(self, offset: timedelta) -> None:
        self._offset = offset

    def utcoffset(self, _: datetime | None) -> timedelta:
        return self._offset

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return str(self._offset)


def zoned_time(clock: time) -> time:
    """A time of day with its offset, as the driver takes it."""
    offset = clock.utcoffset()
    return clock if offset is None else clock.replace(tzinfo=_Offset(offset))


def point(x: float, y: float, srid: int | None) -> object:
    """A point in the plane, or by longitude and latitude."""
    if srid == _WGS_84:
        return neo4j.spatial.WGS84Point((x, y))
    return neo4j.spatial.CartesianPoint((x, y))


class Client:
    """A session of a server.

    Raises (everything):
        LostError, BusyError: later.
        DataProblemError: the server refuses what a record holds.
        TargetError: it will not do it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._driver = neo4j.GraphDatabase.driver(settings.uris[0], **_driver_options(settings))
        self._session: neo4j.Session | None = None
        self._transaction: neo4j.Transaction | None = None

    def check(self) -> None:
        """That the server is there, takes the login, and is not too old."""
        agent = _asked(self._driver.get_server_info).agent
        numbers = agent.partition("/")[2].split(".")
        version = tuple(int(part) for part in numbers[:2] if part.isdigit())
        if len(version) == 2 and version < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise TargetError(f"the server is {agent}, which is too old: Neo4j {oldest} is needed")

    def close(self) -> None:
        """Let go of the server."""
        session, self._transaction, self._session = self._session, None, None
        try:
            if session is not None:
                session.close()
        except (neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError, OSError) as error:
            _log.info("a connection was lost before it was let go", reason=type(error).__name__)
        finally:
            self._driver.close()

    def begin(self) -> None:
        """Begin a transaction."""
        if self._session is None:
            self._session = self._driver.session(database=self._settings.database or None)
        session = self._session
        self._transaction = _asked(lambda: session.begin_transaction(metadata={"app": "tidings"}))

    def run(self, statement: str, parameters: dict[str, Any]) -> Answer:
        """Run a statement in the transaction; gives its rows."""
        transaction = self._transaction
        assert transaction is not None
        return _asked(lambda: [row.values() for row in transaction.run(statement, parameters)])

    def commit(self) -> None:
        """Commit; a `LostError` leaves open whether it was done."""
        transaction, self._transaction = self._transaction, None
        assert transaction is not None
        _asked(transaction.commit)

    def rollback(self) -> None:
        """Roll back what is open; nothing happens where nothing is."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            _asked(transaction.close)

    def alone(self, statement: str, parameters: dict[str, Any] | None = None) -> Answer:
        """Run a statement in a transaction of its own."""
        self.begin()
        try:
            found = self.run(statement, parameters or {})
            self.commit()
        finally:
            self.rollback()
        return found

    def of_system(self, statement: str) -> Answer:
        """Run a statement about the server's databases, in the one that knows of them."""

        def ask() -> Answer:
            with self._driver.session(database="system") as session:
                return [row.values() for row in session.run(statement)]

        return _asked(ask)

    def explain(self, statement: str, option: str) -> None:
        """Have the server read a statement that stands in an option.

        Raises:
            TargetError: it does not understand it; says what it says.
        """
        self.begin()
        transaction = self._transaction
        assert transaction is not None
        try:
            transaction.run(f"EXPLAIN {statement}").consume()
        except neo4j.exceptions.ClientError as error:
            if not (error.code or "").startswith("Neo.ClientError.Statement."):
                raise _translated(error) from None
            words = (error.message or "").partition("\n")[0]
            raise TargetError(f"the server does not take the statement of {option}: {words}") from None
        except (neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError, OSError) as error:
            raise _translated(error) from None
        finally:
            self.rollback()


def _asked(ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except (OverflowError, UnicodeEncodeError) as error:
        raise DataProblemError(f"Neo4j cannot hold a value ({type(error).__name__})") from None
    except (neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError, OSError) as error:
        raise _translated(error) from None


def _translated(error: Exception) -> Exception:
    if not isinstance(error, neo4j.exceptions.Neo4jError):
        return _of_driver(error)
    code = error.code or "Neo.DatabaseError.Unknown"
    if code.startswith("Neo.ClientError.Security."):
        return TargetError(f"Neo4j refuses the login, or what it may do: {code}")
    if code.startswith(_BUSY) or error.is_retryable():
        return BusyError(f"Neo4j cannot do it now: {code}")
    if code.startswith(_OF_DATA):
        return DataProblemError(
            f"Neo4j refuses what the record asks for: {code}, GQL status {error.gql_status}"
        )
    return TargetError(f"Neo4j does not do it: {code}")


def _of_driver(error: Exception) -> Exception:
    if isinstance(error, neo4j.exceptions.ConfigurationError):
        return TargetError(f"the driver does not take the connector's options: {type(error).__name__}")
    return LostError(f"Neo4j is away: {type(error).__name__}")


# Options


def _driver_options(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {
        "auth": _auth(settings),
        "connection_timeout": settings.connect_seconds,
        "connection_acquisition_timeout": settings.acquisition_seconds,
        "max_connection_lifetime": settings.lifetime_seconds,
        "max_connection_pool_size": settings.pool,
        "liveness_check_timeout": settings.idle_seconds,
        "notifications_min_severity": "OFF",
        "user_agent": "tidings-sinks",
        "telemetry_disabled": True,
    }
    if len(settings.uris) > 1:
        members = [_address(uri) for uri in settings.uris]
        found["resolver"] = lambda _: members
    if "+" not in urlsplit(settings.uris[0]).scheme:
        found["encrypted"] = settings.encrypted
        if settings.encrypted:
            found["ssl_context"] = _tls(settings)
            del found["encrypted"]
    return found


def _address(uri: str) -> tuple[str, int]:
    parts = urlsplit(uri)
    return str(parts.hostname), parts.port or 7687


def _auth(settings: Settings) -> neo4j.Auth | None:
    login = settings.login
    match login.kind:
        case "NONE":
            return None
        case "BASIC":
            return neo4j.basic_auth(login.principal, login.credentials, login.realm or None)
        case "KERBEROS":
            return neo4j.kerberos_auth(login.credentials)
        case "BEARER":
            return neo4j.bearer_auth(login.credentials)
        case _:
            return neo4j.custom_auth(login.principal, login.credentials, login.realm or None, login.scheme)


def _tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if settings.trust.startswith("TRUST_ALL"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if settings.trust.startswith("TRUST_CUSTOM"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for file in settings.certificates:
            context.load_verify_locations(cafile=file)
    context.check_hostname = settings.verifies_host
    return context
