"""A fault, as schedules of capture and of the whole pipeline name them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: str
    seconds: float = 0.0
    """How long it lasts, where it lasts."""
    amount: int = 0
    """Bytes until a cut, or how often a point is passed."""
    point: str = ""
    records: int = 0
    """How many more records have to arrive, or events to be published, before it."""

    def __str__(self) -> str:
        details = [f"{self.seconds:.2f}s"] if self.seconds else []
        details += [self.point] if self.point else []
        details += [str(self.amount)] if self.amount else []
        return f"{self.kind}({' '.join(details)})"
