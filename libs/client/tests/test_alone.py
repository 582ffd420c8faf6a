"""A reader's team installs the client and nothing else of Tidings."""

import re
from importlib.metadata import requires


def required(distribution: str) -> set[str]:
    """What an installation brings, without extras, through to the last one."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        for requirement in requires(waiting.pop()) or ():
            name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
            if "extra ==" not in requirement and name not in found:
                found.add(name)
                waiting.append(name)
    return found


def test_it_brings_nothing_else_of_tidings() -> None:
    assert {re.split(r"[^\w.-]", one, maxsplit=1)[0] for one in requires("tidings-client") or ()} == {
        "confluent-kafka",
        "fastavro",
    }
    assert [name for name in required("tidings-client") if name.startswith("tidings")] == []
