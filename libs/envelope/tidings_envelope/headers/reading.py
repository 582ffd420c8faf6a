"""Headers as Kafka's clients give them.

Kafka's protocol says that a header's name is UTF-8, and brokers do not look. Java's client reads what is not as U+FFFD, so that
Kafka Connect passes such a record on. confluent-kafka fails instead, in a way of its own: its `Message.headers` sets an error
and gives a result besides, in which the names that it could not read are missing. Where CPython has specialised the call, the
error surfaces in a later one, which has nothing to do with it.
"""

import gc
from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Final, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Of a record: names and values, in order."""

UNREADABLE: Final = "\ufffd"
"""Stands for a name that is not UTF-8."""

_CALL: Final = methodcaller("headers")
"""A call that is always checked for an error besides a result."""


def read_headers(message: Any) -> Headers:
    """The headers of a `confluent_kafka.Message`; `UNREADABLE` stands for each name that is not UTF-8."""
    try:
        return _CALL(message) or ()
    except SystemError as error:
        if not _is_of_a_name(error):
            raise
    found = [_pair(pair) for pair in _members(_CALL(message))]
    message.set_headers(found)  # nobody may meet the null pointers, who asks the message again
    return found


def _is_of_a_name(error: BaseException | None) -> bool:
    """Whether a name that is not UTF-8 is behind an error; each further one wraps it once more."""
    while error is not None and not isinstance(error, UnicodeDecodeError):
        error = error.__cause__
    return error is not None


def _pair(found: tuple[Any, ...]) -> tuple[str, bytes | None]:
    members = _members(found)
    return (members[0], members[1]) if len(members) == len(found) else (UNREADABLE, members[0])


def _members(container: Any) -> list[Any]:
    """Of a list or tuple that lacks some: C code has left null pointers, which must not be touched in any other way."""
    return gc.get_referents(container)[::-1]
