"""The elements of Java's collections.

py4j learns of the end of a Java iterator by an exception, of which pyspark asks Java some forty questions: as much work as a dozen commits'
calls. So none is iterated to its end by a `for` loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def items(collection: Any) -> list[Any]:
    """What a collection has."""
    return list(collection.toArray())


def each(closeable: Any) -> Iterator[Any]:
    """What one of Iceberg's iterables gives; it is closed behind the last one."""
    try:
        found = closeable.iterator()
        while found.hasNext():
            yield found.next()
    finally:
        closeable.close()
