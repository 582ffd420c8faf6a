"""The base error of the envelope library.

It has the same three attributes as every error of Tidings (`code`, `retry`, `hint`), so that a service's runner can
treat it alike without this library knowing any service.
"""

from typing import ClassVar


class EnvelopeError(Exception):
    """Something about an envelope, a schema or the registry went wrong.

    Args:
        message: one line for a person; names a setting, a subject or a field, holds no data.
        hint: what a person can do about it.
        retry: overrides the class's `default_retry`: ``timed``, ``manual`` or ``never``.
    """

    code: ClassVar[str] = "envelope"
    default_retry: ClassVar[str] = "manual"

    def __init__(self, message: str, *, hint: str | None = None, retry: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.retry = self.default_retry if retry is None else retry


class DecodeError(EnvelopeError):
    """Bytes that are not an envelope, key or marker; says what is wrong with them, never what is in them."""

    code = "decode"
    default_retry = "never"


class OrderError(EnvelopeError):
    """Commits of a source come in an order that their positions do not have."""

    code = "commit-order"
    default_retry = "never"


class SchemaError(EnvelopeError):
    """A Connect schema that a codec cannot represent."""

    code = "schema"
    default_retry = "never"


class RegistryError(EnvelopeError):
    """The schema registry refused something or could not be reached."""

    code = "registry"


class UnknownSchemaError(RegistryError):
    """The registry has answered, and has no Avro schema of that id: it is the record that names it that is wrong."""

    default_retry = "never"
