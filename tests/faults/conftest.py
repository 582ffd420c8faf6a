"""One lab for all tests of faults: its servers are stopped and its links cut, so it is nobody else's.

A test that failed may have left it broken: the next one gets a new lab, or one failure would be many.
"""

import contextlib
import os
import random
from collections.abc import Callable, Iterator

import pytest
from faultlab.run import Outcome, Run
from faultlab.schedule import Schedule
from faultlab.servers import Lab, open_lab

from tidings_stack.pytest_plugin import has_failed


class Labs:
    """The lab there is; another one after `discard`."""

    def __init__(self) -> None:
        self._exits = contextlib.ExitStack()
        self._lab: Lab | None = None
        self._count = 0

    def get(self) -> Lab:
        """PostgreSQL, Kafka and the registry behind proxies, and a worker.

        A day of idleness takes seconds here: the broker forgets producers and closes connections that say nothing.
        """
        if self._lab is None:
            self._count += 1
            self._lab = self._exits.enter_context(
                open_lab(
                    registry=True,
                    group=f"faults-{os.getpid()}-{self._count}",
                    kafka_settings={
                        "connections.max.idle.ms": "4000",
                        "producer.id.expiration.ms": "3000",
                        "producer.id.expiration.check.interval.ms": "1000",
                    },
                )
            )
        return self._lab

    def discard(self) -> None:
        """Stop the lab and remove it."""
        self._lab = None
        self._exits.close()


@pytest.fixture(scope="session")
def labs() -> Iterator[Labs]:
    made = Labs()
    yield made
    made.discard()


@pytest.fixture
def lab(labs: Labs, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The lab, whose last words are part of the report when the test fails."""
    found = labs.get()
    yield found
    if has_failed(request.node):
        print(found.last_words())
        labs.discard()


@pytest.fixture
def survive(lab: Lab) -> Callable[..., Outcome]:
    """`survive(fault, ..., options={}, rows=0)`: faults under traffic, and then everything is as it should be."""

    def run(*faults: object, options: dict[str, str] | None = None, rows: int = 0) -> Outcome:
        seed = random.randrange(1 << 32)
        print("seed of the traffic:", seed)
        schedule = Schedule(seed, tuple(faults), options or {}, rows)  # type: ignore[arg-type]
        outcome = Run(lab, schedule, print, strict=True).run()
        assert outcome.verdict.problems == [], lab.worker.tail()
        assert outcome.verdict.events > 0
        return outcome

    return run
