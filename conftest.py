"""What holds for every test run.

Tests of Hypothesis have no deadline, because a busy machine is no defect of the code, and the same examples in each run,
so that a change is judged by what it changed; `pytest --hypothesis-profile search` looks for new examples instead.

With pytest-xdist (`make test`), the tests of a file stay together. So do all that use Kafka Connect, which then is started
once, all that use Spark, of which two at a time are too much for two cores, all whose servers are done harm, and all that
need servers with TLS. What takes longest begins first, so that no process waits for another at the end. (xdist's own
groups, by marker, have no effect with the pinned versions: pytest 9.2 makes a test's id anew from where it was collected.)
"""

import os
import sys
from typing import Any

import pytest
from hypothesis import settings

# The servers of a test live for minutes and do little: half of what a JVM would spend is its second compiler's. Set here,
# so that benchmarks, which are not pytest's, have JVMs as people run them; and inherited by the demos that tests start.
os.environ.setdefault("TIDINGS_STACK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Tests start hundreds of processes; without its bytecode kept, each would compile all of its modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

settings.register_profile("tidings", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("tidings")

TOGETHER = {
    "examples/shop/tests/test_demo_run.py": "spark",
    "services/lakehouse/": "spark",
    "tests/e2e/": "spark",
    "libs/stack/tests/test_connect.py": "connect",
    "tests/conformance/": "connect",
    "services/sinks/tests/test_search": "search",
    "tests/faults/": "faults",
    "services/capture/tests/test_secured": "secured",
    "libs/service/tests/test_kafka_logins": "secured",
    "services/translator/tests/test_logins": "secured",
}
"""Which tests run in one process, one after the other, by the beginning of their ids."""
FIRST = (
    "spark",
    "connect",
    "faults",
    "secured",
    "services/translator/tests/test_generations",  # two minutes: more than any other file of one test
    "services/capture",
    "services/translator/tests/test_",
    "libs/",
)


def group_of(node_id: str) -> str:
    """The tests that run together: a group of `TOGETHER`, or a file."""
    named = (group for start, group in TOGETHER.items() if node_id.startswith(start))
    return next(named, node_id.partition("::")[0])


def rank(group: str) -> int:
    return next((place for place, start in enumerate(FIRST) if group.startswith(start)), len(FIRST))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: rank(group_of(item.nodeid)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - an optional plugin

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Together(config, log)
