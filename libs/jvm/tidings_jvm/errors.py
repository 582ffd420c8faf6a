"""What can go wrong here. Each error carries a stable `code` and a `hint` for the person who reads it."""

from __future__ import annotations

from typing import ClassVar


class JvmError(Exception):
    """A Java or a JVM part could not be had."""

    code: ClassVar[str] = "jvm"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class JavaNotFoundError(JvmError):
    """No Java that is new enough."""

    code = "java_not_found"


class FetchError(JvmError):
    """A configuration could not be fetched."""

    code = "fetch"


class ChecksumError(FetchError):
    """A file is not the one that `checksums.txt` names."""

    code = "checksum"
