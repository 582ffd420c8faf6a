"""The worker's properties: the name, type, default, values and meaning of each, and whether it is a secret, in one place.

`config.worker_properties` reads them by these; ``docs/worker-properties.md`` shows them (`page`). Those of Kafka Connect have its
meaning (Apache Kafka documentation, "Kafka Connect Configs"); where a default is another one, the remark says why.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidings_connect.config.exactly_once import DISABLED, WORKER_SETTING, WORKER_VALUES
from tidings_connect.config.option import Family, Option
from tidings_connect.config.override_policy import OVERRIDE_POLICY
from tidings_connect.config.properties.values import OFFSET_FILE
from tidings_connect.config.providers import CONFIG_PROVIDERS
from tidings_connect.config.rest.headers import ALLOWED_METHODS, ALLOWED_ORIGINS, RESPONSE_HEADERS
from tidings_connect.config.rest.security import ADMIN_LISTENERS, CREDENTIALS_FILE, DEFAULT_PORT, HTTPS_PREFIX
from tidings_connect.kafka.topic_bounds import DEFAULT_MOST_TOPICS, MOST_TOPICS
from tidings_connect.limits import BACKTRACKING, SIGNAL_DIRECTORY, TRANSFORM_MODULES

REPORT_TIMEOUT: Final = "tidings.task.report.timeout.ms"
MOST_CONNECTORS: Final = "tidings.connectors.max"
REST_SECRETS: Final = "tidings.rest.secrets"
_PLACES: Final = "`http://host:port`, `https://host:port`, a list"

SECTIONS: Final[Mapping[str, Sequence[Option | Family]]] = {
    "Kafka and the group": (
        Option(
            "bootstrap.servers", required=True, documentation="Brokers, `host:port`, with commas between."
        ),
        Option(
            "group.id",
            required=True,
            documentation="Workers with the same one share the connectors.",
            remark="Not for a standalone worker.",
        ),
        Option(
            "session.timeout.ms",
            "int",
            "10000",
            documentation="After this long without a heartbeat a worker counts as dead, and others take over.",
        ),
        Option(
            "heartbeat.interval.ms",
            "int",
            "1000",
            documentation="Between two heartbeats; at most half of `session.timeout.ms`.",
            remark="Kafka Connect's default is 3000; the next leader is found within it.",
        ),
        Option(
            "rebalance.timeout.ms",
            "int",
            "60000",
            documentation="How long a worker may take to join the group again.",
        ),
        Option(
            "scheduled.rebalance.max.delay.ms",
            "int",
            "0",
            documentation="How long the connectors of a worker that has left wait for it to come back.",
            remark="Kafka Connect's default is 300000; a connector that rests holds WAL.",
        ),
        Family(
            form="",
            name="<client setting>",
            documentation="`security.protocol`, `sasl.*`, `ssl.*` and the other settings of Kafka's clients: for every client of the worker.",
            remark="Passwords, keys and `sasl.jaas.config` are secrets.",
        ),
        Family(
            form="",
            name="producer.<client setting>",
            documentation="For the producers of sources; likewise `consumer.` and `admin.`.",
        ),
    ),
    "Where state is kept": (
        Option(
            "config.storage.topic",
            required=True,
            documentation="The topic of configurations; it has one partition.",
        ),
        Option("offset.storage.topic", required=True, documentation="The topic of source offsets."),
        Option("offset.storage.partitions", "int", "25", documentation="Of a topic that the worker creates."),
        Option("status.storage.topic", required=True, documentation="The topic of statuses."),
        Option("status.storage.partitions", "int", "5", documentation="Of a topic that the worker creates."),
        *(
            Option(
                f"{kind}.storage.replication.factor",
                "int",
                "3",
                documentation="Of a topic that the worker creates.",
            )
            for kind in ("config", "offset", "status")
        ),
        Family(
            form="",
            name="config.storage.<topic setting>",
            documentation="A setting of a topic that the worker creates; likewise `offset.` and `status.`.",
        ),
        Option(
            OFFSET_FILE,
            documentation="Of a standalone worker, which has no `group.id` and no topics of its own: the file of its offsets.",
        ),
    ),
    "Converters": (
        Option(
            "key.converter",
            "class",
            documentation="The class of the keys' converter, where a connector names none.",
        ),
        Option(
            "value.converter",
            "class",
            documentation="The class of the values' converter, where a connector names none.",
        ),
        Option("header.converter", "class", documentation="The class of the headers' converter."),
        Family(
            form="",
            name="key.converter.<option>",
            documentation="An option of a converter; likewise `value.` and `header.`.",
            remark="A login of the registry is a secret.",
        ),
    ),
    "Tasks": (
        Option(
            "offset.flush.interval.ms",
            "int",
            "1000",
            documentation="Between two stored offsets of a task.",
            remark="Kafka Connect's default is a minute; the slot would hold a minute's WAL for nothing.",
        ),
        Option(
            "task.shutdown.graceful.timeout.ms",
            "int",
            "10000",
            documentation="How long a task may take to end before its process is killed.",
        ),
        Option(
            WORKER_SETTING,
            "string",
            DISABLED,
            values=WORKER_VALUES,
            documentation="Whether sources write exactly once.",
            remark="See [exactly once](debezium-compatibility.md#exactly-once).",
        ),
        Option("topic.creation.enable", "boolean", "true", documentation="Whether tasks create topics."),
        Option(
            "topic.tracking.enable",
            "boolean",
            "true",
            documentation="Whether the topics of connectors are noted.",
        ),
        Option(
            "topic.tracking.allow.reset",
            "boolean",
            "true",
            documentation="Whether they may be forgotten over REST.",
        ),
        Option(
            OVERRIDE_POLICY,
            "string",
            "All",
            values=("All", "None", "Principal"),
            documentation="Which settings of Kafka's clients connectors may override.",
        ),
        Option(
            REPORT_TIMEOUT,
            "int",
            "300000",
            documentation="A task that has said nothing for so long is FAILED and killed; 0: never.",
        ),
        Option(
            MOST_CONNECTORS,
            "int",
            "1000",
            documentation="Of the group; a further connector is refused.",
        ),
        Option(
            MOST_TOPICS,
            "int",
            str(DEFAULT_MOST_TOPICS),
            documentation="How many topics the transforms of a task may make up; of metrics, labels by topic or table.",
        ),
    ),
    "What connectors may name": (
        Option(TRANSFORM_MODULES, "list", documentation="Python modules that transforms may be taken from."),
        Option(SIGNAL_DIRECTORY, documentation="The directory of `signal.file`."),
        Option(
            BACKTRACKING,
            "boolean",
            "false",
            documentation="Whether regular expressions that may take for ever are matched all the same.",
        ),
        Option(
            CONFIG_PROVIDERS,
            "list",
            documentation="Names of what resolves references such as `${file:...}`.",
            remark="See [secrets](security.md).",
        ),
        Family(
            form="",
            name=f"{CONFIG_PROVIDERS}.<name>.class",
            documentation="The class of a provider; likewise `.param.<parameter>`.",
        ),
    ),
    "REST": (
        Option(
            "listeners",
            default=f"http://:{DEFAULT_PORT}",
            form=_PLACES,
            documentation="Where the REST API is.",
        ),
        Option(
            ADMIN_LISTENERS,
            form=_PLACES,
            default_text="those of `listeners`",
            documentation="Where the log levels are; empty: nowhere.",
        ),
        Family(
            form="",
            name=f"{HTTPS_PREFIX}<ssl setting>",
            documentation=f"TLS of the `https` listeners; likewise `{ADMIN_LISTENERS}.https.`.",
            remark="Passwords and keys are secrets.",
        ),
        Option(
            "ssl.client.auth",
            values=("none", "requested", "required"),
            default_text="`none`",
            documentation="Whether REST clients show a certificate.",
        ),
        Option("rest.advertised.host.name", documentation="The host at which other workers reach this one."),
        Option("rest.advertised.port", "int", documentation="The port at which they do."),
        Option(
            "rest.advertised.listener", values=("http", "https"), documentation="Which listener they use."
        ),
        Option(
            "rest.extension.classes",
            "list",
            documentation="Kafka's `BasicAuthSecurityRestExtension`, or none.",
        ),
        Option(CREDENTIALS_FILE, documentation="The file of users and passwords for basic authentication."),
        Option(
            REST_SECRETS,
            "string",
            "masked",
            values=("masked", "shown"),
            documentation="Whether answers show the secrets of configurations, as Kafka Connect's do.",
        ),
        Option(
            ALLOWED_ORIGINS,
            documentation="Origins whose pages may use the API: a regular expression, or `*`.",
        ),
        Option(
            ALLOWED_METHODS,
            "list",
            default_text="`GET,POST,HEAD`",
            documentation="Methods that such pages may use.",
        ),
        Option(RESPONSE_HEADERS, "list", documentation="Headers that every answer gets: `set name: value`."),
    ),
}
"""All that the worker obeys, by subject."""

WITHOUT_MEANING: Final = (
    "plugin.path",
    "plugin.discovery",
    "offset.flush.timeout.ms",
    "worker.sync.timeout.ms",
    "worker.unsync.backoff.ms",
    "connect.protocol",
    "inter.worker.signature.algorithm",
    "inter.worker.key.generation.algorithm",
    "inter.worker.key.size",
    "inter.worker.key.ttl.ms",
    "inter.worker.verification.algorithms",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "internal.key.converter",
    "internal.value.converter",
    "internal.key.converter.schemas.enable",
    "internal.value.converter.schemas.enable",
)
"""Java's class loading and Kafka Connect's own internals: taken, and nothing comes of them."""

PROPERTIES: Final[Mapping[str, Option]] = {
    option.name: option for section in SECTIONS.values() for option in section if isinstance(option, Option)
}
