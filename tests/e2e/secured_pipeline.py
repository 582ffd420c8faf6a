"""The demo's pipeline where everything asks for a login: Kafka with TLS, SCRAM and ACLs, the registry behind a proxy."""

import contextlib
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.e2e.acls import ACLS, Acl

from tidings_jvm import SilentProgress
from tidings_shop.demo.pipeline import Pipeline
from tidings_stack import Stack
from tidings_stack.kafka import KafkaServer
from tidings_stack.secured.authority import Authority
from tidings_stack.secured.registry import guarded
from tidings_stack.secured.servers import SecuredKafka

SERVICES = ("capture", "sequencer", "translator", "lakehouse")
MECHANISM = "SCRAM-SHA-512"
PROVIDERS = "org.apache.kafka.common.config.provider"
ROTATES = "TIDINGS_ROTATION" in os.environ
"""Whether passwords are rotated under the running pipeline, which takes time and is done by hand."""
SESSION_SECONDS = 10.0 if ROTATES else None
"""After that time brokers want the password again."""
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
}


class SecuredStack(Stack):
    """PostgreSQL, the registry, and a Kafka that does nothing for whom no ACL names."""

    def __init__(self) -> None:
        super().__init__(("pg", "registry"), progress=SilentProgress())
        self.authority = Authority("Test issuer", under=Authority("Test root"))
        self._secured: SecuredKafka | None = None

    def start(self) -> None:
        super().start()
        if self._secured is None:
            self._secured = self.add(
                lambda place: SecuredKafka(
                    place,
                    authority=self.authority,
                    authorizer=True,
                    reauthenticate_seconds=SESSION_SECONDS,
                )
            )

    @property
    def secured(self) -> SecuredKafka:
        assert self._secured is not None
        return self._secured

    @property
    def kafka(self) -> KafkaServer:
        """As the test itself sees it: in the clear, with every right."""
        return self.secured


class Rights:
    """Users with their passwords, and ACLs."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def set_password(self, user: str, password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for future in self._admin.alter_user_scram_credentials([change]).values():
            future.result(60)

    def grant(self, acls: Iterable[Acl]) -> None:
        for future in self._admin.create_acls([b for acl in acls for b in _bindings(acl)]).values():
            future.result(60)

    def take(self, acl: Acl) -> None:
        filters = [
            AclBindingFilter(
                b.restype,
                b.name,
                b.resource_pattern_type,
                b.principal,
                b.host,
                b.operation,
                b.permission_type,
            )
            for b in _bindings(acl)
        ]
        for future in self._admin.delete_acls(filters).values():
            assert future.result(60), "there was none"


def _bindings(acl: Acl) -> list[AclBinding]:
    pattern = ResourcePatternType.PREFIXED if acl.pattern == "prefixed" else ResourcePatternType.LITERAL
    return [
        AclBinding(
            _RESOURCES[acl.resource],
            acl.name,
            pattern,
            f"User:{acl.service}",
            "*",
            _OPERATIONS[operation],
            AclPermissionType.ALLOW,
        )
        for operation in acl.operations
    ]


class SecuredPipeline(Pipeline):
    """Each service logs in as a user of its own, with a password from a file."""

    stack: SecuredStack
    hidden: list[str]
    """What must not stand anywhere."""

    def start_servers(self, directory: Path) -> None:
        """In place of the demo's servers; `bring_up` finds them started."""
        self.directory = directory
        self.stack = SecuredStack()
        self.stack.start()
        self._exits = contextlib.ExitStack()
        self.registry_users = {"reg": secrets.token_urlsafe(12)}
        self.registry_url, _ = self._exits.enter_context(
            guarded(self.stack.registry.url, self.stack.authority, directory, self.registry_users)
        )
        self.hidden = []
        self.registry_password = self.registry_users["reg"]
        self.rights = Rights(self.stack.kafka.bootstrap)
        self.passwords = {name: secrets.token_urlsafe(16) for name in SERVICES}
        (directory / "ca.pem").write_text(self.stack.authority.certificate)
        self.write_passwords(self.passwords, self.registry_password)
        for name, password in self.passwords.items():
            self.rights.set_password(name, password)
        self.rights.grant(ACLS)

    def close(self) -> None:
        super().close()
        self._exits.close()

    def write_passwords(self, passwords: Mapping[str, str], registry: str) -> None:
        """Put them into the files that the services read; none of them may stand anywhere else."""
        self.hidden += [*passwords.values(), registry]
        (self.directory / "registry-password").write_text(registry + "\n")
        for name, password in passwords.items():
            (self.directory / f"{name}-password").write_text(password + "\n")
        if "capture" in passwords:
            (self.directory / "secrets.properties").write_text(
                f"password={passwords['capture']}\nregistry={registry}\n"
            )

    def rotate(self) -> None:
        """New passwords for all but the lakehouse, in Kafka and the registry first."""
        for name in self.passwords.keys() - {"lakehouse"}:
            self.passwords[name] = secrets.token_urlsafe(16)
            self.rights.set_password(name, self.passwords[name])
        self.registry_password = self.registry_users["reg"] = secrets.token_urlsafe(12)
        self.write_passwords(self.passwords, self.registry_password)

    def _add(self, name: str, command: list[str], *, url: str | None = None) -> None:
        self._user = name
        super()._add(name, command, url=url)

    def settings(self) -> dict[str, str]:
        return super().settings() | self.login(getattr(self, "_user", "lakehouse"))

    def login(self, user: str) -> dict[str, str]:
        """The variables with which a service logs in as `user`."""
        return {
            "TIDINGS_KAFKA": self.stack.secured.sasl_bootstrap,
            "TIDINGS_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "TIDINGS_KAFKA_SASL_MECHANISM": MECHANISM,
            "TIDINGS_KAFKA_SASL_USERNAME": user,
            "TIDINGS_KAFKA_SASL_PASSWORD_FILE": str(self.directory / f"{user}-password"),
            "TIDINGS_KAFKA_CA_FILE": str(self.directory / "ca.pem"),
            "TIDINGS_REGISTRY": self.registry_url,
            "TIDINGS_REGISTRY_USERNAME": "reg",
            "TIDINGS_REGISTRY_PASSWORD_FILE": str(self.directory / "registry-password"),
            "TIDINGS_REGISTRY_CA_FILE": str(self.directory / "ca.pem"),
        }

    def _worker_properties(self, listeners: str) -> str:
        secret = f"file:{self.directory / 'secrets.properties'}"
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "ca.pem")}
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        converter = {
            "schema.registry.url": self.registry_url,
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": f"reg:${{{secret}:registry}}",
            **{f"schema.registry.{name}": value for name, value in trust.items()},
        }
        settings = {
            "config.providers": "file",
            "config.providers.file.class": f"{PROVIDERS}.FileConfigProvider",
            "bootstrap.servers": self.stack.secured.sasl_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{module} required username="capture" password="${{{secret}:password}}";',
            **trust,
            **{f"{side}.converter.{n}": v for side in ("key", "value") for n, v in converter.items()},
        }
        return super()._worker_properties(listeners) + "".join(f"{n}={v}\n" for n, v in settings.items())
