"""S3Mock, a server of S3's protocol, as a local process. It takes every key, and keeps its objects in files.

Options: https://github.com/adobe/S3Mock.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidings_jvm import Java, fetch, find_java
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK, accepts
from tidings_stack.server import Place, Server


class S3Server(Server):
    """A server with one bucket."""

    name = "s3"
    title = "S3Mock"
    start_seconds = 180.0
    bucket = "lake"

    def __init__(self, place: Place, *, name: str | None = None) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._secure_port = place.ports.reserve()
        self._java: Java | None = None
        self._jar = Path()

    @property
    def url(self) -> str:
        """Where S3's API is."""
        return f"http://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._java = find_java(21)
        self._jar = fetch("s3", progress=self.place.progress)[0]
        (self.directory / "objects").mkdir(exist_ok=True)

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            "-Xmx256m",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            "-jar",
            str(self._jar),
            f"--server.address={LOOPBACK}",
            f"--server.port={self._secure_port}",
            f"--http.port={self.port}",
            "--logging.level.root=warn",
        ]

    def _environment(self) -> dict[str, str]:
        own = {
            "COM_ADOBE_TESTING_S3MOCK_STORE_ROOT": str(self.directory / "objects"),
            "COM_ADOBE_TESTING_S3MOCK_STORE_RETAIN_FILES_ON_EXIT": "true",
            "COM_ADOBE_TESTING_S3MOCK_STORE_INITIAL_BUCKETS": self.bucket,
        }
        return {**java_environment(), **own}

    def _is_ready(self) -> bool:
        return accepts(self.port)
