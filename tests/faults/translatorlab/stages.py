"""The processes of both stages of one source, by generation, and how far they have come."""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from faultlab.topics import ends

from tidings_translator.base.naming import ORIGINAL
from translatorlab.processes import FAULTS, StageProcess, Supervisor


class Stages:
    """They are started and stopped by faults.

    Args:
        name: of the source.
        directory: keeps their logs.
        settings: of all of them.
        bootstrap: the broker's address, past the proxy.
    """

    def __init__(self, name: str, directory: Path, settings: Mapping[str, str], *, bootstrap: str) -> None:
        self.name, self._bootstrap = name, bootstrap
        self._directory, self._settings = directory, dict(settings)
        self._supervisor = Supervisor()
        self.stages: dict[str, StageProcess] = {}
        self.generation = ORIGINAL
        """The one that publishes."""

    def stage(self, kind: str, number: int, generation: str | None = None) -> StageProcess:
        """An instance of a stage, started or not; of the generation that publishes, or of another."""
        of = generation or self.generation
        instance, settings = str(number), self._settings
        if of != ORIGINAL:
            instance, settings = f"{of}-{number}", {**settings, "TIDINGS_GENERATION": of}
        name = f"{kind}-{instance}"
        if name not in self.stages:
            self.stages[name] = self._supervisor.add(StageProcess(kind, instance, self._directory, settings))
        return self.stages[name]

    def start_generation(self) -> str | None:
        """Start another generation and its processes; None when history is not whole any more."""
        name = f"g{secrets.token_hex(3)}"
        settings = {**self._settings, "TIDINGS_KAFKA": self._bootstrap}
        done = subprocess.run(
            [str(Path(sys.executable).with_name("tidings-translator")), "generations", "start", name],
            env={
                **os.environ,
                **settings,
                "TIDINGS_DOMAIN": "translatorlab.domain",
                "PYTHONPATH": str(FAULTS),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            assert "history is not whole" in done.stderr, done.stderr
            return None
        for kind in ("sequencer", "translator"):
            self.stage(kind, 1, name).start()
        return name

    def retire(self, generation: str) -> None:
        """The processes of all other generations end."""
        self.generation = generation
        for stage in self.stages.values():
            if stage.wanted and generation not in stage.name:
                stage.stop()

    def running(self, kind: str) -> list[StageProcess]:
        """The instances of a stage that should run."""
        return [stage for stage in self.stages.values() if stage.kind == kind and stage.wanted]

    def disarm(self) -> None:
        """Nobody is killed at a named point any more."""
        for stage in self.stages.values():
            stage.disarm()

    def states(self) -> list[str]:
        """What each that should run says of itself, for a report."""
        return [
            f"{stage.name} ({stage.starts} starts): {stage.ready()}"
            for stage in self.stages.values()
            if stage.wanted
        ]

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"--- {stage.name}\n{stage.tail()}" for stage in self.stages.values())

    def close(self) -> None:
        """No process is left behind."""
        self._supervisor.close()


def published_ends(bootstrap: str, name: str, *, schema: str) -> int:
    """How far the change sets and the business topics of a source have been written: cheap, and grows with what is done.

    Args:
        schema: what stands in the names of the tables' topics, which do not count.
    """

    def counts(topic: str) -> bool:
        mine = topic.startswith((f"{name}.", f"tidings.{name}.change-sets"))
        return mine and f".{schema}." not in topic and not topic.endswith(".transaction")

    return ends(bootstrap, counts)
