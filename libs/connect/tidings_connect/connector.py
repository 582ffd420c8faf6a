"""What a connector is to the worker. A distribution names its own with entry points of the group ``tidings.connectors``.

One object stands for all connectors of a class. The worker asks it about configurations; `run_task` runs in a process of its
own, one for each task, which is forked with what `preload` has imported. See ``docs/connectors.md``.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol

from tidings_connect.config.framework import FRAMEWORK_OPTIONS, FRAMEWORK_TEXTS, check_framework
from tidings_connect.config.option import Definition, Option
from tidings_connect.data.subscription import TopicPartition

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from tidings_connect.config.worker import WorkerConfig
    from tidings_connect.series_bounds import SeriesBounds
    from tidings_connect.task.channel import Report
    from tidings_connect.task.transport import TaskContext

Kind = Literal["source", "sink"]
CANNOT_CONNECT: Final = "Error while validating connector config:"
"""How a problem begins that a source has told; its words are shown although a secret may be behind them."""
_OWN_GROUP: Final = "CONNECTOR"


@dataclass(frozen=True, slots=True)
class Findings:
    """What is to be said of a configuration."""

    problems: dict[str, list[str]]
    """What is wrong, by option: it cannot run."""
    warnings: tuple[str, ...] = ()
    """What it would do that its author may not want."""


class Companion(Protocol):
    """What runs in the worker beside a class of connectors, and watches over what they use."""

    @property
    def name(self) -> str:
        """What it watches, for the log and the worker's health."""
        ...

    @property
    def collectors(self) -> Sequence["Collector"]:
        """Its metrics."""
        ...

    async def run(self) -> None:
        """Until cancelled."""
        ...


class Counts(Protocol):
    """What a task has done; sums over its processes."""

    @property
    def transactions(self) -> int: ...

    @property
    def events(self) -> int: ...

    @property
    def losses(self) -> Mapping[str, int]:
        """How often changes may have been lost, by reason."""
        ...


class RunningTask(Protocol):
    """A task of this worker, as a companion sees it."""

    @property
    def name(self) -> str:
        """Its connector's."""
        ...

    @property
    def config(self) -> Mapping[str, str]:
        """Its connector's, as it is stored."""
        ...

    @property
    def report(self) -> "Report":
        """What it said last."""
        ...

    @property
    def report_age_seconds(self) -> float | None:
        """How long ago its process said something; None while none runs."""
        ...

    @property
    def errors(self) -> Mapping[str, int]:
        """How often its process ended on an error, by code."""
        ...

    @property
    def held(self) -> str | None:
        """Why it rests although it is meant to run."""
        ...

    def counters(self) -> Counts: ...

    def tell(self, kind: str, body: str) -> None:
        """Let a command stand in place of the last one of its kind: its process is told it, and each one after it."""
        ...


class Host(Protocol):
    """The worker, as a companion sees it."""

    @property
    def worker(self) -> "WorkerConfig":
        """Its properties."""
        ...

    @property
    def local_runs(self) -> Mapping[str, RunningTask]:
        """The first tasks of the connectors that this worker runs, by name."""
        ...

    def resolved(self, config: Mapping[str, str]) -> dict[str, str]:
        """A configuration with secrets in place of the references to them.

        Raises:
            ConfigProviderError: a reference cannot be resolved.
        """
        ...

    async def interrupt(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """End a connector's tasks, do something, and start them again."""
        ...

    async def hold(self, name: str, reason: str | None) -> None:
        """Let a connector's tasks rest for a reason, or go on (None)."""
        ...


class Connector(ABC):
    """A class of connectors."""

    class_name: ClassVar[str]
    """What ``connector.class`` names; its short names are made of it."""
    version: ClassVar[str]
    kind: ClassVar[Kind]
    task_class: ClassVar[str] = ""
    """What ``task.class`` says in the tasks' records; default: `class_name` with ``Task`` in place of ``Connector``."""
    writes_rows: ClassVar[bool] = False
    """Whether its tasks encode rows with the converter's codec, which converters of plain values have not."""
    shows_values: ClassVar[bool] = False
    """Whether validation answers its own options' values, as connectors do whose options Kafka Connect checks; Debezium's do
    not."""
    own_options: ClassVar[Sequence[Option]] = ()
    """What it takes beside Kafka Connect's own options."""
    worker_options: ClassVar[Sequence[Option]] = ()
    """The worker's properties that only its tasks and its `companion` obey (`WorkerConfig.connector_properties`,
    `TaskJob.worker_properties`)."""
    removable: ClassVar[Mapping[str, Callable[[Mapping[str, str]], None]]] = {}
    """What a stopped connector leaves at its source that ``DELETE /connectors/{name}/<key>`` removes; gets the connector's
    configuration with its secrets, and blocks."""

    @property
    def options(self) -> Mapping[str, Option]:
        """Every option, by name; Kafka Connect's own among them."""
        return {**FRAMEWORK_OPTIONS, **{option.name: option for option in self.own_options}}

    def definitions(self) -> Sequence[Definition]:
        """Its own options as ``/connector-plugins`` shows them."""
        return [option.definition(_OWN_GROUP, order) for order, option in enumerate(self.own_options, 1)]

    def groups(self) -> Sequence[str]:
        """The groups of its own definitions, in order."""
        return [_OWN_GROUP]

    def documentation(self, name: str) -> str:
        """What an option means, in a sentence."""
        option = self.options.get(name)
        return (option.documentation if option is not None else "") or FRAMEWORK_TEXTS.get(name, "")

    def recommended(self, definition: Definition) -> list[str]:
        """The values to choose an option's from, where there are few."""
        option = self.options.get(definition.name)
        return [] if option is None else list(option.values)

    def place(self, config: Mapping[str, str | None]) -> str:  # noqa: ARG002 - a connector may have none
        """Which server a configuration is about: only few at a time are checked against one."""
        return self.class_name

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with a configuration, by option; asks nobody."""
        return check_framework(config, self.options)

    def examine(self, config: Mapping[str, str]) -> Findings:  # noqa: ARG002 - a connector may ask nobody
        """What the source says of a configuration without problems. Blocks for seconds at most."""
        return Findings({})

    def task_configs(self, config: dict[str, str], most: int) -> Sequence[dict[str, str]]:  # noqa: ARG002
        """How the work is divided: what each task is given. One task with the connector's own configuration, unless a
        connector can do more; it then adds to each what says its share. Asks nobody: the same configuration gives the same
        tasks, on every worker.

        Args:
            config: as it is stored, with references to secrets in their place.
            most: ``tasks.max``.
        """
        return (config,)

    def companion(self, host: Host, bounds: "SeriesBounds") -> Companion | None:  # noqa: ARG002 - few have one
        """What is to run in each worker beside its connectors.

        Args:
            bounds: how many series a connector's metrics may have.
        """
        return None

    def deleted(self, name: str, config: Mapping[str, str]) -> None:  # noqa: B027 - most leave nothing
        """A connector was deleted: warn of what it leaves at its source. Asks nobody."""

    def check_offsets(
        self,
        config: Mapping[str, str],  # noqa: ARG002 - most take what a task would understand
        offsets: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]],  # noqa: ARG002
    ) -> bool:
        """Offsets are to be altered or reset (each to None) over REST, while it is stopped: refuse what cannot be one.

        Args:
            config: as it is stored.
            offsets: each with its partition.

        Returns:
            Whether nothing but these says where it goes on; the answer says so then.

        Raises:
            OffsetError: one cannot be, and nothing is changed.
        """
        return False

    def offsets_changed(  # noqa: B027 - most keep none of their own
        self, name: str, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None] | None
    ) -> None:
        """A sink's offsets are altered or reset over REST, while it is stopped: one that keeps positions in its system changes
        them as well. Blocks; called before the group's are changed.

        Args:
            config: with its secrets.
            offsets: where partitions go on; None of one: where the group does. None: all of them are reset.

        Raises:
            ConnectError: its system cannot be asked, so that nothing is changed.
        """

    def preload(self) -> None:  # noqa: B027 - a small connector has nothing to import
        """Import what a task needs. Called once, before tasks are forked, so that they share its memory."""

    @abstractmethod
    def run_task(self, context: "TaskContext") -> None:
        """Be a task, until it is to stop. Errors leave it; the worker decides whether to try again."""
