"""Options about the server, and connections to it."""

from typing import Final

from tidings_capture.cdc.tls import MODES as TLS_MODES
from tidings_capture.mysql.binlog.gtid_sources import EXCLUDES, FILTERS_ROWS, INCLUDES
from tidings_capture.mysql.settings.captured_options import list_problem
from tidings_connect.config.option import Kind, Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_long_problem,
    not_negative_problem,
    port_problem,
)


def _server_id_problem(value: str) -> str | None:
    return None if 0 < int(value) < 1 << 32 else "A number from 1 to 4294967295 is expected"


_WITHOUT_EFFECT: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("connect.keep.alive", "boolean", "true"),
    ("connect.keep.alive.interval.ms", "long", "60000"),
    ("connection.validation.timeout.ms", "long", "60000"),
    ("use.nongraceful.disconnect", "boolean", "false"),
)
_SOURCES: Final = "See [whose transactions count](mariadb.md#whose-transactions-count)."
_STORE: Final = "A file of the worker's machine: JKS, PKCS #12 or PEM."
SERVER: Final = (
    Option("database.hostname", required=True, documentation="The server's name or address."),
    Option("database.port", "int", "3306", check=port_problem, documentation="The server's port."),
    Option("database.user", required=True, documentation="The user."),
    Option("database.password", "password", documentation="Its password."),
    Option(
        "database.server.id",
        "long",
        check=_server_id_problem,
        default_text="a random one",
        documentation="The number under which the connector reads the log, as a replica would; no other replica may have it.",
    ),
    Option(
        "database.ssl.mode",
        default="disable",
        values=TLS_MODES,
        documentation="Whether connections are encrypted, and the server's certificate is checked.",
        remark="Certificates are checked against the system's authorities, or those of the file that the environment names as `SSL_CERT_FILE`.",
    ),
    Option(
        "connect.timeout.ms",
        "int",
        "30000",
        check=at_least_one_problem,
        documentation="How long a connection may take to be made, in milliseconds.",
    ),
    Option(
        "database.ssl.truststore",
        documentation="The file of the authorities that the server's certificate is checked by.",
        remark=_STORE,
    ),
    Option("database.ssl.truststore.password", "password", documentation="Its password."),
    Option(
        "database.ssl.keystore",
        documentation="The file of the connector's own certificate and key, for a server that asks for them.",
        remark=_STORE,
    ),
    Option("database.ssl.keystore.password", "password", documentation="Its password."),
    Option(
        "database.initial.statements",
        documentation="SQL to run on every new connection, separated by semicolons; a doubled one stands for itself.",
        remark="For every connection but that of the log.",
    ),
    Option(
        "database.query.timeout.ms",
        "int",
        "600000",
        check=not_negative_problem,
        documentation="How long a statement may take, in milliseconds; 0: any time.",
        remark="Not the statements that read the tables of a snapshot.",
    ),
    Option(
        "binlog.net.read.timeout",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="The server's net_read_timeout for the connection of the log, in seconds; 0: the server's own.",
    ),
    Option(
        "binlog.net.write.timeout",
        "long",
        "0",
        check=not_negative_long_problem,
        documentation="The server's net_write_timeout for the connection of the log, in seconds; 0: ten minutes.",
        remark="After so long a server gives up a connector that takes nothing, and the task begins anew where it was.",
    ),
    *(
        Option(
            name,
            kind,
            default,
            documentation="A connection that is lost is made anew by the task's restart: accepted, without effect.",
            remark="Accepted, without effect: a connection that is lost is made anew by the task's restart.",
        )
        for name, kind, default in _WITHOUT_EFFECT
    ),
    Option(
        INCLUDES,
        "list",
        check=list_problem,
        documentation="Whose transactions count, as regular expressions of the sources of GTIDs; all, where it is empty.",
        remark=_SOURCES,
    ),
    Option(
        EXCLUDES,
        "list",
        check=list_problem,
        documentation="Whose transactions do not count, as regular expressions of the sources of GTIDs.",
        remark=_SOURCES,
    ),
    Option(
        FILTERS_ROWS,
        "boolean",
        "true",
        documentation="Whether rows of transactions that do not count are left out; else they only need not be on the next server.",
        remark=_SOURCES,
    ),
    Option(
        "database.server.id.offset",
        "long",
        "10000",
        documentation="One connection reads the log: accepted, without effect.",
        remark="Accepted, without effect: only one connection reads the log.",
    ),
)
