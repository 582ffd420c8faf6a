"""What a task's process and the supervisor tell each other: JSON lines over the child's standard input and output.

Down: one `TaskJob` first (with the connector's configuration, passwords included: never in arguments or environment),
later `Request`s; the end of the
pipe means stop as well. Up: `Report`s. Anything else a task has to say is a
log line on standard error.
"""

from typing import Any, Final

import msgspec

from tidings_connect.kafka.topic_bounds import DEFAULT_MOST_TOPICS
from tidings_connect.limits import ConnectorLimits
from tidings_connect.renewals import Renewal

SIGNAL: Final = "signal"
"""The kind of a command that came over REST; its body is JSON."""


class Command(msgspec.Struct, frozen=True):
    """What a task is told that only its connector understands."""

    kind: str
    """`SIGNAL`, or what the connector's companion calls it."""
    body: str


class TaskJob(msgspec.Struct, frozen=True):
    """All a task has to know."""

    connector: str
    task: int
    config: dict[str, str]
    converters: dict[str, str]
    """The worker's own converters."""
    client: dict[str, str]
    """librdkafka's settings for every client."""
    producer: dict[str, str]
    consumer: dict[str, str]
    admin: dict[str, str]
    offset_topic: str
    offset_flush_ms: int
    topic_creation: bool
    internal_topics: list[str] = []
    """The worker's own, which records may not go to."""
    most_topics: int = DEFAULT_MOST_TOPICS
    """How many topics transforms may make up."""
    worker_properties: dict[str, str] = {}
    """Those that connectors have declared (`Connector.worker_options`)."""
    group: str = ""
    """The worker's ``group.id``."""
    exactly_once: bool = False
    """The worker has ``exactly.once.source.support=enabled``."""
    config_topic: str = ""
    config_digest: str = ""
    """Of the connector's record in `config_topic` that the task is made of: if there is another one when the task has its
    transactional.id, it must not write. Empty: whatever there is."""
    offset_file: str | None = None
    """Of a standalone worker; None: offsets are in the topic."""
    commands: list[Command] = []
    """The commands that stand when the task begins: what its connector's companion has said last, of each kind."""
    lease: float | None = None
    """Until when the task may run (`time.monotonic`, which is the machine's), unless a later one comes; None: for good."""
    hidden: dict[str, str] = {}
    """What logs and statuses show in place of secrets, by secret."""
    limits: ConnectorLimits = ConnectorLimits()
    """What the connector may name."""
    renewals: list[Renewal] = []
    """Passwords that have changed since the worker read its properties."""
    log_level: str = "INFO"
    log_levels: dict[str, str] = {}
    """Levels that were set by logger while the worker ran (`log_levels`)."""
    log_format: str = "json"


class Request(msgspec.Struct, frozen=True):
    """A line after the job: a command, log levels, a lease, new passwords, or else to stop."""

    stop: bool = False
    command: Command | None = None
    log_levels: dict[str, str] = {}
    """New levels by logger."""
    lease: float | None = None
    """Until when the task may run now."""
    renewals: list[Renewal] = []
    """Passwords that have changed."""


class Failure(msgspec.Struct, frozen=True):
    """Why a task ended."""

    code: str
    message: str
    retry: str
    hint: str | None
    trace: str


class TableProgress(msgspec.Struct):
    """How far a snapshot is with a table."""

    rows: int = 0
    estimated: int | None = None
    """What the server's statistics say (``pg_class.reltuples``); None where there are none yet."""
    state: str = "waiting"
    """``waiting``, ``reading`` or ``done``."""


class SinkCounts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sink's task has done."""

    puts: int = 0
    """Batches that the task took."""
    put_seconds: float = 0.0
    """How long that took, all of them together."""
    commits: int = 0
    commit_failures: int = 0
    """Flushes that made nothing durable, and commits that Kafka refused."""
    retries: int = 0
    """Puts that the system had no time for, and steps before them that are tried again."""

    def plus(self, other: "SinkCounts") -> "SinkCounts":
        """The sums."""
        return SinkCounts(
            self.puts + other.puts,
            self.put_seconds + other.put_seconds,
            self.commits + other.commits,
            self.commit_failures + other.commit_failures,
            self.retries + other.retries,
        )


class SinkReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sink's task says beside what every task says."""

    counts: SinkCounts = SinkCounts()
    put_average_seconds: float = 0.0
    put_longest_seconds: float = 0.0
    """Of the last half minute to minute."""
    lags: dict[str, int] = {}
    """Records that stand in a partition and were not put, by ``topic:partition``."""
    lag_seconds: float = 0.0
    """How old the oldest of them is."""
    paused: int = 0
    """Partitions that rest because the system is busy."""
    retrying_seconds: float = 0.0
    """Since when the system has been busy without a break; 0 while it is not."""
    commit_lag_seconds: float = 0.0
    """How long ago the oldest change was committed at its source that the system does not have durably; 0: it has all."""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task says about itself, at least once a second; counters count from the process's start."""

    state: str
    """``starting``, ``snapshot``, ``streaming``, ``idle`` (initial_only has nothing more to do), ``stopped`` or
    ``failed``."""
    records: dict[str, int] = {}
    transactions: int = 0
    events: int = 0
    lag_seconds: float | None = None
    """Of a source that reads changes: the age of the last one, 0 when idle. None: it does not say."""
    connected: bool = False
    last_commit_us: int = 0
    """When the last transaction seen was committed, microseconds since the Unix epoch; 0 before the first."""
    outstanding: int = 0
    record_errors: int = 0
    """Errors of single records: in conversion, or in a transform."""
    records_skipped: int = 0
    """Those that ``errors.tolerance=all`` has left out."""
    dead_letters: int = 0
    records_read: int = 0
    """Of a sink: records that have been read from its topics."""
    partitions: int = 0
    """Of a sink: how many are this task's."""
    sink: SinkReport = SinkReport()
    kafka_transactions: int = 0
    """Kafka transactions committed (exactly once)."""
    snapshot_rows: int = 0
    snapshot_tables: dict[str, TableProgress] = {}
    """The running or last snapshot of this process, by ``schema.table``."""
    position: dict[str, Any] = {}
    """Of a source with one partition: the position that was stored last; empty before the first."""
    losses: dict[str, int] = {}
    """How often changes may have been lost before the start, by reason."""
    findings: dict[str, int] = {}
    """What the task found that its way of reading had missed, or may miss, by kind."""
    own: dict[str, Any] = {}
    """What only the connector's own metrics and companion understand; the worker hands it on."""
    failure: Failure | None = None


encode_report = msgspec.json.Encoder().encode
decode_report = msgspec.json.Decoder(Report).decode
encode_job = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
encode_request = msgspec.json.Encoder().encode
decode_job = msgspec.json.Decoder(TaskJob).decode
STOP = b'{"stop":true}\n'
