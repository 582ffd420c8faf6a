"""What a sink connector is: its options, its tasks and their loop."""

import gc
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from tidings_connect.config.option import Option
from tidings_connect.config.sink_options import SINK_OPTIONS, check_sink
from tidings_connect.connector import Connector, Kind
from tidings_connect.diagnosis import Diagnosis
from tidings_connect.errors import OptionError
from tidings_connect.task.sink.loop import SinkLoop
from tidings_connect.task.sink.task import SinkContext, SinkTask
from tidings_connect.task.transport import TaskContext

GC_THRESHOLD: Final = (100_000, 20, 50)
"""Objects that were made and not let go of since the last look for cycles."""


class SinkConnector(Connector):
    """A connector whose tasks are `SinkTask`. It has as many as ``tasks.max`` says: the partitions are shared among them."""

    kind: ClassVar[Kind] = "sink"

    @property
    def options(self) -> Mapping[str, Option]:
        """Every option, by name; Kafka Connect's own of sinks among them."""
        return {**SINK_OPTIONS, **{option.name: option for option in self.own_options}}

    def problems(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with a configuration, by option; asks nobody."""
        return check_sink(config, self.options)

    def task_configs(self, config: dict[str, str], most: int) -> Sequence[dict[str, str]]:
        """As many as there may be."""
        return (config,) * most

    def diagnose(self, name: str, config: Mapping[str, str]) -> Iterable[Diagnosis]:  # noqa: ARG002
        """What is wrong with the system that a connector would write to: whether it answers, takes the login, has the version, the
        schema and the rights that are needed. Changes nothing there, and imports a client only when it is called.

        Args:
            name: the connector's.
            config: without problems, with secrets in place of references to them.
        """
        return ()

    @abstractmethod
    def open_task(self, config: Mapping[str, str], context: SinkContext) -> SinkTask:
        """A task, which has no partitions yet.

        Args:
            config: the task's, with secrets in place of references to them.
        """

    def run_task(self, context: TaskContext) -> None:
        """Run a task until it is to stop."""
        problems = self.problems(context.job.config)
        if problems:
            raise OptionError("; ".join(text for texts in problems.values() for text in texts))
        # What is read lives as long as its batch and has no cycles: going through all of it often costs a third of the time.
        gc.set_threshold(*GC_THRESHOLD)
        SinkLoop(context, self.open_task).run()
