"""A task as a worker sees it that does not run it: what the topics say. Looks like `LocalTask` to its readers."""

from dataclasses import dataclass, field

from tidings_connect.herder.local_task import UNASSIGNED, LocalTask, connector_state
from tidings_connect.task.channel import Report
from tidings_connect.task_id import TaskId


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """One task of another worker, or of none at the moment; the first one stands for its connector as well."""

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
    """How many the connector has."""
    task: int = 0
    report: Report = field(default_factory=lambda: Report(state="starting"))

    @property
    def id(self) -> TaskId:
        """Which task of which connector."""
        return TaskId(self.name, self.task)

    @property
    def connector_state(self) -> str:
        """The connector's own state."""
        return connector_state(self.target_state) if self.assigned else UNASSIGNED

    @property
    def has_task(self) -> bool:
        """A stopped connector has no tasks, and neither has one that was paused before it ever ran."""
        return self.task < self.tasks

    @property
    def healthy(self) -> bool:
        """Whether nothing is known against it."""
        return self.task_state != "FAILED"

    @property
    def task_pid(self) -> int | None:
        return None

    def signal(self, text: str) -> bool:  # noqa: ARG002 - nobody here can take it
        return False


AnyTask = LocalTask | RemoteTask


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector of the group, wherever its tasks run."""

    first: AnyTask
    """Its first task, which is there also where it has none."""
    tasks: tuple[AnyTask, ...]
    """Those that it has, in order."""

    @property
    def name(self) -> str:
        return self.first.name

    @property
    def config(self) -> dict[str, str]:
        return self.first.config

    @property
    def target_state(self) -> str:
        return self.first.target_state

    @property
    def connector_state(self) -> str:
        """The connector's own state, which says nothing about its tasks."""
        return self.first.connector_state

    @property
    def worker_id(self) -> str:
        """Who runs the connector, or ran it last."""
        return self.first.worker_id

    @property
    def healthy(self) -> bool:
        """Whether nothing is known against any of its tasks."""
        return self.first.healthy and all(task.healthy for task in self.tasks)

    @property
    def report(self) -> Report:
        """What its first task said last; an empty one where that is elsewhere."""
        return self.first.report

    def signal(self, text: str) -> bool:
        """Hand a signal to the tasks here; False when none is running."""
        taken = [task.signal(text) for task in self.tasks]
        return any(taken)
