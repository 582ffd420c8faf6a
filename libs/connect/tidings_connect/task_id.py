"""Which task: a connector's name and a number from 0 on."""

from typing import NamedTuple


class TaskId(NamedTuple):
    """One task of a connector. The first one stands for the connector as well: whoever runs it, runs the connector, also
    where that has no task."""

    connector: str
    task: int = 0

    def __str__(self) -> str:
        """As Kafka Connect writes it."""
        return f"{self.connector}-{self.task}"
