"""Apicurio Registry as a local process; clients use its Confluent API (`/apis/ccompat/v7`).

Options: https://www.apicur.io/registry/docs/ and Quarkus' own. The management interface would listen on all addresses if
it were not told otherwise.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tidings_jvm import Java, fetch, find_java, unpack
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK, accepts
from tidings_stack.server import Place, Server

COMPATIBILITY = "BACKWARD"  # Confluent's default; Apicurio's own is NONE


class RegistryServer(Server):
    """A registry with its schemas in an H2 file, so that they survive a restart."""

    name = "registry"
    title = "Apicurio Registry"
    start_seconds = 180.0

    def __init__(self, place: Place, *, heap: str = "256m", name: str | None = None) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._management_port = place.ports.reserve()
        self._heap = heap
        self._java: Java | None = None
        self._home = Path()

    @property
    def url(self) -> str:
        """Base URL of the Confluent API."""
        return f"{self.base_url}/apis/ccompat/v7"

    @property
    def base_url(self) -> str:
        """URL of the server, with Apicurio's own API at `/apis/registry/v3`."""
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._java = find_java(21)
        self._home = unpack(fetch("registry", progress=self.place.progress)[0])

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        options = {
            "quarkus.http.host": LOOPBACK,
            "quarkus.http.port": str(self.port),
            "quarkus.management.host": LOOPBACK,
            "quarkus.management.port": str(self._management_port),
            "quarkus.log.level": "WARN",
            'quarkus.log.category."io.apicurio".level': "WARN",  # its own default is INFO, a line per request
            "quarkus.http.access-log.enabled": "false",
            "quarkus.banner.enabled": "false",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.directory}/registry",
        }
        return [
            str(self._java.path),
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            *(f"-D{name}={value}" for name, value in options.items()),
            "-jar",
            str(self._home / "quarkus-run.jar"),
        ]

    def _environment(self) -> dict[str, str]:
        # A QUARKUS_* or APICURIO_* variable of the person's would override the options above.
        return {
            name: value
            for name, value in java_environment().items()
            if not name.startswith(("QUARKUS_", "APICURIO_", "REGISTRY_"))
        }

    def _is_ready(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=10) as answer:  # noqa: S310 (our own URL)
                return bool(answer.status == 200)
        except OSError:
            return False

    def _after_start(self) -> None:
        set_compatibility(self.url)


def set_compatibility(url: str, level: str = COMPATIBILITY, subject: str = "") -> None:
    """Set the registry's compatibility level, for all subjects or for one. `url` is the base of its Confluent API."""
    request = urllib.request.Request(  # noqa: S310 (our own URL)
        f"{url}/config/{subject}" if subject else f"{url}/config",
        data=json.dumps({"compatibility": level}).encode(),
        method="PUT",
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass
