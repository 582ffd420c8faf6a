"""Pieces of generated code: direct ways from a cell to its encoded form. What they are, not what they do for which type.

A database's `TypeMap` gives them for its types; the plan's generated functions are put together from them.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

Snippet = tuple[tuple[str, ...], dict[str, Any]]
"""Lines of code with ``{c}``, and the names they use."""

CONTROL: Final = b"\\u00"
"""What orjson writes for a control character without a short escape, in lower case where Jackson uses upper case."""
ASTRAL: Final = re.compile(rb"[\xf0-\xff]").search
"""Finds a character that Jackson writes as two escaped surrogates."""

TEXT: Final[Snippet] = (("{c} = dumps({c}.decode())",), {"dumps": orjson.dumps})
LOOK_AGAIN: Final[Snippet] = (
    ("if ESCAPE in {c} and CONTROL in {c} or not {c}.isascii() and ASTRAL({c}): raise ValueError",),
    {"ESCAPE": b"\\", "CONTROL": CONTROL, "ASTRAL": ASTRAL},
)
"""Looks for what `TEXT` leaves out, in a cell's JSON or in a whole row's. Most have no backslash at all, which is the fastest
thing to look for."""


class Shape(NamedTuple):
    """One form of a column's cells.

    In all source code, ``{c}`` stands for a variable of the column's own; others of its own begin with it.
    """

    pattern: bytes
    """Of a whole cell, NUL excluded; one group for each of `parts`."""
    parts: tuple[str, ...] = ("{c}",)
    """The variables of the groups; the first one is ``{c}``."""
    size: str | int = "len({c})"
    """The cell's length in bytes: computed from the parts, or always the same."""
    lines: tuple[str, ...] = ()
    """The code that makes `result` of the parts."""
    result: tuple[bytes | str, ...] = ("{c}",)
    """What the cell's JSON consists of: constants and variables."""
    from_whole: tuple[str, ...] = ()
    """The code that makes `result` of the whole JSON, which is in ``{c}``."""
    always: bool = False
    """Whether every cell that the database writes for the type has this form."""
    names: Mapping[str, Any] = {}
    """What the code uses."""
