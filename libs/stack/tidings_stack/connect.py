"""Kafka Connect in distributed mode with the real Debezium connector: the reference for tests and benchmarks.

REST: https://docs.confluent.io/platform/current/connect/references/restapi.html. Apicurio's Avro converter is on the
plugin path, apart from the worker's own classes, because it brings an older Kafka client.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidings_jvm import Java, Progress, class_data_options, fetch, find_java, unpack
from tidings_stack.jvm_options import java_environment, java_options
from tidings_stack.ports import LOOPBACK, accepts
from tidings_stack.server import Place, Server

POSTGRES_CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
REST_HEADERS = {
    "access.control.allow.origin": r"https://a\\.example,https://.*\\.b\\.example",
    "access.control.allow.methods": "GET,PUT,DELETE",
    "response.http.headers.config": 'add X-Many: a,set X-One: 1,"add X-Many: b, c",set X-One: 2',
}
"""Without effect on a client that does not look for them; here, because a worker of its own costs half a minute."""


class ConnectServer(Server):
    """A Connect worker. `settings` add to its worker properties; `heap` is the JVM's `-Xmx`; `plugins` are configurations of
    `ivy.xml` that it gets as plugins, apart from its own classes, in place of the PostgreSQL connector: two releases of Debezium
    do not go together."""

    name = "connect"
    title = "Kafka Connect"
    start_seconds = 240.0

    def __init__(
        self,
        place: Place,
        *,
        bootstrap: str,
        heap: str = "1g",
        settings: Mapping[str, str] | None = None,
        name: str | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._bootstrap = bootstrap
        self._plugins = ("converters", *plugins)
        self._heap = heap
        self._settings = dict(settings or {})
        self.properties = self.directory / "worker.properties"
        self._java: Java | None = None
        self._jars: list[Path] = []

    @property
    def url(self) -> str:
        """URL of the REST interface."""
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._java = find_java()
        self._jars = [
            jar for part in ("debezium", "scripting") for jar in fetch(part, progress=self.place.progress)
        ]
        if len(self._plugins) > 1:
            self._jars = [jar for jar in self._jars if not jar.name.startswith("debezium-")]
        # Without log4j, which Kafka's own distribution brings, /admin/loggers has nothing to show.
        kafka = fetch("kafka", progress=self.place.progress)
        self._jars += [jar for jar in kafka if jar.name.startswith("log4j-")]
        plugins = self.directory / "plugins"
        for part in self._plugins:
            (plugins / part).mkdir(parents=True, exist_ok=True)
            for jar in _plugin_jars(part, self.place.progress):
                link = plugins / part / jar.name
                link.unlink(missing_ok=True)
                link.symlink_to(jar)
        settings = {
            "bootstrap.servers": self._bootstrap,
            "group.id": "connect",
            "listeners": self.url,
            "rest.advertised.host.name": LOOPBACK,
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "5",
            "status.storage.partitions": "2",
            "offset.flush.interval.ms": "5000",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "plugin.path": str(plugins),
            **REST_HEADERS,
            **self._settings,
        }
        self.properties.write_text(
            "".join(f"{name}={value}\n" for name, value in settings.items()), encoding="ascii"
        )

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            f"-Xmx{self._heap}",
            *class_data_options(self._java, "connect"),
            *java_options(),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-cp",
            os.pathsep.join(str(jar) for jar in self._jars),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self.properties),
        ]

    def _environment(self) -> dict[str, str]:
        return java_environment()

    def _is_ready(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/connectors", timeout=10) as answer:  # noqa: S310 (our own URL)
                return bool(answer.status == 200)
        except OSError:
            return False


_PROVIDED = ("connect-", "kafka-clients-", "lz4-", "slf4j-", "snappy-", "zstd-")
_OTHER_DRIVERS = ("mssql-", "mysql-", "ojdbc")


def _plugin_jars(part: str, progress: Progress) -> list[Path]:
    """The jars of a plugin, of an archive without those that Connect provides and drivers of databases that are not here."""
    found: list[Path] = []
    for file in fetch(part, progress=progress):
        if file.suffix == ".jar":
            found.append(file)
        else:
            jars = sorted(unpack(file).rglob("*.jar"))
            found += [jar for jar in jars if not jar.name.startswith((*_PROVIDED, *_OTHER_DRIVERS))]
    return found


def connector_settings(database_url: str, **more: str) -> dict[str, str]:
    """Return a PostgreSQL connector's JSON for a database: class, plugin, and where the database is. `more` adds to it.

    `database_url` is whatever libpq takes; without a password in it, some other is named, because the option is required.
    """
    # Whoever wants a connector has loaded psycopg already; the server alone must not.
    from tidings_stack.postgres import connection_parts  # noqa: PLC0415

    parts = connection_parts(database_url)
    return {
        "connector.class": POSTGRES_CONNECTOR,
        "tasks.max": "1",
        "plugin.name": "pgoutput",
        "database.hostname": parts["host"],
        "database.port": parts["port"],
        "database.user": parts["user"],
        "database.password": parts.get("password", "none"),
        "database.dbname": parts["dbname"],
        **more,
    }


def avro_converter_settings(registry_url: str, *, key: bool = True) -> dict[str, str]:
    """Return connector settings for Apicurio's Avro converter in Confluent's wire format, on the registry's older API.

    `registry_url` is the base of the registry's Confluent API; `key` says whether record keys are Avro as well.
    """
    options = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": registry_url.replace("/apis/ccompat/v7", "/apis/registry/v2"),
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.find-latest": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
    }
    sides = ("key.converter", "value.converter") if key else ("value.converter",)
    return {side + name: value for side in sides for name, value in options.items()}
