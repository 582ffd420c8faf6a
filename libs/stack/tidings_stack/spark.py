"""Spark's standalone cluster: a master, and workers that start executors, as local processes.

Both are classes in the jars of the Python package `pyspark`, which has to be installed. Whoever reaches the master's port can run
programs; it is on the loopback address only.
"""

from __future__ import annotations

import importlib.util
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tidings_jvm import Java, find_java
from tidings_stack.errors import ServerStartError
from tidings_stack.jvm_options import SHORT_LIVED, java_environment
from tidings_stack.ports import LOOPBACK
from tidings_stack.server import Place, Server


class _SparkServer(Server):
    """What a master and a worker have in common: pyspark's class path, and a page that tells how they are."""

    main_class: str

    def __init__(self, place: Place, name: str | None = None) -> None:
        super().__init__(place, name)
        self.port = place.ports.reserve()
        self.page_port = place.ports.reserve()
        self._java: Java | None = None
        self._home = Path()

    def _prepare(self) -> None:
        self._java = find_java()
        spec = importlib.util.find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise ServerStartError(f"{self.title} needs the Python package pyspark, which is not installed")
        self._home = Path(spec.origin).parent

    def _arguments(self) -> Sequence[str]:
        return ()

    def _command(self) -> Sequence[str]:
        assert self._java is not None
        return [
            str(self._java.path),
            "-Xmx128m",
            "-XX:+UseSerialGC",
            SHORT_LIVED,
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            "-cp",
            str(self._home / "jars" / "*"),
            self.main_class,
            "--host",
            LOOPBACK,
            "--port",
            str(self.port),
            "--webui-port",
            str(self.page_port),
            *self._arguments(),
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in java_environment().items() if "SPARK" not in name}
        # Spark's own scripts say which Scala it is; without them a worker looks for a build's directory.
        [scala] = self._home.glob("jars/spark-core_*.jar")
        version = scala.name.split("_")[1].split("-")[0]
        own = {"SPARK_HOME": str(self._home), "SPARK_SCALA_VERSION": version, "SPARK_LOCAL_IP": LOOPBACK}
        return {**kept, **own}

    def _page(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.page_port}{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


class SparkMaster(_SparkServer):
    """Gives applications the workers' cores."""

    name = "spark-master"
    title = "Spark master"
    main_class = "org.apache.spark.deploy.master.Master"

    @property
    def url(self) -> str:
        """What applications take as their master."""
        return f"spark://{LOOPBACK}:{self.port}"

    def _is_ready(self) -> bool:
        return '"status" : "ALIVE"' in self._page("/json/")


class SparkWorker(_SparkServer):
    """Starts executors, which end when it does."""

    name = "spark-worker"
    title = "Spark worker"
    main_class = "org.apache.spark.deploy.worker.Worker"

    def __init__(
        self, place: Place, *, master: str, name: str | None = None, cores: int = 1, memory: str = "768m"
    ) -> None:
        """
        Args:
            master: its URL.
            cores: that its executors have together.
            memory: that its executors' heaps have together, as Spark writes sizes.
        """
        super().__init__(place, name)
        self._master, self._cores, self._memory = master, cores, memory

    @property
    def url(self) -> str:
        """Its page."""
        return f"http://{LOOPBACK}:{self.page_port}"

    def _arguments(self) -> Sequence[str]:
        work = os.fspath(self.directory / "work")
        return ["--cores", str(self._cores), "--memory", self._memory, "--work-dir", work, self._master]

    def _is_ready(self) -> bool:
        return self._master in self._page("/json/")
