"""One lab for all tests of faults: its servers are stopped and its links cut, so it is nobody else's."""

import os
import random
from collections.abc import Callable, Iterator

import pytest
from faultlab.schedule import Outcome, Run, Schedule
from faultlab.servers import Lab, open_lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """PostgreSQL, Kafka and the registry behind proxies, and a worker.

    A day of idleness takes seconds here: the broker forgets producers and closes connections that say nothing.
    """
    with open_lab(
        registry=True,
        group=f"faults-{os.getpid()}",
        kafka_settings={
            "connections.max.idle.ms": "4000",
            "producer.id.expiration.ms": "3000",
            "producer.id.expiration.check.interval.ms": "1000",
        },
    ) as lab:
        yield lab


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
