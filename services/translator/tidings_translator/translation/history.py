"""Checks that a generation's state has the history that its rules need.

With the first change set of each partition the ids of such rules are stored beside the state, in the same transaction. A
rule that is not among them was added later: what it would say depends on what it has not seen.
"""

import msgspec

from tidings_domain.loading.domain import Domain
from tidings_translator.base.errors import GenerationError

HISTORY_KEY = b"\0history"
"""The key among the states of a partition; no aggregate's begins like this."""


def rules_since_the_beginning(domain: Domain) -> bytes | None:
    """What to store with the first change set; None when no rule needs history."""
    ids = sorted(rule.id for rule in domain.rules if rule.history)
    return msgspec.json.encode(ids) if ids else None


def check_history(domain: Domain, stored: bytes | None, generation: str) -> None:
    """Refuse rules that need more history than a partition's state has.

    Args:
        domain: that is to go on from the state.
        stored: what was stored under `HISTORY_KEY`.
        generation: whose state it is, for the message.

    Raises:
        GenerationError: naming the rule and where it is.
    """
    known = set(msgspec.json.decode(stored, type=list[str])) if stored is not None else set[str]()
    for rule in domain.rules:
        if rule.history and rule.id not in known:
            raise GenerationError(
                f"rule '{rule.id}' ({rule.site}) needs all of history, and generation '{generation}' has begun without it",
                hint="run these rules as a new generation and promote it: `tidings-translator generations start NAME`",
            )
