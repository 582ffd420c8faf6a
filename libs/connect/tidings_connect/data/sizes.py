"""Sizes in bytes as people write them (``500MB``, ``1.5 TB``; powers of 1024, as PostgreSQL has it), and times. Pure."""

import math
import re
from typing import Final

_UNITS: Final = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgGtT]?[bB]|)\s*")


def parse_size(text: str) -> int:
    """Bytes.

    Raises:
        ValueError: it is not a size, or not above zero.
    """
    found = _SIZE.fullmatch(text)
    exact = 0.0 if found is None else float(found[1]) * _UNITS[found[2].upper()]
    size = 0 if math.isinf(exact) else int(exact)
    if size <= 0:
        raise ValueError("must be a size above zero, such as 20GB or 500MB")
    return size


def format_size(size: float | None) -> str:
    """``1.4 GB``; ``-`` for what is not known."""
    if size is None:
        return "-"
    units = [unit for unit in _UNITS if unit]
    step = 0
    while abs(size) >= 1024 and step < len(units) - 1:
        size /= 1024
        step += 1
    return f"{size:.0f} {units[step]}" if step == 0 or abs(size) >= 100 else f"{size:.1f} {units[step]}"


def format_seconds(seconds: float | None) -> str:
    """``2 h 05 min``; ``-`` for what is not known or never comes."""
    if seconds is None or math.isinf(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d {hours % 24} h"
