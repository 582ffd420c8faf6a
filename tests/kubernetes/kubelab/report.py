"""What the lab says of its progress."""

from __future__ import annotations

import time

BEGAN = time.monotonic()


def tell(what: str) -> None:
    """Print a line, with the seconds since the start."""
    print(f"{time.monotonic() - BEGAN:6.1f} s  {what}", flush=True)
