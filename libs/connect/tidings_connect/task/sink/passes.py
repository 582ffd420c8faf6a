"""How often something is passed over before it is tried again, behind a try that was in vain."""

from typing import Final

_MOST: Final = 31


class Passes:
    """One time behind the first try in vain, 3 behind the next one, then 7, 15 and 31; none behind one that was not."""

    def __init__(self) -> None:
        self._last = 0
        self.left = 0
        """How many times are still to come."""

    def in_vain(self) -> None:
        """A try was."""
        self._last = self.left = min(2 * self._last + 1, _MOST)

    def done(self) -> None:
        """A try was not."""
        self._last = self.left = 0

    def passed(self) -> None:
        """It was passed over once, if it was to be."""
        self.left = max(0, self.left - 1)
