"""Settings of the lakehouse job, from the environment (``TIDINGS_*``)."""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator

from tidings_lakehouse.choices import Choices, infinite_rules, type_rules
from tidings_lakehouse.layout_rules import LayoutRule, layout_rules
from tidings_lakehouse.merge_rules import MergeRule, merge_rules
from tidings_lakehouse.retention_rules import RetentionRule, retention_rules
from tidings_service import ServiceSettings, SettingsError
from tidings_service.kafka_settings import File, Hidden, KafkaSettings
from tidings_service.registry_settings import OptionalRegistrySettings
from tidings_service.secret import chosen, read_file


class WarehouseSettings(ServiceSettings):
    """Where the tables are and how much Spark may take: all that a reader needs."""

    lakehouse_warehouse: str = "lakehouse"
    """Directory, or URI of an object store's prefix, that holds the Iceberg tables."""
    lakehouse_catalog: str | None = None
    """The Iceberg catalog: JDBC URI of a database, or the address (``https://...``) of a server of Iceberg's REST protocol; by default
    an SQLite file in the warehouse directory."""
    lakehouse_catalog_user: str | None = None
    """The user of the catalog's database; of a REST catalog the client's id."""
    lakehouse_catalog_password: Hidden = None
    """The user's password; of a REST catalog the client's secret, or without a user a token."""
    lakehouse_catalog_password_file: File = None
    """A file with the password instead."""
    lakehouse_master: str = "local[*]"
    """Spark's master; by default as many tasks at once as the machine, or the container, has cores. ``spark://host:port``: a standalone
    cluster, whose machines have the installation at the same path. ``k8s://https://host:port``: executors in pods of the same image."""
    lakehouse_heap: str = Field(default="2g", pattern=r"^[1-9][0-9]*[mg]$")
    """Most heap of the JVM."""
    lakehouse_java_options: str = "-XX:TieredStopAtLevel=1"
    """More options of the JVM. This one compiles code quickly rather than well, which halves the CPU time of a start and of the
    first minutes, and costs half the speed of everything after them."""
    lakehouse_jars: str = ""
    """More jars for Spark's class path, or patterns such as ``/opt/jars/*.jar``, separated by colons: of a store or a catalog of which
    the installation has none."""
    lakehouse_spark_conf: str = ""
    """More of Spark's own settings, ``key=value`` separated by semicolons, for example of an object store."""
    lakehouse_spark_conf_file: File = None
    """A file with more of them, ``key=value`` a line, for an object store's keys; what is in the variable counts more."""

    @property
    def warehouse_directory(self) -> Path | None:
        """The warehouse as a local directory, or None when it is an object store's."""
        parts = urlsplit(self.lakehouse_warehouse)
        if parts.scheme in {"", "file"}:
            path = unquote(parts.path) if parts.scheme else self.lakehouse_warehouse
            return Path(path).expanduser().absolute()
        return None

    @property
    def warehouse_uri(self) -> str:
        """The warehouse as Iceberg wants it."""
        directory = self.warehouse_directory
        return self.lakehouse_warehouse if directory is None else directory.as_uri()

    @property
    def catalog_uri(self) -> str:
        """JDBC URI of the catalog.

        Raises:
            SettingsError: the warehouse is not a directory and no catalog is named.
        """
        if self.lakehouse_catalog:
            return self.lakehouse_catalog
        directory = self.warehouse_directory
        if directory is None:
            raise SettingsError(
                "TIDINGS_LAKEHOUSE_CATALOG: needed when TIDINGS_LAKEHOUSE_WAREHOUSE is not a local directory",
                hint="give the JDBC URI of a database that all writers and readers share, or a REST catalog's address",
            )
        return f"jdbc:sqlite:{directory / 'catalog.db'}"

    @property
    def spark_conf(self) -> dict[str, str]:
        """`lakehouse_spark_conf` taken apart.

        Raises:
            SettingsError: an entry is not ``key=value``.
        """
        name, file = "TIDINGS_LAKEHOUSE_SPARK_CONF", self.lakehouse_spark_conf_file
        lines = [] if file is None else read_file(f"{name}_FILE", file).splitlines()
        of_file = _conf_entries(
            (line for line in lines if not line.lstrip().startswith("#")), f"{name}_FILE: a line of {file}"
        )
        return of_file | _conf_entries(self.lakehouse_spark_conf.split(";"), f"{name}: an entry")

    @property
    def catalog_password(self) -> str | None:
        """Of the catalog's database.

        Raises:
            SettingsError: it is set twice, or its file cannot be read.
        """
        given = self.lakehouse_catalog_password
        value = None if given is None else given.get_secret_value()
        secret = chosen("TIDINGS_LAKEHOUSE_CATALOG_PASSWORD", value, self.lakehouse_catalog_password_file)
        return None if secret is None else secret.read()


class SubmitSettings(WarehouseSettings):
    """What `tidings-lakehouse submit-files` can be told."""

    lakehouse_java_options: str = ""
    """More options of the JVM, which runs for long here."""


class HistorySettings(WarehouseSettings):
    """What `tidings-lakehouse history` can be told."""

    source: str = "shop"
    """Topic prefix of the source."""


class AuditedSettings(WarehouseSettings):
    """The database that the lakehouse is compared with."""

    lakehouse_audit_database: Hidden = None
    """URL or connection string of the source, or of a replica of it (MariaDB's `mariadb://...`, MySQL's `mysql://...`); a user that
    may read the tables is enough."""
    lakehouse_audit_database_file: File = None
    """A file with it instead."""

    @property
    def audit_database(self) -> str:
        """The connection string.

        Raises:
            SettingsError: none is set, or two are.
        """
        given = self.lakehouse_audit_database
        value = None if given is None else given.get_secret_value()
        secret = chosen("TIDINGS_LAKEHOUSE_AUDIT_DATABASE", value, self.lakehouse_audit_database_file)
        if secret is None:
            raise SettingsError(
                "TIDINGS_LAKEHOUSE_AUDIT_DATABASE is not set",
                hint="name the source database, or a replica of it",
            )
        return secret.read()


class AuditSettings(HistorySettings, AuditedSettings):
    """What `tidings-lakehouse audit` can be told."""


class RepairedSettings(WarehouseSettings):
    """The worker that runs the source's connector."""

    lakehouse_worker: str = "http://127.0.0.1:8083"
    """Address of the REST API of the worker that runs the source's connector."""
    lakehouse_worker_user: str | None = None
    """The user, where the worker asks for a login."""
    lakehouse_worker_password: Hidden = None
    """The user's password."""
    lakehouse_worker_password_file: File = None
    """A file with the password instead."""

    @field_validator("lakehouse_worker")
    @classmethod
    def _check_worker(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
            raise ValueError("must be http://host:port or https://host:port, without a login")
        return value.rstrip("/")

    @property
    def worker_login(self) -> tuple[str, str] | None:
        """User and password; None: the worker asks for none.

        Raises:
            SettingsError: one of both is missing, the password is set twice, or its file cannot be read.
        """
        given = self.lakehouse_worker_password
        value = None if given is None else given.get_secret_value()
        secret = chosen("TIDINGS_LAKEHOUSE_WORKER_PASSWORD", value, self.lakehouse_worker_password_file)
        if (secret is None) != (self.lakehouse_worker_user is None):
            raise SettingsError(
                "TIDINGS_LAKEHOUSE_WORKER_USER: a login is a user and a password",
                hint="set TIDINGS_LAKEHOUSE_WORKER_PASSWORD or ..._PASSWORD_FILE, too, or none of them",
            )
        return None if secret is None else (self.lakehouse_worker_user or "", secret.read())


class RepairSettings(AuditSettings, RepairedSettings):
    """What `tidings-lakehouse repair` can be told."""


class LossSettings(WarehouseSettings, KafkaSettings):
    """What `tidings-lakehouse accept-loss` can be told."""


class ErasureSettings(WarehouseSettings, OptionalRegistrySettings):
    """What `tidings-lakehouse erase` can be told."""


class LakehouseSettings(AuditedSettings, KafkaSettings, OptionalRegistrySettings):
    """What the streaming job can be told."""

    lakehouse_java_options: str = ""
    """More options of the JVM, which runs for long here."""

    http_port: int = Field(default=8093, ge=0, le=65535)
    """Port for /metrics, /healthz, /readyz and /tables; 0 takes a free one."""
    source: str = "shop"
    """Topic prefix of the source."""
    lakehouse_technical: str | None = None
    """Pattern of technical topics, matched as a whole; the last two parts of a name are schema and table."""
    lakehouse_domains: str = ""
    """Domains whose events ``<domain>.<event>.v<major>`` are taken, separated by commas; by default one with the source's
    name. Others' topics that look like events are not taken."""
    lakehouse_business: str | None = None
    """Pattern of business topics, matched as a whole, instead of the domains; a name ends in ``.<event>.v<major>``."""
    lakehouse_offsets_topic: str = "tidings.connect.offsets"
    """Topic in which the connector's worker stores its offsets (``offset.storage.topic``): the watermark follows them while the
    database rests. Nothing happens when there is none of that name."""
    lakehouse_schemas: Path | None = None
    """Directory with schemas for topics of JSON that brings none (``schemas.enable=false``), by subject:
    ``<topic>-value.json`` and ``<topic>-key.json``, each the part ``schema`` that a JsonConverter writes with ``schemas.enable=true``, or
    ``.avsc`` with the Avro schema of an AvroConverter; in the topic's name ``*`` stands for any text."""
    lakehouse_text: str | None = None
    """Pattern of technical topics, matched as a whole, whose JSON without a schema is kept as text: in the log, without types and
    without a current state. By default such JSON goes to the quarantine."""
    lakehouse_checkpoint: str | None = None
    """Directory or URI of the checkpoints; by default ``checkpoints`` in the warehouse directory."""
    lakehouse_trigger_seconds: float = Field(default=5.0, ge=0)
    """A batch starts no sooner than this after the one before it began; a small one costs some seconds of CPU time."""
    lakehouse_max_records: int = Field(default=500_000, gt=0)
    """Most records a batch takes from all topics of its kind."""
    lakehouse_small_records: int = Field(default=10_000, ge=0)
    """A batch of fewer records is decoded and written in the driver, without jobs of Spark's; 0 never."""
    lakehouse_compact_commits: int = Field(default=100, ge=0)
    """A table is compacted after this many commits; 0 never."""
    lakehouse_join_commits: int = Field(default=5, ge=0)
    """A table's small files are put together after this many commits, if it is compacted at all; 0 never."""
    lakehouse_keep_snapshots: int = Field(default=20, ge=1)
    """How many snapshots of a table are kept at least."""
    lakehouse_keep_seconds: float = Field(default=3600.0, ge=0)
    """Snapshots of a table that are not older are kept, too: whoever reads one has that long."""
    lakehouse_retention: str = ""
    """``<pattern>=<days>``, separated by semicolons: rows of the logs, of the tables of business events and of the quarantine whose
    names a pattern matches as a whole, ``technical.orders_log=90;business.*=365``, go when their records are older. The first pattern
    counts. Current states keep every row. By default everything stays."""
    lakehouse_types: str = ""
    """``<pattern>=numeric(<scale>)``, separated by semicolons: in tables whose current state has a name that a pattern matches as a
    whole, ``technical.orders=numeric(10)``, numbers without a scale or with more than 38 digits are decimal(38, scale), and a row whose
    number does not fit exactly goes to the quarantine. The first pattern counts. By default such numbers are exact text. Of a column
    that there is already, values of the new type go to a column of their own."""
    lakehouse_infinite: str = ""
    """``<pattern>=null`` or ``<pattern>=year``, separated by semicolons: in tables whose current state has a name that a pattern
    matches as a whole infinite dates and timestamps are null, and ``<column>__infinite`` says which infinity; with ``year``, the
    default, they are in the year 294247 (a date 5877611). The first pattern counts."""
    lakehouse_merge: str = ""
    """``<pattern>=<seconds>``, separated by semicolons: current states whose names a pattern matches as a whole,
    ``technical.orders=60;technical.audit_.*=never``, are brought up to their logs at most so often; ``never``: such tables have a log
    only. The first pattern counts. By default with every batch."""
    lakehouse_layout: str = ""
    """``<pattern>=<partitions> sort <columns>``, separated by semicolons: how the files of tables are laid out whose names a pattern
    matches as a whole, ``technical.orders=bucket(64);technical.*_log=month;business.*=day sort ce_subject``. Partitions are ``none``,
    ``bucket(<number>)`` of the key, ``hour``, ``day``, ``month`` or ``year`` of the record's time, any of these with a column
    (``bucket(16, customer_id)``), or a column; without partitions, or without ``sort``, these stay as they are. The first pattern
    counts. A table that there is follows at the next start. By default logs and events are partitioned by day, current states are
    not."""
    lakehouse_slow_batch_seconds: float = Field(default=60.0, ge=0)
    """A batch that takes so long is told of in the log, with the time of its steps and of its slowest tables; 0 none is."""
    lakehouse_audit_seconds: float = Field(default=0.0, ge=0)
    """The current states are compared with the database so long after the last time; 0 never."""
    lakehouse_transaction_deadline_seconds: float = Field(default=300.0, gt=0)
    """The watermark passes a commit without rows that its END marker counts when they have not come after so long."""
    failpoint: str = ""
    """For tests: ``<point>:<n>`` kills the process with SIGKILL when the point is passed for the n-th time."""

    @field_validator("lakehouse_technical", "lakehouse_business", "lakehouse_text")
    @classmethod
    def _pattern(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from error
        return value

    @field_validator("lakehouse_retention")
    @classmethod
    def _retention(cls, value: str) -> str:
        retention_rules(value)
        return value

    @field_validator("lakehouse_types")
    @classmethod
    def _types(cls, value: str) -> str:
        type_rules(value)
        return value

    @field_validator("lakehouse_infinite")
    @classmethod
    def _infinite(cls, value: str) -> str:
        infinite_rules(value)
        return value

    @field_validator("lakehouse_merge")
    @classmethod
    def _merge(cls, value: str) -> str:
        merge_rules(value)
        return value

    @field_validator("lakehouse_layout")
    @classmethod
    def _layout(cls, value: str) -> str:
        layout_rules(value)
        return value

    @field_validator("lakehouse_domains")
    @classmethod
    def _domains(cls, value: str) -> str:
        for name in _names(value):
            if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
                raise ValueError("a domain is letters, digits, - and _; separate domains by commas")
        return value

    @property
    def retention(self) -> tuple[RetentionRule, ...]:
        """`lakehouse_retention` taken apart."""
        return retention_rules(self.lakehouse_retention)

    @property
    def merges(self) -> tuple[MergeRule, ...]:
        """`lakehouse_merge` taken apart."""
        return merge_rules(self.lakehouse_merge)

    @property
    def choices(self) -> Choices:
        """How values become columns."""
        rules = type_rules(self.lakehouse_types), infinite_rules(self.lakehouse_infinite)
        return Choices(self.lakehouse_text, *rules)

    @property
    def layouts(self) -> tuple[LayoutRule, ...]:
        """`lakehouse_layout` taken apart."""
        return layout_rules(self.lakehouse_layout)

    @property
    def technical_pattern(self) -> str:
        """``<source>.<schema>.<table>``, but not what is shaped like a business topic; ``<source>.transaction`` and
        ``<source>.schema-changes``."""
        source = _literal(self.source)
        tables = self.lakehouse_technical or rf"{source}\.[^.]+\.(?!v[0-9]+$)[^.]+"
        return rf"{tables}|{source}\.transaction|{source}\.schema-changes"

    @property
    def business_pattern(self) -> str:
        """``<domain>.<event>.v<major>`` of the domains that are named."""
        domains = "|".join(_literal(name) for name in _names(self.lakehouse_domains) or [self.source])
        return self.lakehouse_business or rf"(?:{domains})\.[^.]+\.v[0-9]+"

    @property
    def checkpoint_uri(self) -> str:
        """Where the queries keep their offsets.

        Raises:
            SettingsError: the warehouse is not a directory and no checkpoint is named.
        """
        if self.lakehouse_checkpoint:
            directory = Path(self.lakehouse_checkpoint).expanduser()
            return (
                self.lakehouse_checkpoint
                if "://" in self.lakehouse_checkpoint
                else directory.absolute().as_uri()
            )
        directory_ = self.warehouse_directory
        if directory_ is None:
            raise SettingsError(
                "TIDINGS_LAKEHOUSE_CHECKPOINT: needed when TIDINGS_LAKEHOUSE_WAREHOUSE is not a local directory",
                hint="give a directory or URI that survives a restart",
            )
        return (directory_ / "checkpoints").as_uri()


def _conf_entries(entries: Iterable[str], what: str) -> dict[str, str]:
    conf: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in entries)):
        key, equals, value = entry.partition("=")
        if not equals or not key.startswith("spark."):
            raise SettingsError(
                f"{what} is not spark.<name>=<value>",
                hint="separate entries by semicolons in the variable, by lines in the file",
            )
        conf[key.strip()] = value.strip()
    return conf


def _names(value: str) -> list[str]:
    return list(filter(None, (part.strip() for part in value.split(","))))


def _literal(text: str) -> str:
    """A pattern for exactly this text, in Python's and in Java's dialect."""
    return re.escape(text).replace("\\-", "-")
