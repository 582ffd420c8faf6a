"""Kafka's settings for the Java clients in Spark's JVM, without a secret among them.

A streaming query's options stand in plans and logs, so they hold references that Kafka's own `FileConfigProvider`
resolves when it makes a client: ``${file:PATH:NAME}``. The file is in memory only, the JVM inherits it, and it is gone
with both processes, however they end. A client that is made after a password has changed in its file takes the new one.
"""

from __future__ import annotations

import os
from typing import Final

from tidings_lakehouse.spark.gateway import is_local
from tidings_lakehouse.spark.properties import properties_text
from tidings_service import SettingsError
from tidings_service.kafka_access import KafkaAccess, java_secrets
from tidings_service.rotation import follow

_PROVIDER: Final = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


class KafkaLogin:
    """A cluster for the JVM of this process.

    Args:
        local: whether Spark's executors are in that JVM too; others cannot read the file, and get the secrets
            themselves, which Spark then hides by their names.

    Raises:
        SettingsError: a setting has a form that Java does not know.
    """

    def __init__(self, kafka: KafkaAccess, *, local: bool = True) -> None:
        self.kafka = kafka
        self._settings = kafka.java()
        self._file: int | None = None
        secrets = java_secrets(self._settings)
        if local and secrets and hasattr(os, "memfd_create"):
            self._file = os.memfd_create("tidings-kafka")
            path = f"/proc/self/fd/{self._file}"
            self._settings |= {name: f"${{file:{path}:{name}}}" for name in secrets} | _PROVIDER
            self._write(secrets)
            secret = kafka.password if kafka.oauth is None else kafka.oauth.secret
            follow(secret, self, lambda login, _: login._write(java_secrets(login.kafka.java())))  # noqa: SLF001

    def _write(self, secrets: dict[str, str]) -> None:
        assert self._file is not None
        text = properties_text(secrets).encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def settings(self) -> dict[str, str]:
        """Settings of Kafka's clients in the JVM."""
        return dict(self._settings)

    @property
    def inherit(self) -> tuple[int, ...]:
        """What the JVM must have open."""
        return () if self._file is None else (self._file,)

    def close(self) -> None:
        """Forget the secrets; the JVM makes no client any more."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def refuse_remote_tokens(kafka: KafkaAccess, master: str) -> None:
    """Java's clients take tokens from an address only that a property of their JVM allows, which we set in ours alone.

    Raises:
        SettingsError: executors would run elsewhere.
    """
    if kafka.oauth is not None and not is_local(master):
        raise SettingsError(
            f"TIDINGS_KAFKA_SASL_MECHANISM=OAUTHBEARER does not work with TIDINGS_LAKEHOUSE_MASTER={master}",
            hint="the executors' JVMs cannot be told the token endpoint; use a local master, SCRAM or a certificate",
        )
