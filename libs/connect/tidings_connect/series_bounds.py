"""Keeps the labels of a connector's series few: a topic or table too many is counted under ``other``.

Names of topics and tables come from the data, and every one is a series that Prometheus keeps for ever.
"""

from collections.abc import Collection, Mapping
from typing import Final

OTHER: Final = "other"


class SeriesBounds:
    """Which names are shown: the first of each connector, which stay, because a counter must not go back.

    Args:
        most: names of each connector and kind.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._shown: dict[tuple[str, str], set[str]] = {}
        self._folded: dict[tuple[str, str], int] = {}

    def fold(self, connector: str, kind: str, values: Mapping[str, float]) -> dict[str, float]:
        """The values to be shown by name, with the sum of all others under `OTHER`."""
        shown = self._shown.setdefault((connector, kind), set())
        found: dict[str, float] = {}
        rest = 0.0
        folded = 0
        for name, value in values.items():
            if name in shown or len(shown) < self._most:
                shown.add(name)
                found[name] = value
            else:
                rest += value
                folded += 1
        self._folded[connector, kind] = folded
        return {**found, OTHER: found.get(OTHER, 0.0) + rest} if folded else found

    def folded(self, connector: str) -> int:
        """How many names of a connector were not shown the last time."""
        return sum(count for (name, _), count in self._folded.items() if name == connector)

    def keep(self, connectors: Collection[str]) -> None:
        """Forget the names of all other connectors."""
        for key in [key for key in self._shown if key[0] not in connectors]:
            del self._shown[key]
            self._folded.pop(key, None)
