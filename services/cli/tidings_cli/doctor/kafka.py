"""Kafka, as the worker and the stages will find it: brokers, topics and rights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource  # type: ignore[attr-defined] # not in its list

from tidings_cli.doctor.findings import Finding, error, warning
from tidings_cli.doctor.group import look_at_group
from tidings_connect.errors import BrokerError
from tidings_connect.kafka.topics import TopicAdmin

_PLACE: Final = "kafka"
_SECONDS: Final = 10.0
_REACHABLE_SECONDS: Final = 5.0
_DEFAULT_RECORD_BYTES: Final = 1_048_576
"""Debezium's and Kafka's producers' ``max.request.size``."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is looked at.

    Attributes:
        settings: librdkafka's, with credentials.
        prefix: the connector's ``topic.prefix``; None: no topic of a connector.
        compacted: topics that must be compacted, by the setting that names them, with the partitions that they must have.
        group: the worker's; None: no worker, or one that stands alone.
    """

    settings: Mapping[str, Any]
    prefix: str | None = None
    compacted: Mapping[str, tuple[str, int | None]] | None = None
    group: str | None = None


def look_at_kafka(look: Look) -> list[Finding]:
    """Everything that is wrong with it."""
    try:
        TopicAdmin({**look.settings, "log_level": 0}).check_reachable(_REACHABLE_SECONDS)
    except BrokerError as problem:
        return [
            error(
                _PLACE,
                "unreachable",
                str(problem),
                "nothing can be published",
                problem.hint or "see the message",
            )
        ]
    admin = AdminClient({**look.settings, "log_level": 0})
    try:
        return list(_all(admin, look))
    except KafkaException as problem:
        return [
            error(
                _PLACE, "refused", f"a question was refused: {problem.args[0].str()}", "the rest of Kafka was not looked at",
                "give the worker's principal DESCRIBE and DESCRIBE_CONFIGS on its topics",
            )
        ]  # fmt: skip


def _all(admin: AdminClient, look: Look) -> Iterator[Finding]:
    brokers = len(admin.list_topics(timeout=_SECONDS).brokers)
    yield from _cluster_rights(admin)
    if look.group is not None:
        yield from look_at_group(look.settings, look.group)
    names = set(admin.list_topics(timeout=_SECONDS).topics)
    compacted = {name: partitions for name, partitions in (look.compacted or {}).values() if name in names}
    data = sorted(name for name in names if look.prefix is not None and _of(look.prefix, name))
    topics = sorted({*compacted, *data})
    yield from _hidden(admin, look, names)
    if not topics:
        return
    configs = _configs(admin, topics)
    yield from _topics(admin, topics, brokers, compacted, configs, is_worker=look.compacted is not None)
    for name in topics:
        yield from _settings_of(name, configs[name], look.prefix, is_compacted=name in compacted)


def _of(prefix: str, name: str) -> bool:
    return name.startswith((f"{prefix}.", f"tidings.{prefix}."))


def _hidden(admin: AdminClient, look: Look, seen: set[str]) -> Iterator[Finding]:
    """Topics with known names that a principal without any right to them is not shown."""
    known = {name for name, _ in (look.compacted or {}).values()}
    if look.prefix is not None:
        known.add(f"{look.prefix}.transaction")
    asked = sorted(known - seen)
    if not asked:
        return
    for name, future in admin.describe_topics(TopicCollection(asked), request_timeout=_SECONDS).items():
        try:
            future.result()
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                yield error(
                    _PLACE, "no-right", f"the principal may not even see {name}", "whoever needs it there is refused",
                    "the rights in docs/security.md, with kafka-acls --add --allow-principal User:...",
                )  # fmt: skip


def _needed(name: str, compacted: Mapping[str, int | None], *, is_worker: bool) -> set[AclOperation]:
    """What the principal must be allowed: a worker writes rows; without one it is a stage's, which reads or writes."""
    if name in compacted:
        return {AclOperation.READ, AclOperation.WRITE}
    return {AclOperation.WRITE} if is_worker else set()


def _cluster_rights(admin: AdminClient) -> Iterator[Finding]:
    found = admin.describe_cluster(include_authorized_operations=True, request_timeout=_SECONDS).result()
    allowed = found.authorized_operations
    if not allowed:
        return  # only who may describe the cluster is told
    if not {AclOperation.CREATE, AclOperation.ALL} & set(allowed):
        yield warning(
            _PLACE, "no-create", "the principal may not create topics on the cluster",
            "topics of new tables have to be there before their first row, else the connector fails",
            "kafka-acls --add --allow-principal User:... --operation Create --cluster; or create the topics",
        )  # fmt: skip


def _topics(
    admin: AdminClient,
    names: Sequence[str],
    brokers: int,
    compacted: Mapping[str, int | None],
    configs: Mapping[str, Mapping[str, str]],
    *,
    is_worker: bool,
) -> Iterator[Finding]:
    described = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=_SECONDS
    )
    for name in names:
        topic = described[name].result()
        copies = min((len(partition.replicas) for partition in topic.partitions), default=0)
        if brokers > 1 and copies < min(brokers, 3):
            yield warning(
                _PLACE, "few-replicas", f"topic {name} has {copies} replica on {brokers} brokers",
                "a broker that is lost takes it away, or for good",
                f"kafka-reassign-partitions to {min(brokers, 3)} replicas; topic.creation.default.replication.factor for new ones",
            )  # fmt: skip
        wanted = compacted.get(name)
        if wanted is not None and len(topic.partitions) != wanted:
            yield error(
                _PLACE, "partitions", f"topic {name} has {len(topic.partitions)} partitions and must have {wanted}",
                "the order of configurations is lost, and workers disagree", "create it anew with one partition",
            )  # fmt: skip
        if without := [p.id for p in topic.partitions if p.leader is None or p.leader.id < 0]:
            yield error(
                _PLACE, "no-leader", f"partitions {without} of {name} have no leader", "nothing can be written there",
                "start the brokers that hold them",
            )  # fmt: skip
        allowed = set(topic.authorized_operations or ())
        lacking = _needed(name, compacted, is_worker=is_worker) - allowed
        if not is_worker and not allowed & {AclOperation.READ, AclOperation.WRITE}:
            lacking = {AclOperation.READ}
        if allowed and AclOperation.ALL not in allowed and lacking:
            words = " and ".join(sorted(one.name.capitalize() for one in lacking))
            yield error(
                _PLACE, "no-right", f"the principal lacks {words} on {name}", "the worker, the sequencer or the lake is refused it",
                f"kafka-acls --add --allow-principal User:... --operation {words.replace(' and ', ' --operation ')} --topic {name}",
            )  # fmt: skip
        copies_needed = int(configs[name].get("min.insync.replicas", "1"))
        if copies_needed > copies:
            yield error(
                _PLACE, "min-insync", f"topic {name} has {copies} replicas and min.insync.replicas={copies_needed}",
                "every write with acks=all is refused", f"kafka-configs --alter --entity-type topics --entity-name {name}"
                f" --add-config min.insync.replicas={max(1, copies - 1)}",
            )  # fmt: skip
        elif copies >= 3 and copies_needed == 1:
            yield warning(
                _PLACE, "min-insync-one", f"topic {name} has min.insync.replicas=1", "what one broker took may be lost with it",
                f"kafka-configs --alter --entity-type topics --entity-name {name} --add-config min.insync.replicas=2",
            )  # fmt: skip


def _configs(admin: AdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Each topic's settings; none of one whose settings the principal may not see, which nothing of ours needs of it."""
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=_SECONDS
    )
    found: dict[str, dict[str, str]] = {}
    for resource, future in asked.items():
        try:
            found[resource.name] = {name: str(entry.value) for name, entry in future.result().items()}
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            found[resource.name] = {}
    return found


def _settings_of(
    name: str, config: Mapping[str, str], prefix: str | None, *, is_compacted: bool
) -> Iterator[Finding]:
    alter = f"kafka-configs --alter --entity-type topics --entity-name {name} --add-config"
    if not config:
        return
    policy = config.get("cleanup.policy", "")
    if is_compacted and policy != "compact":
        yield error(
            _PLACE, "not-compacted", f"topic {name} has cleanup.policy={policy}",
            "connectors, or the positions that they have reached, are forgotten after a while", f"{alter} cleanup.policy=compact",
        )  # fmt: skip
    technical = prefix is not None and name.startswith(f"{prefix}.") and not is_compacted
    if technical and "compact" in policy:
        yield warning(
            _PLACE, "compacted", f"technical topic {name} is compacted", "a transaction whose rows are gone is never complete",
            f"{alter} cleanup.policy=delete,retention.ms=-1",
        )  # fmt: skip
    elif technical and int(config.get("retention.ms", "-1")) >= 0:
        days = int(config["retention.ms"]) / 86_400_000
        yield warning(
            _PLACE, "retention", f"technical topic {name} is kept for {days:g} days",
            "a sequencer that is down for longer misses rows, and new rules cannot be run over history",
            f"{alter} retention.ms=-1 (or longer than any outage, with the lake's log for history)",
        )  # fmt: skip
    size = int(config.get("max.message.bytes", _DEFAULT_RECORD_BYTES))
    if size < _DEFAULT_RECORD_BYTES:
        yield warning(
            _PLACE, "small-records", f"topic {name} takes records of {size} bytes at most", "a wide row stops the connector",
            f"{alter} max.message.bytes={_DEFAULT_RECORD_BYTES}",
        )  # fmt: skip
