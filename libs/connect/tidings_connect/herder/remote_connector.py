"""A connector as a worker sees it that does not run it: what the topics say. Looks like `ConnectorRun` to its readers."""

from dataclasses import dataclass, field

from tidings_connect.herder.local_connector import UNASSIGNED, connector_state
from tidings_connect.storage.records import tasks_in
from tidings_connect.task.channel import Report


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """One connector of another worker, or of none at the moment."""

    name: str
    config: dict[str, str]
    target_state: str
    worker_id: str
    """Who runs it, or ran it last."""
    task_state: str = UNASSIGNED
    trace: str | None = None
    assigned: bool = True
    restarts: int = 0
    tasks: int = 1
    report: Report = field(default_factory=lambda: Report(state="starting"))

    @property
    def connector_state(self) -> str:
        """The connector's own state."""
        return connector_state(self.target_state) if self.assigned else UNASSIGNED

    @property
    def has_task(self) -> bool:
        """A stopped connector has no tasks, and neither has one that was paused before it ever ran."""
        return tasks_in(self.target_state, self.tasks) > 0

    @property
    def healthy(self) -> bool:
        """Whether nothing is known against it."""
        return self.task_state != "FAILED"

    @property
    def task_pid(self) -> int | None:
        return None

    def signal(self, text: str) -> bool:  # noqa: ARG002 - nobody here can take it
        return False
