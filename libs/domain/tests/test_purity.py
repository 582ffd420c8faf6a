"""What a rule may not use is seen in its code, and what only sounds like it is left alone."""

import datetime as calendar
import os.path
import random
import time as watch
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from time import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from tidings_domain.loading.purity import impure_names


def imports_inside() -> Any:
    import socket

    return socket.gethostname()


def inner_function() -> Any:
    def inner() -> Any:
        return [random.random() for _ in range(3)]

    return inner


def fields_with_such_names(change: Any) -> Any:
    return change.after.now, change.today(), change.time, change.open, change.random()


def values_of_such_modules(change: Any) -> Any:
    return (
        datetime.fromisoformat(change),
        UUID(change),
        datetime(2024, 1, 1, tzinfo=UTC),
        date.fromordinal(1),
        calendar.UTC,
    )


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda: datetime.now(UTC), ["datetime.now()"]),
        (lambda: calendar.datetime.now(UTC), ["datetime.now()"]),
        (lambda: date.today(), ["date.today()"]),  # noqa: DTZ011, PLW0108
        (lambda: time(), ["time.time()"]),  # noqa: PLW0108
        (lambda: watch.monotonic(), ["module time", "time.monotonic()"]),  # noqa: PLW0108
        (lambda: uuid4(), ["uuid4()"]),  # noqa: PLW0108
        (lambda: uuid.uuid1(), ["uuid1()"]),  # noqa: PLW0108
        (lambda: os.environ["HOME"], ["module os"]),
        (lambda path: open(path), ["open()"]),  # noqa: PLW0108, PTH123, SIM115
        (imports_inside, ["module socket"]),
        (inner_function, ["module random"]),
        (fields_with_such_names, []),
        (values_of_such_modules, []),
        (print, []),
    ],
)
def test_what_a_function_uses(function: Callable[..., Any], found: list[str]) -> None:
    assert impure_names(function) == found
