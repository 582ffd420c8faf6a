"""What a worker was told, as `tidings_connect.config.worker_properties` reads it."""

from dataclasses import dataclass, field

from tidings_connect.config.exactly_once import DISABLED
from tidings_connect.config.providers import ConfigProviders
from tidings_connect.config.rest.headers import RestHeaders
from tidings_connect.config.rest.security import RestSecurity
from tidings_connect.kafka.topic_bounds import DEFAULT_MOST_TOPICS
from tidings_connect.limits import ConnectorLimits


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The group's times in seconds: ``session.timeout.ms`` and so on."""

    session: float = 10.0
    """After this long without a heartbeat a worker counts as dead."""
    heartbeat: float = 1.0
    """Kafka Connect's default is 3; the next leader is found within it."""
    rebalance: float = 60.0


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """One of the three topics a worker keeps its state in."""

    kind: str
    """``config``, ``offset`` or ``status``: the property's prefix."""
    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's settings; client settings are librdkafka's."""

    bootstrap_servers: str
    group_id: str
    host: str
    port: int
    advertised_host: str | None
    advertised_port: int | None
    config_topic: StorageTopic
    offset_topic: StorageTopic
    status_topic: StorageTopic
    converters: dict[str, str]
    """``key.converter*`` and ``value.converter*``, the defaults of every connector."""
    client: dict[str, str] = field(repr=False)
    producer: dict[str, str] = field(repr=False)
    consumer: dict[str, str] = field(repr=False)
    admin: dict[str, str] = field(default_factory=dict, repr=False)
    """For the topics that connectors write to."""
    offset_flush_ms: int = 1000
    graceful_stop_seconds: float = 10.0
    topic_creation: bool = True
    offset_file: str | None = None
    """``offset.storage.file.filename`` of a standalone worker, which has no storage topics; None: distributed."""
    group_times: GroupTimes = GroupTimes()
    rebalance_delay_seconds: float = 0.0
    """How long the connectors of a worker that has left wait for it to come back."""
    report_timeout_seconds: float = 300.0
    """``tidings.task.report.timeout.ms``: a task that has said nothing for so long is FAILED and killed; 0: never."""
    providers: ConfigProviders = field(default_factory=ConfigProviders, repr=False)
    """What resolves references to secrets, in the connectors' configurations as in the worker's."""
    exactly_once: str = DISABLED
    """``exactly.once.source.support``: disabled, preparing or enabled."""
    topic_tracking: bool = True
    """``topic.tracking.enable``."""
    topic_tracking_reset: bool = True
    """``topic.tracking.allow.reset``."""
    override_policy: str = "All"
    """What connectors may override of their clients' settings; see `override_policy`."""
    limits: ConnectorLimits = ConnectorLimits()
    """What connectors may name: modules, files, expressions."""
    rest: RestSecurity = field(default_factory=RestSecurity)
    """All listeners; `host` and `port` are the first one's."""
    rest_headers: RestHeaders = RestHeaders()
    """What is added to the REST API's answers."""
    rest_shows_secrets: bool = False
    """``tidings.rest.secrets=shown``: answers have the secrets of configurations, as Kafka Connect's have."""
    most_connectors: int = 1_000
    """``tidings.connectors.max``: of the group; a further one is refused."""
    most_topics: int = DEFAULT_MOST_TOPICS
    """``tidings.task.topics.max``: those that transforms make up, for each task; of metrics, labels by topic or table."""
    connector_properties: dict[str, str] = field(default_factory=dict)
    """Those that the connectors have declared (`Connector.worker_options`), with their defaults."""
    references: dict[str, str] = field(default_factory=dict)
    """The properties with references to what stands elsewhere, as they are in the file: a secret there may change."""
    unknown: tuple[str, ...] = ()

    def common_client(self) -> dict[str, str]:
        """Settings every Kafka client of this worker shares."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            # As Kafka's Java clients; with librdkafka's ten seconds a broker that is back stays unseen for as long.
            "reconnect.backoff.max.ms": "1000",
            **self.client,
        }
