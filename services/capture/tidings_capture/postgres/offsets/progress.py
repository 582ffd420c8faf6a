"""What a task's reports tell of it beside the counters of its parts."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidings_connect.task.channel import TableProgress


@dataclass(slots=True)
class TaskProgress:
    """Written by whoever is at work; see `task_report`."""

    state: str = "starting"
    snapshot_rows: int = 0
    tables: dict[str, TableProgress] = field(default_factory=dict)
    """The running or last snapshot, by ``schema.table``."""
    connected: bool = False
    losses: dict[str, int] = field(default_factory=dict)
    """How often something may have been lost, by reason."""

    def begin_snapshot(self, tables: Iterable[tuple[tuple[str, str], int | None]]) -> None:
        """A snapshot of these tables, with their estimated rows, begins."""
        self.state, self.snapshot_rows = "snapshot", 0
        self.tables = {f"{schema}.{name}": TableProgress(0, rows) for (schema, name), rows in tables}
