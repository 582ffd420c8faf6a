"""How fast something grows, and when there is no room for it any more. Pure."""

from collections.abc import Sequence
from typing import Final

WINDOW_SECONDS: Final = 300.0
"""Rates are averages over about this long: a forecast from one checkpoint's burst frightens people."""
NEVER: Final = float("inf")

Samples = Sequence[tuple[float, float]]
"""(time in seconds, a position or a size in bytes), oldest first."""


def rate_of(samples: Samples) -> float:
    """Bytes per second; 0 where nothing is known, or it shrinks."""
    if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
        return 0.0
    return max(0.0, (samples[-1][1] - samples[0][1]) / (samples[-1][0] - samples[0][0]))


def recent(samples: Samples, now: float) -> list[tuple[float, float]]:
    """The samples of the window that ends now."""
    return [sample for sample in samples if sample[0] > now - WINDOW_SECONDS]


def seconds_until(room: float, rate: float) -> float:
    """Until there is no room any more, in seconds.

    Args:
        room: what is left, in bytes.
        rate: how fast it becomes less, in bytes per second.
    """
    if room <= 0:
        return 0.0
    return NEVER if rate <= 0 else room / rate
