"""What holds for every test run.

Tests of Hypothesis have no deadline, because a busy machine is no defect of the code, and the same examples in each run,
so that a change is judged by what it changed; `pytest --hypothesis-profile search` looks for new examples instead.

With pytest-xdist (`make test`), the tests of a file stay together. So do all that use Kafka Connect, which then is started
once, and all that use Spark, of which two at a time are too much for two cores. What takes longest begins first, so that
no process waits for another at the end.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("tidings", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("tidings")

ORDER = ("spark", "connect", "tests", "services")


def group_of(item: pytest.Item) -> str:
    """The tests that run in one process, one after the other."""
    fixtures = getattr(item, "fixturenames", ())
    if item.get_closest_marker("spark") is not None or "spark" in fixtures:
        return "spark"
    if "lab" in fixtures:  # the servers that faults are done to
        return "tests/faults"
    return "connect" if "connect_url" in fixtures else item.nodeid.partition("::")[0]


def rank(group: str) -> int:
    return next((place for place, start in enumerate(ORDER) if group.startswith(start)), len(ORDER))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    groups = {item: group_of(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: rank(groups[item]))
