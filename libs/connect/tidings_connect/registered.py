"""What installed distributions register with entry points: connectors, transforms, predicates. Nothing else is found."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def _all() -> Any:  # Python 3.11 and 3.12 have different classes for it
    return entry_points()  # looks at every distribution there is: once is enough


def registered(group: str) -> list[Any]:
    """What the entry points of a group name, in the order of their names."""
    return [entry.load() for entry in sorted(_all().select(group=group), key=lambda entry: entry.name)]


def forget() -> None:
    """Look anew at the next call: for tests that install a distribution."""
    _all.cache_clear()
