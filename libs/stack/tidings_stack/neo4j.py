"""Neo4j 2026.08, community edition, as a local process: no login, no TLS, its data in files."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from tidings_jvm import Java, fetch, find_java
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK
from tidings_stack.server import Place, Server

_OPENS = ("java.base/java.nio", "java.base/java.io", "java.base/sun.nio.ch")
_HANDSHAKE = b"\x60\x60\xb0\x17\x00\x00\x04\x05" + bytes(12)
"""Bolt: its magic number, and the one version that is asked for."""


class Neo4jServer(Server):
    """One server with the databases ``neo4j`` and ``system``."""

    name = "neo4j"
    title = "Neo4j 2026.08"
    start_seconds = 180.0

    def __init__(self, place: Place, *, name: str | None = None) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._java: Java | None = None
        self._class_path = ""

    @property
    def url(self) -> str:
        """Where its Bolt port is."""
        return f"bolt://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._java = find_java(21)
        jars = fetch("neo4j", progress=self.place.progress)
        self._class_path = os.pathsep.join(str(jar) for jar in jars)
        configuration = self.directory / "configuration"
        configuration.mkdir(exist_ok=True)
        settings = {
            "server.default_listen_address": LOOPBACK,
            "server.bolt.listen_address": f"{LOOPBACK}:{self.port}",
            "server.http.enabled": "false",
            "dbms.security.auth_enabled": "false",
            "dbms.usage_report.enabled": "false",
            "server.memory.pagecache.size": "64m",
            "server.directories.data": str(self.directory / "data"),
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (configuration / "neo4j.conf").write_text(text, encoding="ascii")

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            "-Xms128m",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            *(f"--add-opens={module}=ALL-UNNAMED" for module in _OPENS),
            "--enable-native-access=ALL-UNNAMED",
            "-cp",
            self._class_path,
            "org.neo4j.server.Neo4jCommunity",
            f"--home-dir={self.directory}",
            f"--config-dir={self.directory / 'configuration'}",
        ]

    def _environment(self) -> dict[str, str]:
        return java_environment()

    def _is_ready(self) -> bool:
        """Whether it agrees on a version of Bolt, which it does when its databases are there."""
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=2) as connection:
                connection.sendall(_HANDSHAKE)
                return len(connection.recv(4)) == 4
        except OSError:
            return False
