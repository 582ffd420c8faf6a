"""Decides what happens to an aggregate when one of its rules fails, or its rows do not fit the domain.

The author says it (``@rule(..., on_failure="hold")``); who operates the translator can say otherwise for a while, without
a change of code: ``TIDINGS_ON_FAILURE=placed=skip,paid=hold`` and ``TIDINGS_ON_BAD_ROWS=hold``. A row that requires another
one which is not known holds its aggregate: ``TIDINGS_ON_MISSING_REFERENCES``.
"""

from collections.abc import Iterable

from tidings_domain.evaluation.evaluate import RuleFailure
from tidings_domain.language.rules import POLICIES, Policy
from tidings_domain.language.sites import nearest
from tidings_domain.loading.domain import Domain
from tidings_service import SettingsError


class Policies:
    """The policy of each rule of a domain.

    Raises:
        SettingsError: `overrides` cannot be read, or names a rule that is not there.
    """

    def __init__(
        self,
        domain: Domain,
        overrides: str = "",
        on_bad_rows: Policy = "skip",
        on_missing_references: Policy = "hold",
    ) -> None:
        self._rules: dict[str, Policy] = {rule.id: rule.on_failure for rule in domain.rules}
        self._rows = on_bad_rows
        self._references = on_missing_references
        given = _parse(overrides)
        others = given.pop("*", None)
        for rule in self._rules:
            if others is not None:
                self._rules[rule] = others
        for rule, policy in given.items():
            if rule not in self._rules:
                raise SettingsError(
                    f"TIDINGS_ON_FAILURE: the domain has no rule '{rule}'", hint=nearest(rule, self._rules)
                )
            self._rules[rule] = policy

    def of(self, failure: RuleFailure) -> Policy:
        """What is to be done about one failure."""
        if failure.missing:
            return self._references
        return self._rows if failure.rule is None else self._rules.get(failure.rule, "skip")

    def strictest(self, failures: Iterable[RuleFailure]) -> Policy:
        """What is to be done about a change set with these failures."""
        return max((self.of(one) for one in failures), key=POLICIES.index, default="skip")


def _parse(text: str) -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        rule, equals, word = (piece.strip() for piece in part.partition("="))
        policies: dict[str, Policy] = {policy: policy for policy in POLICIES}
        if not equals or word not in policies:
            raise SettingsError(
                f"TIDINGS_ON_FAILURE: '{part}' is not rule=policy",
                hint=f"for example placed=hold,paid=stop; the policies are {', '.join(POLICIES)}",
            )
        found[rule] = policies[word]
    return found
