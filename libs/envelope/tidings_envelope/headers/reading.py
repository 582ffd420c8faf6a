"""Headers as Kafka's clients give them."""

from collections.abc import Sequence
from typing import TypeAlias

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Of a record: names and values, in order."""
