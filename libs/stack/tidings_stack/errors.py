"""What can go wrong with the stack. Each error carries a stable `code` and a `hint`."""

from __future__ import annotations

from typing import ClassVar


class StackError(Exception):
    """A server of the stack could not be started, stopped or reached."""

    code: ClassVar[str] = "stack"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ServerStartError(StackError):
    """A server ended or stayed silent while it was starting. The message ends with its last log lines."""

    code = "server_start"


class NotSupportedError(StackError):
    """This kind of server cannot do that (an existing server is not ours to stop)."""

    code = "not_supported"


class PipelineError(StackError):
    """A service on the stack cannot be started, has ended, or does not answer as it must."""

    code = "pipeline"


class PackagesUnavailableError(StackError):
    """A program that comes from Debian's packages cannot be had on this machine; tests of it are skipped."""

    code = "packages_unavailable"
