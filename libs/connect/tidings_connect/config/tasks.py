"""The tasks that a stored connector has: how many, with which configuration, of which class. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from tidings_connect.config.plugins import connector_of
from tidings_connect.errors import ConnectError
from tidings_service import get_logger

TASKS_MAX: Final = "tasks.max"
_log = get_logger(__name__)


def tasks_max(config: Mapping[str, str]) -> int:
    """The most tasks that a configuration allows; 1 where it says nothing that can be understood."""
    text = config.get(TASKS_MAX, "1").strip()
    return max(1, int(text)) if text.isascii() and text.isdigit() else 1


def task_configs_of(config: dict[str, str] | Mapping[str, str]) -> Sequence[dict[str, str]]:
    """A connector's tasks. One of a class that is not here, or that cannot divide its work, has one with its own
    configuration: that task says what is wrong."""
    own = config if isinstance(config, dict) else dict(config)
    connector = connector_of(config)
    if connector is None:
        return (own,)
    try:
        made = [
            dict(given) if given is not own else own for given in connector.task_configs(own, tasks_max(own))
        ]
    except (ConnectError, ValueError, LookupError) as error:
        _log.warning(
            "a connector cannot divide its work into tasks",
            connector=config.get("name"),
            reason=type(error).__name__,
        )
        return (own,)
    return made or (own,)


def task_count_problem(config: Mapping[str, str]) -> str | None:
    """What is wrong when a connector makes more tasks than it may; in Kafka Connect's words."""
    connector = connector_of(config)
    most = tasks_max(config)
    made = 1 if connector is None else len(task_configs_of(config))
    if made <= most:
        return None
    return (
        f"The connector {config.get('name')} has generated {made} tasks, which is greater than {most}, the maximum "
        "number of tasks it is configured to create."
    )


def task_class_of(config: Mapping[str, str]) -> str:
    """What ``task.class`` says in the record of a task."""
    connector = connector_of(config)
    if connector is not None:
        return connector.task_class or connector.class_name.removesuffix("Connector") + "Task"
    return config.get("connector.class", "").removesuffix("Connector") + "Task"
