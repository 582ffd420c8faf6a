"""A project's pipeline: servers that nobody has given are started here, and the four services on them."""

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tidings_cli.up.project import Project
from tidings_cli.up.replication import Replication
from tidings_stack.pipeline.figures import Figures
from tidings_stack.pipeline.local import LocalPipeline

_SETTINGS = {"kafka": "TIDINGS_KAFKA", "registry": "TIDINGS_REGISTRY"}
_PASSWORD = "TIDINGS_DATABASE_PASSWORD"  # noqa: S105 - a variable's name


def embedded(project: Project) -> tuple[str, ...]:
    """The servers that are to be started here."""
    return tuple(name for name, setting in _SETTINGS.items() if setting not in project.given)


class ProjectPipeline(LocalPipeline):
    """The pipeline.

    Args:
        directory: for logs, and for the lake where no warehouse is given.
        keep: where the servers keep their data; None: nowhere.
    """

    def __init__(
        self,
        project: Project,
        replication: Replication,
        config: Mapping[str, str],
        directory: Path,
        figures: Figures,
        pause: Callable[[float], None],
        *,
        keep: Path | None,
    ) -> None:
        super().__init__(
            directory, figures, pause, connector=project.source, members=embedded(project), keep=keep
        )
        self._project = project
        self._replication = replication
        self._config = config
        self._capture = f"http://127.0.0.1:{self._ports.reserve()}"

    def bring_up(self) -> None:
        """Start everything, and return when every further commit will be captured.

        Raises:
            PipelineError: when a service dies or does not get there in time.
            TidingsError, StackError: when a server cannot be started or the database not be asked.
        """
        if self._members:
            self._start_servers()
        self._start_stages(self._capture, self._project.worker, self._config, self._replication.consistent)

    def settings(self) -> dict[str, str]:
        """The TIDINGS_* variables of the services."""
        given = self._project.given
        # From there the lake knows how far capture is while the database rests.
        offsets = self._project.offsets_topic()
        return {
            **({"TIDINGS_LAKEHOUSE_OFFSETS_TOPIC": offsets} if offsets else {}),
            "TIDINGS_LAKEHOUSE_WAREHOUSE": str(self._directory / "lake"),
            **given,
            "TIDINGS_KAFKA": given.get("TIDINGS_KAFKA") or self.stack.kafka.bootstrap,
            "TIDINGS_REGISTRY": given.get("TIDINGS_REGISTRY") or self.stack.registry.url,
            "TIDINGS_SOURCE": self._project.source,
            "TIDINGS_DOMAIN": self._project.domain,
            "TIDINGS_CONNECT_LISTENERS": self._capture,
            # Set even when empty, because connector.json refers to it.
            _PASSWORD: given.get(_PASSWORD, ""),
        }

    def where_to_look(self) -> str:
        """Addresses, a line each, and a file to source for the commands that look at topics and lake."""
        given, settings = self._project.given, self.settings()
        file = self._project.settings
        # What the person has given is in their shell or in .env already; a secret of theirs has no place in a file.
        own = {name: text for name, text in settings.items() if name not in given and name != _PASSWORD}
        lines_of_file = [f"export {name}={shlex.quote(text)}\n" for name, text in own.items()]
        # For commands that import the domain (`tidings readers`, `tidings generations`), wherever they are run.
        directory = shlex.quote(str(self._project.directory))
        lines_of_file.append(f'export PYTHONPATH={directory}"${{PYTHONPATH:+:$PYTHONPATH}}"\n')
        # Behind what there is: the file is sourced beside applications that have a Python of their own.
        lines_of_file.append(f'export PATH="$PATH":{shlex.quote(str(Path(sys.executable).parent))}\n')
        file.write_text("".join(lines_of_file), "utf-8")
        lines = {
            "Kafka": f"{settings['TIDINGS_KAFKA']}, topics {self._project.source}.*",
            "registry": settings["TIDINGS_REGISTRY"],
            "connector": f"{self._capture}/connectors/{self._project.source}/status",
            "the lake": f". {file}; tidings lakehouse tables",
            "logs": str(self._directory / "logs"),
        }
        return "\n".join(f"{name:<12} {text}" for name, text in lines.items())

    def environment(self) -> dict[str, str]:
        """A service's whole environment; the domain is imported from the project."""
        before = os.environ.get("PYTHONPATH")
        path = os.pathsep.join(filter(None, (str(self._project.directory), before)))
        return {**super().environment(), "PYTHONPATH": path}
