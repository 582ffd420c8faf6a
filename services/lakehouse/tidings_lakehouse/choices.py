"""What a person has chosen for the tables of some topics; by default nothing. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class TopicChoices:
    """Of one topic."""

    is_text: bool = False
    """Records without schemas are kept as text, see `text_records`."""


@dataclass(frozen=True)
class Choices:
    """Of all topics."""

    texts: str | None = None
    """Pattern of topics whose JSON without schemas is kept as text, as a whole."""

    def of(self, topic: str) -> TopicChoices:
        """Those of one topic."""
        return TopicChoices(self.texts is not None and re.fullmatch(self.texts, topic) is not None)
