"""Servers that ask for TLS and passwords: a broker with SASL_SSL and with client certificates, a PostgreSQL with TLS only.

Broker settings: https://kafka.apache.org/documentation/#security; PostgreSQL: "Secure TCP/IP Connections with SSL".
"""

from __future__ import annotations

import concurrent.futures
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidings_stack.kafka import KafkaServer
from tidings_stack.ports import LOOPBACK
from tidings_stack.postgres import PostgresServer
from tidings_stack.secured.authority import Authority
from tidings_stack.secured.signing import key_set
from tidings_stack.server import Place
from tidings_stack.stack import Stack

KAFKA_USER = "capture"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "false",
}


class SecuredKafka(KafkaServer):
    """A broker with two more listeners: `sasl_bootstrap` (SASL_SSL: PLAIN and SCRAM, one user) and `mutual_bootstrap`
    (SSL, which asks for a client certificate of the authority's). `bootstrap` stays in the clear, for the test itself.

    Tokens (OAUTHBEARER) must be signed as `TokenEndpoint` signs them. With `authorizer` nobody may do anything that no ACL allows, except
    who comes in the clear. With `reauthenticate_seconds` who has logged in must do so again after that time, or is cut off.
    """

    title = "Kafka with TLS"

    def __init__(
        self,
        place: Place,
        *,
        authority: Authority,
        authorizer: bool = False,
        reauthenticate_seconds: float | None = None,
        name: str = "kafka-secured",
    ) -> None:
        super().__init__(place, name=name)
        self._authority = authority
        self._authorizer = authorizer
        self._reauthenticate_seconds = reauthenticate_seconds
        self.password = secrets.token_urlsafe(12)
        self._sasl_port = place.ports.reserve()
        self._mutual_port = place.ports.reserve()

    @property
    def sasl_bootstrap(self) -> str:
        """Bootstrap servers of the SASL_SSL listener."""
        return f"{LOOPBACK}:{self._sasl_port}"

    @property
    def mutual_bootstrap(self) -> str:
        """Bootstrap servers of the listener with client certificates."""
        return f"{LOOPBACK}:{self._mutual_port}"

    def _prepare(self) -> None:
        issued = self._authority.issue("broker")
        self._settings = self._security()
        for file, text in (
            ("broker.pem", issued.key + issued.chain),
            ("ca.pem", self._authority.certificate),
            ("keys.json", key_set()),
        ):
            path = self.directory / file
            path.touch(mode=0o600)
            path.write_text(text, encoding="ascii")
        super()._prepare()

    def _format_options(self) -> list[str]:
        user = f"[name={KAFKA_USER},password={self.password}]"
        return [f"--add-scram={mechanism}={user}" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]

    def _security(self) -> dict[str, str]:
        controller = f"CONTROLLER://{LOOPBACK}:{self._controller_port}"
        advertised = (
            f"PLAINTEXT://{self.bootstrap},SASL://{self.sasl_bootstrap},MUTUAL://{self.mutual_bootstrap}"
        )
        module = "org.apache.kafka.common.security"
        scram = f"{module}.scram.ScramLoginModule required;"
        return {
            "listeners": f"{advertised},{controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required "
            f'user_{KAFKA_USER}="{self.password}";',
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
            **{f"listener.name.sasl.oauthbearer.sasl.{n}": v for n, v in self._tokens(module).items()},
            **(_AUTHORIZER if self._authorizer else {}),
            **self._sessions(),
        }

    def _tokens(self, module: str) -> dict[str, str]:
        return {
            "jaas.config": f"{module}.oauthbearer.OAuthBearerLoginModule required;",
            "server.callback.handler.class": f"{module}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            "oauthbearer.jwks.endpoint.url": self._key_file,
        }

    @property
    def _key_file(self) -> str:
        return (self.directory / "keys.json").as_uri()

    def _command(self) -> Sequence[str]:
        # Without it a broker reads keys from nowhere.
        allowed = f"-D{_ALLOWED_URLS}={self._key_file}"
        first, *others = super()._command()
        return [first, allowed, *others]

    def _sessions(self) -> dict[str, str]:
        if self._reauthenticate_seconds is None:
            return {}
        return {"connections.max.reauth.ms": str(int(self._reauthenticate_seconds * 1000))}


class SecuredPostgres(PostgresServer):
    """A PostgreSQL that takes connections over TLS only; its user `certified` logs in by client certificate alone."""

    def __init__(
        self,
        place: Place,
        *,
        authority: Authority,
        version: str = "16",
        settings: Mapping[str, str] | None = None,
        name: str = "pg-secured",
    ) -> None:
        super().__init__(place, version=version, settings=settings, name=name)
        self._authority = authority
        files = {
            "ssl_cert_file": "server.crt",
            "ssl_key_file": "server.key",
            "ssl_ca_file": "ca.crt",
            "hba_file": "hba.conf",
        }
        self.settings |= {"ssl": "on", **{n: str(self.directory / file) for n, file in files.items()}}

    def _prepare(self) -> None:
        issued = self._authority.issue("database")
        hba = "".join(
            f"hostssl {what} {LOOPBACK}/32 {method}\n"
            for what, method in (
                ("all certified", "cert"),
                ("replication certified", "cert"),
                ("all all", "scram-sha-256"),
            )
        )
        texts = {
            "server.crt": issued.chain,
            "server.key": issued.key,
            "ca.crt": self._authority.certificate,
            "hba.conf": hba,
        }
        user = self._user()
        for file, text in texts.items():
            path = self.directory / file
            path.touch(mode=0o600)
            path.write_text(text, encoding="ascii")
            if user is not None:
                os.chown(path, *user)
        super()._prepare()


@dataclass(frozen=True)
class SecuredServers:
    """A broker and a PostgreSQL whose certificates an intermediate authority has issued."""

    authority: Authority
    kafka: SecuredKafka
    pg: SecuredPostgres

    @classmethod
    def start(cls, stack: Stack) -> SecuredServers:
        """Start both, at once; they end with the stack."""
        authority = Authority("Test issuer", under=Authority("Test root"))
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            kafka = pool.submit(stack.add, lambda place: SecuredKafka(place, authority=authority))
            pg = pool.submit(stack.add, lambda place: SecuredPostgres(place, authority=authority))
        return cls(authority, kafka.result(), pg.result())
