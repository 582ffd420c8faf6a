"""The worker that random input is aimed at, and what must stay secret there."""

from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.running import Outcome
from tidings_stack.capture import CaptureWorker


@dataclass
class Target:
    """A worker with a connector, and what must stay secret."""

    worker: CaptureWorker
    bootstrap: str
    database: str
    name: str
    signal_file: Path
    secrets: dict[str, str]
    outcome: Outcome
    answers: int = 0
    slowest: float = 0.0
    seen: set[str] = field(default_factory=set)

    def found(self, what: str, seed: object) -> None:
        kind = what.split(":", maxsplit=1)[0]
        if kind not in self.seen:
            self.seen.add(kind)
            self.outcome.findings.append(f"seed {seed}: {what}")

    def search(self, where: str, said: str, seed: object) -> None:
        """Nothing that is secret is in what somebody says."""
        for what, secret in self.secrets.items():
            if secret in said:
                at = said.find(secret)
                self.found(f"{where} says {what}: ...{said[max(0, at - 200) : at]}", seed)
