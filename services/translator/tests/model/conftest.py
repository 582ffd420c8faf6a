"""What the tests of the translator's parts share: the box domain, and a shard of it whose rules fail as a test wants."""

from collections.abc import Callable
from typing import Any

import pytest
from boxes import box_contracts, box_domain, box_files, make_contract, node, write_domain  # noqa: F401 - fixtures
from holding import Poison, Run

from tidings_domain import Domain


@pytest.fixture
def make(
    box_domain: Callable[..., Domain],  # noqa: F811 - a fixture
    box_files: dict[str, str],  # noqa: F811 - a fixture
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Run]:
    """`make(policy, ...)`: `packed` fails for a box with the note "poison" as long as `Poison.on`."""
    monkeypatch.setattr(Poison, "on", True)

    def make_run(policy: str = "skip", *, once: bool = False, **options: Any) -> Run:
        rules = box_files["rules.py"].replace(
            "@rule(Box, emits=BoxPacked)", f'@rule(Box, emits=BoxPacked, on_failure="{policy}", once={once})'
        )
        rules = rules.replace(
            "def packed(change):",
            'def packed(change):\n    if change.after and change.after.note in {"poison", "both"} and POISON.on:\n'
            "        raise ValueError(change.after.note)",
        )
        rules = rules.replace(
            "def item_added(change):",
            'def item_added(change):\n    if change.after and change.after.note == "both":\n'
            "        raise ValueError(change.after.note)",
        )
        domain = box_domain({"rules.py": rules + "\n\nPOISON = None\n"})
        rule = next(one for one in domain.rules if one.id == "packed")
        rule.function.__globals__["POISON"] = Poison
        return Run(domain, **options)

    return make_run
