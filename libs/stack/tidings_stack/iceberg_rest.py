"""The Iceberg project's own server of its REST catalog protocol, from the test fixtures of its release, as a local process.

Its catalog is kept in an SQLite file, and its tables in an object store that clients reach by themselves. Each variable
``CATALOG_A_B__C`` is the catalog's property ``a.b-c`` (apache/iceberg, open-api/.../RCKUtils.java). It asks nobody for a login, and
listens on all addresses.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Mapping, Sequence

from tidings_jvm import Java, fetch, find_java
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK, accepts
from tidings_stack.server import Place, Server


class IcebergRestServer(Server):
    """A catalog of tables in a warehouse."""

    name = "iceberg-rest"
    title = "Iceberg REST catalog"

    def __init__(
        self, place: Place, *, warehouse: str, properties: Mapping[str, str], name: str | None = None
    ) -> None:
        """
        Args:
            warehouse: where tables are made, ``s3://bucket/prefix``.
            properties: of the catalog's file IO, ``s3.endpoint`` and the like.
        """
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._catalog = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:file:{self.directory}/catalog.db",
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
            **properties,
        }
        self._java: Java | None = None
        self._class_path = ""

    @property
    def url(self) -> str:
        """Where clients find the catalog."""
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._java = find_java()
        jars = fetch("iceberg-rest", progress=self.place.progress)
        self._class_path = os.pathsep.join(str(jar) for jar in jars)

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-cp",
            self._class_path,
            "org.apache.iceberg.rest.RESTCatalogServer",
        ]

    def _environment(self) -> dict[str, str]:
        own = {
            f"CATALOG_{key.upper().replace('-', '__').replace('.', '_')}": value
            for key, value in self._catalog.items()
        }
        kept = {key: value for key, value in java_environment().items() if not key.startswith("CATALOG_")}
        # S3's client looks for a region here alone.
        return {**kept, **own, "CATALOG_REST_PORT": str(self.port), "AWS_REGION": "us-east-1"}

    def _is_ready(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=10) as answer:  # noqa: S310 (our own URL)
                return bool(answer.status == 200)
        except OSError:
            return False
