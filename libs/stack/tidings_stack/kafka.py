"""Apache Kafka, one node in KRaft mode (broker and controller), as a local process.

Settings are those of https://kafka.apache.org/documentation/#brokerconfigs, with replication 1 and no rebalance delay.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka.admin import AdminClient

from tidings_jvm import Java, class_data_options, fetch, find_java
from tidings_stack.jvm_options import SHORT_LIVED, java_environment, java_options
from tidings_stack.ports import LOOPBACK, accepts
from tidings_stack.server import Place, Server


class KafkaServer(Server):
    """A broker on one loopback port. `heap` is the JVM's `-Xmx`."""

    name = "kafka"
    title = "Kafka"
    start_seconds = (
        180.0  # after a kill it waits for its old session to end (20 s); a busy machine may take a minute
    )

    def __init__(
        self,
        place: Place,
        *,
        heap: str = "384m",
        settings: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._controller_port = place.ports.reserve()
        self._heap = heap
        self._settings = dict(settings or {})
        self._properties = self.directory / "server.properties"
        self._java: Java | None = None
        self._jars: list[Path] = []

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, host:port."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        """The bootstrap servers, host:port."""
        return self.bootstrap

    def _prepare(self) -> None:
        self._java = find_java()
        self._jars = fetch("kafka", progress=self.place.progress)
        self._properties.write_text(
            "".join(f"{name}={value}\n" for name, value in self._all_settings().items()), encoding="ascii"
        )
        if not (self.directory / "data" / "meta.properties").is_file():
            self._format()

    def _all_settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            # A busy machine may stand still for longer than Kafka's nine seconds; a broker that its controller takes for
            # dead leads no partition for a while.
            "broker.session.timeout.ms": "20000",
            # Its controller would write a record that says nothing twice a second: half of what an idle broker does.
            "metadata.max.idle.interval.ms": "0",
            "log.dirs": str(self.directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "8",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Kafka makes index files of 10 MiB and shortens them later. The first write to a mapped file costs some
            # kernels 14 ms for that size: a minute of a broker's time for a thousand topics.
            "log.index.size.max.bytes": str(256 * 1024),
            "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
            "log.cleaner.backoff.ms": "2000",
            "num.network.threads": "2",
            "num.io.threads": "4",
            **self._settings,
        }

    def _format(self) -> None:
        # With "=", because one id in 64 begins with a dash and would be taken for an option.
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [*self._java_command("128m", SHORT_LIVED), "kafka.tools.StorageTool"]
        self._run_tool(
            [
                *tool,
                "format",
                f"--cluster-id={cluster}",
                "-c",
                str(self._properties),
                *self._format_options(),
            ],
            "Kafka's storage was not formatted",
        )

    def _format_options(self) -> list[str]:
        """Further options of the storage tool, for users that are there from the start."""
        return []

    def _java_command(self, heap: str, *options: str) -> list[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            *class_data_options(self._java, "kafka"),
            *options,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-cp",
            os.pathsep.join(str(jar) for jar in self._jars),
        ]

    def _command(self) -> Sequence[str]:
        return [*self._java_command(self._heap, *java_options()), "kafka.Kafka", str(self._properties)]

    def _environment(self) -> dict[str, str]:
        return java_environment()

    def _is_ready(self) -> bool:
        return accepts(self.port) and has_brokers(self.bootstrap)


def arrived(consumer: Consumer, seconds: float) -> list[Message]:
    """What has come, at most a thousand messages; waits `seconds` at most for the first. `consume` alone would wait for all."""
    first = consumer.poll(seconds)
    return [] if first is None else [first, *consumer.consume(999, 0)]


def delete_topics(bootstrap: str, names: Sequence[str]) -> None:
    """Delete every topic whose name has one of `names` in it. One that is gone already is no error.

    Raises:
        KafkaException: the broker does not answer.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found = [topic for topic in admin.list_topics(timeout=30).topics if any(name in topic for name in names)]
    if found:
        for future in admin.delete_topics(found, request_timeout=30).values():
            with contextlib.suppress(KafkaException):  # its own test has deleted it
                future.result()


def has_brokers(bootstrap: str) -> bool:
    """Whether the cluster names a broker within five seconds."""
    try:
        return bool(
            AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).brokers
        )
    except KafkaException:
        return False
