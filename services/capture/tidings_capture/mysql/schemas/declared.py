"""A column's declared type, taken apart as Debezium tells it: name, length and scale. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from tidings_capture.mysql.schemas.catalog import Column

_TYPE: Final = re.compile(r"(\w+)(?:\((.*)\))?(.*)", re.DOTALL)
LABEL: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'")
"""A text as SQL writes it."""


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """``INT UNSIGNED``, ``VARCHAR`` and so on."""

    name: str
    """In capitals, with what stands behind the parentheses."""
    length: int | None
    """What stands in the parentheses; None where nothing does."""
    scale: int | None
    labels: tuple[str, ...]
    """Of an ENUM or a SET, in quotes."""


def declared_type(column: Column) -> DeclaredType:
    """The type of a column."""
    match = _TYPE.fullmatch(column.declared)
    inner, behind = (match[2], match[3]) if match else (None, "")
    name = (column.type + behind.split(" /*")[0]).upper()
    labels = tuple(LABEL.findall(inner or "")) if column.type in {"enum", "set"} else ()
    return DeclaredType(name, *_sizes(column.type, inner, len(labels)), labels)


def _sizes(kind: str, inner: str | None, labels: int) -> tuple[int | None, int | None]:
    if kind == "enum":
        return 1, None
    if kind == "set":
        return max(0, 2 * labels - 1), None
    numbers = [int(part) for part in (inner or "").split(",") if part.strip().isdigit()]
    return (numbers[0] if numbers else None), (numbers[1] if len(numbers) > 1 else None)
