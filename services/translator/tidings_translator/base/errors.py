"""The errors of the running stages, each with a stable `code`, what helps (`retry`), and a hint for a person.

Those of a domain and of its evaluation are in `tidings_domain.errors`.
"""

from tidings_domain.errors import TranslatorError
from tidings_service.errors import Retry


class BrokerError(TranslatorError):
    """Kafka is unreachable or refused something; the message names TIDINGS_KAFKA."""

    code = "kafka"
    default_retry = Retry.TIMED


class FencedError(TranslatorError):
    """The partitions went to another generation of the group: the work is dropped, nothing was committed."""

    code = "fenced"
    default_retry = Retry.TIMED


class GapError(TranslatorError):
    """Records were deleted before they were read, or nobody knows which were: going on would lose them in silence."""

    code = "gap"


class GenerationError(TranslatorError):
    """A generation cannot do what it was asked to, or may not work."""

    code = "generation"


class StopError(TranslatorError):
    """A policy says that the translator must not go on past a change set; nothing has moved."""

    code = "stopped"
    default_retry = Retry.NEVER
