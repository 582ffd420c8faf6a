"""`tidings doctor` with a Kafka that does nothing for whom no ACL names: each right that is missing is found."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tidings_jvm import SilentProgress
from tidings_stack.secured.authority import Authority
from tidings_stack.secured.servers import KAFKA_USER, SecuredKafka
from tidings_stack.stack import Stack

pytestmark = pytest.mark.stack


class Rights:
    """A broker with ACLs, and a topic; `grant` lets the user do something."""

    def __init__(self, kafka: SecuredKafka, source: str, authority: Path) -> None:
        self.kafka, self.source, self.authority = kafka, source, authority
        self.topic = f"{source}.public.a"
        self._admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        topic = NewTopic(self.topic, 1, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic])[self.topic].result(60)

    def topics(self) -> set[str]:
        return {name for name in self._admin.list_topics(timeout=30).topics if name.startswith(self.source)}

    def worker_file(self) -> str:
        """The properties of a worker that logs in as the user."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        lines = {
            "bootstrap.servers": self.kafka.sasl_bootstrap, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="{KAFKA_USER}" password="{self.kafka.password}";',
            "ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority), "group.id": self.source,
            **{f"{kind}.storage.topic": f"{self.source}-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
        }  # fmt: skip
        path = self.authority.with_name("worker.properties")
        path.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
        return str(path)

    def grant(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        user, literal, allow = f"User:{KAFKA_USER}", ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        acls = [AclBinding(kind, name, literal, user, "*", operation, allow) for operation in operations]
        for future in self._admin.create_acls(acls).values():
            future.result(60)


@pytest.fixture
def rights(
    unique_name: str, tmp_path: Path, doctor: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rights]:
    authority = Authority("Test issuer", under=Authority("Test root"))
    with Stack(members=(), progress=SilentProgress()) as stack:
        kafka = stack.add(lambda place: SecuredKafka(place, authority=authority, authorizer=True))
        (tmp_path / "ca.pem").write_text(authority.certificate)
        given = {
            "KAFKA": kafka.sasl_bootstrap, "KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_MECHANISM": "PLAIN",
            "KAFKA_SASL_USERNAME": KAFKA_USER, "KAFKA_SASL_PASSWORD": kafka.password,
            "KAFKA_CA_FILE": str(tmp_path / "ca.pem"), "SOURCE": unique_name,
        }  # fmt: skip
        for name, text in given.items():
            monkeypatch.setenv(f"TIDINGS_{name}", text)
        yield Rights(kafka, unique_name, tmp_path / "ca.pem")


def test_a_principal_without_rights(rights: Rights, doctor: Callable[..., Any]) -> None:
    """A stage's, then a worker's: nothing is allowed, then a little, and at last what docs/security.md says."""
    assert doctor(["--strict"]) == (3, {"no-right"}), "nothing of the source is shown"
    rights.grant(ResourceType.TOPIC, rights.topic, AclOperation.DESCRIBE)
    rights.grant(ResourceType.TOPIC, f"{rights.source}.transaction", AclOperation.DESCRIBE)
    assert doctor(["--strict"]) == (3, {"no-right"}), "neither Read nor Write"
    rights.grant(ResourceType.TOPIC, rights.topic, AclOperation.READ)
    assert doctor(["--strict"]) == (0, set())

    worker = rights.worker_file()
    assert doctor(["--worker", worker, "--strict"]) == (3, {"no-right"}), "the worker's own topics, and Write"
    rights.grant(ResourceType.GROUP, rights.source, AclOperation.READ)
    own = (AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
    for kind in ("config", "offset", "status"):
        rights.grant(ResourceType.TOPIC, f"{rights.source}-{kind}", *own)
    assert doctor(["--worker", worker, "--strict"]) == (3, {"no-right"}), "it may not write rows"
    rights.grant(ResourceType.TOPIC, rights.topic, AclOperation.WRITE)
    assert doctor(["--worker", worker, "--strict"]) == (0, set())
    assert rights.topics() == {rights.topic}, "asking for topics has made none"
