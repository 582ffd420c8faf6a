"""Two servers of MongoDB's protocol as local processes. Neither is MongoDB, which no package registry has.

mongo-java-server keeps its data in memory, and its own starter takes one port only: Groovy starts it at another. FerretDB keeps
its data in PostgreSQL; ``scripts/tools.sh`` builds it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tidings_jvm import Java, fetch, find_java
from tidings_stack.errors import ServerStartError
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK, accepts
from tidings_stack.server import Place, Server
from tidings_stack.tools import built_tool

_START = (
    "new de.bwaldvogel.mongo.MongoServer(new de.bwaldvogel.mongo.backend.memory.MemoryBackend()).bind('{host}', {port})\n"
    "Thread.currentThread().join()\n"
)


class MongoServer(Server):
    """mongo-java-server: what it holds is gone when it stops. `heap` is the JVM's `-Xmx`, which has to hold all of it."""

    name = "mongo"
    title = "mongo-java-server"

    def __init__(self, place: Place, *, name: str | None = None, heap: str = "384m") -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._heap = heap
        self._java: Java | None = None
        self._jars: list[Path] = []

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"mongodb://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        self._java = find_java(21)
        groovy = [
            jar for jar in fetch("scripting", progress=self.place.progress) if jar.name.startswith("groovy-")
        ]
        self._jars = [*fetch("mongo", progress=self.place.progress), *groovy]
        script = _START.format(host=LOOPBACK, port=self.port)
        (self.directory / "start.groovy").write_text(script, encoding="ascii")

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            "-cp",
            os.pathsep.join(str(jar) for jar in self._jars),
            "groovy.ui.GroovyMain",
            str(self.directory / "start.groovy"),
        ]

    def _environment(self) -> dict[str, str]:
        return java_environment()

    def _is_ready(self) -> bool:
        return accepts(self.port)


def ferretdb_program() -> Path | None:
    """FerretDB, where ``scripts/tools.sh ferretdb`` has built it or it is on the path."""
    return built_tool("ferretdb")


class FerretServer(Server):
    """FerretDB 1.24 on a PostgreSQL database.

    Args:
        database: its URL.
    """

    name = "ferretdb"
    title = "FerretDB 1.24"

    def __init__(self, place: Place, *, database: str, name: str | None = None) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self._database = database

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"mongodb://{LOOPBACK}:{self.port}"

    def _prepare(self) -> None:
        if ferretdb_program() is None:
            raise ServerStartError(
                "FerretDB is not here: build it with scripts/tools.sh ferretdb (which needs Go)"
            )

    def _command(self) -> Sequence[str]:
        return [str(ferretdb_program()), f"{LOOPBACK}:{self.port}", self._database]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "DO_NOT_TRACK": "1"}

    def _is_ready(self) -> bool:
        return accepts(self.port)
