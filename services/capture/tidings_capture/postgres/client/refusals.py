"""What PostgreSQL and libpq say of errors, as errors of ours that name the option and never a cell or a password."""

import re
from typing import Final

import psycopg
from psycopg import pq

from tidings_capture.postgres.client.endpoint import Endpoint
from tidings_capture.postgres.errors import PostgresError
from tidings_service import Retry

_READ_ONLY: Final = "25006"
_SQLSTATE_OF_REFUSAL: Final = (
    # libpq does not hand on the SQLSTATE of a refused connection, only the server's words.
    (re.compile(r"password authentication failed|no password supplied|authentication failed"), "28P01"),
    (re.compile(r'no pg_hba\.conf entry|role "[^"]*" (does not exist|is not permitted)'), "28000"),
    (re.compile(r'database "[^"]*" does not exist'), "3D000"),
    (re.compile(r"too many clients|remaining connection slots|too many connections"), "53300"),
    (re.compile(r"starting up|shutting down|recovery mode|not yet accepting"), "57P03"),
    (re.compile(r"permission denied|must be superuser or replication role"), "42501"),
)


def refused(endpoint: Endpoint, text: str) -> PostgresError:
    """The error of a login that libpq says this of."""
    where = f"database.hostname={endpoint.host} database.port={endpoint.port}"
    if "cleartext password" in text and "requirement" in text:
        return PostgresError(
            f"the server at {where} asks for the password in the clear, and it is not sent to a server that has not proved "
            f"who it is (database.sslmode={endpoint.sslmode})",
            hint="set database.sslmode=verify-full, or scram-sha-256 in the server's pg_hba.conf; or allow it with "
            "tidings.database.require.auth=password",
            retry=Retry.NEVER,
        )
    sqlstate = next((state for pattern, state in _SQLSTATE_OF_REFUSAL if pattern.search(text)), None)
    if sqlstate is not None and sqlstate.startswith("28"):
        return PostgresError(
            f"PostgreSQL at {where} refused database.user={endpoint.user} with the given database.password "
            f"(SQLSTATE {sqlstate})",
            sqlstate=sqlstate,
            hint="correct database.user or database.password, or the server's pg_hba.conf",
        )
    if sqlstate == "3D000":
        return PostgresError(
            f"PostgreSQL at {where} has no database.dbname={endpoint.database} (SQLSTATE {sqlstate})",
            sqlstate=sqlstate,
            hint="correct database.dbname",
        )
    reason = text.strip().splitlines()[-1].rsplit("FATAL:", maxsplit=1)[-1].strip() if text.strip() else "?"
    return PostgresError(f"cannot connect to PostgreSQL at {where}: {reason}", sqlstate=sqlstate)


def _words(sqlstate: str | None, words: str) -> str:
    """What the server says of an error, or only its kind where its words repeat a cell.

    Data exceptions (class 22, ``invalid input syntax for type integer: "..."``) and violated constraints (23) do.
    """
    if sqlstate is None or sqlstate[:2] not in {"22", "23"}:
        return words
    try:
        return psycopg.errors.lookup(sqlstate).__name__
    except KeyError:
        return "a value was refused"


def translated(action: str, error: psycopg.Error) -> PostgresError:
    """The error of a statement, without a cell that its words may repeat."""
    state = error.sqlstate
    words = _words(state, error.diag.message_primary or str(error).strip().splitlines()[0])
    return PostgresError(f"{action}: {words}" + (f" (SQLSTATE {state})" if state else ""), sqlstate=state)


def result_error(connection: pq.abc.PGconn, result: pq.abc.PGresult, action: str) -> PostgresError:
    """As `translated`, of a result of libpq's."""
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    primary = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    words = (
        (primary or connection.error_message or b"the connection was lost").decode(errors="replace").strip()
    )
    sqlstate = state.decode() if state else None
    words = _words(sqlstate, words)
    if sqlstate == _READ_ONLY and action == "COPY":
        # Of a read: no server that became a standby, but SQL of the user's that wants to write.
        return PostgresError(
            f"COPY: {words} (SQLSTATE {sqlstate})",
            sqlstate=sqlstate,
            hint="a signal's filter and a select statement must not write",
            retry=Retry.NEVER,
        )
    return PostgresError(
        f"{action}: {words}" + (f" (SQLSTATE {sqlstate})" if sqlstate else ""), sqlstate=sqlstate
    )
