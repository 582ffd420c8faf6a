"""What is shown of a pipeline: one picture of all stages at a moment. Pure data, filled by `feed`, drawn by `view`."""

import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

HISTORY = 120
"""Samples kept for the curves."""
LATEST = 12
"""Business events kept for the list of the newest."""


class State(StrEnum):
    """How far a part is."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


@dataclass(slots=True)
class Part:
    """A server or service."""

    name: str
    state: State = State.WAITING
    since: float = 0.0
    """Seconds after the start at which it began to start."""
    seconds: float | None = None
    """How long the start took, once it is ready."""


@dataclass(frozen=True, slots=True)
class LatestEvent:
    """A business event in a line for people."""

    clock: str
    name: str
    version: int
    subject: str
    text: str
    latency_seconds: float | None
    """From the commit in the database to the consumer that watches."""


@dataclass(slots=True)
class Series:
    """A count that grows, and the rate at which it did at each sample."""

    total: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    _at: float | None = None

    def sample(self, total: int, at: float) -> None:
        """Set the count as of `at` (seconds of any one clock)."""
        if self._at is not None and at > self._at:
            self.rates.append(max(0.0, (total - self.total) / (at - self._at)))
        self.total, self._at = total, at

    def rate(self, samples: int = 6) -> float:
        """Mean per second over the last samples."""
        recent = list(self.rates)[-samples:]
        return sum(recent) / len(recent) if recent else 0.0


@dataclass(slots=True)
class Lag:
    """How far a stage is behind; None where nobody has said yet."""

    seconds: float | None = None
    records: int | None = None
    bytes: int | None = None


@dataclass(slots=True)
class Figures:
    """The picture. Threads fill it and one draws it: hold `lock` around either."""

    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    title: str = ""
    """What the picture is of."""
    database: str = "PostgreSQL"
    """What the database is called."""
    log: str = "WAL"
    """What its log is called."""
    events: Sequence[tuple[str, Sequence[int]]] = ()
    """The business events and their live versions."""
    tables: Sequence[str] = ()
    """The tables that are shown; none: those that the services name."""
    styles: Mapping[str, str] = field(default_factory=dict)
    """Colours of events by name."""
    phase: str = "starting"
    elapsed: float = 0.0
    """Seconds since the beginning."""
    progress: float = 0.0
    """Of the phase, 0 to 1; negative: nobody knows."""
    parts: list[Part] = field(default_factory=list)
    transactions: Series = field(default_factory=Series)
    committed: Counter[str] = field(default_factory=Counter)
    """Transactions by kind."""
    rolled_back: int = 0
    technical: Series = field(default_factory=Series)
    technical_by_table: Counter[str] = field(default_factory=Counter)
    business: Series = field(default_factory=Series)
    business_by_version: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Events by name and major version, as a consumer that reads committed records sees them."""
    latest: deque[LatestEvent] = field(default_factory=lambda: deque(maxlen=LATEST))
    lake: Series = field(default_factory=Series)
    lake_by_table: Counter[str] = field(default_factory=Counter)
    capture_lag: Lag = field(default_factory=Lag)
    sequencer_lag: Lag = field(default_factory=Lag)
    translator_lag: Lag = field(default_factory=Lag)
    lakehouse_lag: Lag = field(default_factory=Lag)
    latency_seconds: float | None = None
    """Median from commit to the consumer that watches, of the newest business events."""
    retained_log_bytes: int | None = None
    dead_letters: int = 0
    first_event_seconds: float | None = None
    """From the start to the first business event."""

    def part(self, name: str) -> Part:
        """The part of that name; it must be there."""
        return next(part for part in self.parts if part.name == name)

    def behind(self) -> int:
        """Records that some stage has still to work on."""
        return sum(lag.records or 0 for lag in (self.sequencer_lag, self.translator_lag, self.lakehouse_lag))

    def in_lake(self) -> tuple[int, int]:
        """Technical and business events that the lakehouse has written."""
        counts = self.lake_by_table.items()
        technical = sum(n for table, n in counts if table.startswith("technical.") and table.endswith("_log"))
        return technical, sum(n for table, n in counts if table.startswith("business."))

    def unknown(self) -> list[str]:
        """Stages that have not said yet how far they are behind."""
        lags = {
            "sequencer": self.sequencer_lag,
            "translator": self.translator_lag,
            "lakehouse": self.lakehouse_lag,
        }
        return [name for name, lag in lags.items() if lag.records is None]
