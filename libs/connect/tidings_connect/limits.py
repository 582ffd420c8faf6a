"""What a worker's properties let the authors of connectors do beyond the connector's own database and topics.

Whoever may post a connector need not be trusted with the worker: by default he can name no module to import, no file to
read, and no expression that may take for ever. The limits hold for a worker and its tasks; code below reads them with
`current_limits`, because validation, tasks and the guard read the same options in different processes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidings_connect.errors import WorkerConfigError

TRANSFORM_MODULES: Final = "tidings.transforms.allowed.modules"
SIGNAL_DIRECTORY: Final = "tidings.signal.directory"
BACKTRACKING: Final = "tidings.regex.backtracking"


@dataclass(frozen=True, slots=True)
class ConnectorLimits:
    """The limits of one worker."""

    transform_modules: tuple[str, ...] = ()
    """``tidings.transforms.allowed.modules``: the modules, and packages with all below them, that ``type`` may name."""
    signal_directory: str | None = None
    """``tidings.signal.directory``: where ``signal.file`` may be; None: only Debezium's default in the working directory."""
    backtracking: bool = False
    """``tidings.regex.backtracking``: expressions that no linear-time engine can match are matched all the same."""

    def allows_module(self, name: str) -> bool:
        """Whether a transform may be imported from a module."""
        return any(name == allowed or name.startswith(f"{allowed}.") for allowed in self.transform_modules)


_of_process: list[ConnectorLimits] = [ConnectorLimits()]
_here: ContextVar[ConnectorLimits | None] = ContextVar("connector limits", default=None)


def current_limits() -> ConnectorLimits:
    """The limits that hold here; the strictest where nobody has set any."""
    return _here.get() or _of_process[0]


def set_limits(limits: ConnectorLimits) -> None:
    """Let limits hold in this process from now on, in every thread."""
    _of_process[0] = limits


@contextmanager
def limited(limits: ConnectorLimits) -> Iterator[None]:
    """Let limits hold within a block."""
    token = _here.set(limits)
    try:
        yield
    finally:
        _here.reset(token)


def read_limits(properties: Mapping[str, str]) -> ConnectorLimits:
    """The limits that a worker's properties set.

    Raises:
        WorkerConfigError: a property is wrong; names it.
    """
    modules = tuple(filter(None, (part.strip() for part in properties.get(TRANSFORM_MODULES, "").split(","))))
    for module in modules:
        if not all(part.isidentifier() for part in module.split(".")):
            raise WorkerConfigError(f"{TRANSFORM_MODULES}: {module} is not a module's name")
    directory = properties.get(SIGNAL_DIRECTORY, "").strip() or None
    if directory is not None and not (Path(directory).is_absolute() and Path(directory).is_dir()):
        raise WorkerConfigError(f"{SIGNAL_DIRECTORY}={directory} is not an absolute path of a directory")
    backtracking = properties.get(BACKTRACKING, "false").strip().lower()
    if backtracking not in {"true", "false"}:
        raise WorkerConfigError(f"{BACKTRACKING} must be true or false")
    return ConnectorLimits(modules, directory, backtracking == "true")
