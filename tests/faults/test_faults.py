"""Faults one by one, under traffic: afterwards the topics hold the database's history, whatever happened in between."""

from collections.abc import Callable

import pytest
from faultlab.schedule import SNAPSHOT_POINTS, STREAM_POINTS, Fault, Outcome

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]
Survive = Callable[..., Outcome]


def at(point: str, passes: int = 0, records: int = 0) -> Fault:
    """Killed there, as soon as the task has come back from the fault before."""
    return Fault("point", point=point, amount=passes, records=records)


def test_killed_at_every_point_between_the_server_and_kafka(survive: Survive) -> None:
    survive(*(at(point, passes) for passes, point in enumerate(STREAM_POINTS)))


def test_killed_at_every_point_of_a_snapshot(survive: Survive) -> None:
    outcome = survive(
        *(at(point) for point in SNAPSHOT_POINTS), options={"snapshot.mode": "initial"}, rows=15_000
    )
    assert outcome.verdict.snapshot_rows >= 15_000
