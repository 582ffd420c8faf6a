"""Functions that convert a value's parts, where the parts need it. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

Convert = Callable[[Any], Any]
"""Converts a value that is not null."""


def members(converts: list[tuple[str, Convert]]) -> Convert:
    """Converts members of an object, by name."""

    def convert(value: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(value)
        for name, change in converts:
            item = found.get(name)
            if item is not None:
                found[name] = change(item)
        return found

    return convert


def each(convert: Convert) -> Convert:
    """Converts the elements of a list."""
    return lambda values: [None if value is None else convert(value) for value in values]


def items(convert: Convert) -> Convert:
    """Converts the values of a map."""
    return lambda value: {name: None if item is None else convert(item) for name, item in value.items()}
