"""Options about the server, the slot and the publication."""

from typing import Final

from tidings_capture.postgres.settings.option_checks import identities_problem, slot_name_problem
from tidings_connect.config.class_names import aliases
from tidings_connect.config.option import Option
from tidings_connect.config.option_checks import (
    at_least_one_problem,
    not_negative_problem,
    port_problem,
    positive_problem,
)

CONNECTOR_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
CONNECTOR_NAMES: Final = (CONNECTOR_CLASS, *aliases(CONNECTOR_CLASS))
"""Every name of the connector's class."""

OPTIONS: Final = (
    Option(
        "connector.class",
        "class",
        required=True,
        values=CONNECTOR_NAMES,
        documentation="The class of the connector.",
    ),
    Option(
        "tasks.max",
        "int",
        "1",
        check=at_least_one_problem,
        documentation="How many tasks at most; a WAL is serial, so one runs whatever this says.",
    ),
    Option(
        "plugin.name",
        default="decoderbufs",
        values=("pgoutput",),
        documentation="The decoder on the server; pgoutput is the one that is implemented.",
        remark="Must be set to `pgoutput`; Debezium's default, `decoderbufs`, needs an extension on the server.",
    ),
    Option("database.hostname", required=True, documentation="The database server's host name or address."),
    Option("database.port", "int", "5432", check=port_problem, documentation="The database server's port."),
    Option(
        "database.user",
        required=True,
        documentation="The role to connect as; it needs LOGIN and REPLICATION.",
    ),
    Option(
        "database.password",
        "password",
        "",
        documentation="The role's password; may be a reference to a config provider.",
    ),
    Option("database.dbname", required=True, documentation="The database to capture."),
    Option(
        "database.sslmode",
        default="prefer",
        values=("allow", "prefer", "disable", "verify-ca", "require", "verify-full"),
        documentation="Whether the connection is encrypted, and how far the server is verified.",
        remark="`require` with `database.sslrootcert` checks the authority, as `verify-ca`; Debezium does not check.",
    ),
    Option("database.sslcert", documentation="The file of the client's certificate."),
    Option(
        "database.sslkey",
        documentation="The file of the client's key.",
        remark="PEM or DER, mode 0600; no PKCS #12.",
    ),
    Option("database.sslpassword", "password", documentation="The password of the client's key."),
    Option(
        "database.sslrootcert", documentation="The file of the certificates that the server is verified by."
    ),
    Option(
        "slot.name",
        default="debezium",
        check=slot_name_problem,
        may_be_empty=False,
        documentation="The replication slot.",
    ),
    Option(
        "slot.drop.on.stop",
        "boolean",
        "false",
        documentation="Whether the slot is dropped when the task stops; what happens meanwhile is lost then.",
    ),
    Option(
        "slot.failover",
        "boolean",
        "false",
        documentation="Whether the slot is created for failover to a standby (PostgreSQL 17 and newer).",
        remark="Before PostgreSQL 17, and on a replica, the slot is an ordinary one, with a warning, as in Debezium.",
    ),
    Option(
        "slot.max.retries",
        "int",
        "6",
        check=not_negative_problem,
        documentation="How often to try again to get at the slot while another process holds it.",
    ),
    Option(
        "slot.retry.delay.ms",
        "long",
        "10000",
        check=not_negative_problem,
        documentation="How long to wait between two such attempts, in milliseconds.",
        remark="The longest pause; the first ones are shorter.",
    ),
    Option("publication.name", default="dbz_publication", documentation="The publication."),
    Option(
        "publication.autocreate.mode",
        default="all_tables",
        values=("no_tables", "filtered", "disabled", "all_tables"),
        documentation="Whether the publication is created, and for which tables.",
    ),
    Option(
        "publish.via.partition.root",
        "boolean",
        "false",
        documentation="Whether a partition's changes appear as its root table's.",
    ),
    Option(
        "replica.identity.autoset.values",
        "list",
        check=identities_problem,
        documentation="Tables whose REPLICA IDENTITY is set at the start: schema.table:FULL, ...",
        remark="Before the stream starts; a table whose identity is right is left alone.",
    ),
    Option(
        "database.initial.statements",
        documentation="SQL to run on every new connection, separated by semicolons; a doubled one stands for itself.",
        remark="For every ordinary session; `;;` is a semicolon in a statement.",
    ),
    Option(
        "database.query.timeout.ms",
        "int",
        "600000",
        check=not_negative_problem,
        documentation="How long a query may take, in milliseconds; 0: any time.",
        remark="As `statement_timeout` of ordinary sessions; a snapshot's COPY has none.",
    ),
    Option(
        "status.update.interval.ms",
        "int",
        "10000",
        check=positive_problem,
        documentation="How often the server is told how far the WAL may be removed, in milliseconds.",
        remark="Kept; a new confirmed position is told at once.",
    ),
    Option(
        "xmin.fetch.interval.ms",
        "long",
        "0",
        values=("0",),
        documentation="How often the catalog's xmin is fetched, in milliseconds; only 0, never.",
    ),
)
