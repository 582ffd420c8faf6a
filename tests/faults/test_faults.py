"""Faults one by one, under traffic: afterwards the topics hold the database's history, whatever happened in between."""

import secrets
from collections.abc import Callable

import pytest
from faultlab.fault import Fault
from faultlab.run import Outcome, Run
from faultlab.schedule import SNAPSHOT_POINTS, STREAM_POINTS, make_schedule
from faultlab.servers import BROKER_SESSION_SECONDS, Lab

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]
Survive = Callable[..., Outcome]
EXACTLY_ONCE = {"exactly.once.support": "required"}


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


def test_a_host_that_dies_within_a_snapshot_and_tells_nobody(survive: Survive) -> None:
    """The server keeps its half of the connections, and the temporary slot of the second attempt with it."""
    lost = [Fault("point_lose", point="snapshot.rows") for _ in range(3)]
    survive(*lost, options={"snapshot.mode": "initial"}, rows=6_000)


@pytest.mark.parametrize("link", ["pg", "kafka"])
def test_links(survive: Survive, link: str) -> None:
    survive(
        Fault(f"{link}_cut", records=50),
        Fault(f"{link}_hold", seconds=1.0, records=50),
        Fault(f"{link}_delay", seconds=0.05, amount=2, records=20),
        Fault(f"{link}_cut_after", amount=5_003, records=20),
        Fault(f"{link}_lose", amount=1, records=50),
    )


@pytest.mark.turns
def test_servers_that_crash(survive: Survive) -> None:
    survive(
        Fault("pg_immediate", records=50),
        Fault("terminate", records=50),
        Fault("kafka_kill", records=50),
        Fault("kill_worker", records=50),
    )


def test_a_broker_that_stands_still_for_longer_than_its_session(survive: Survive) -> None:
    """Clients meet partitions without a leader and a group without its members; then a request changes a connector."""
    survive(
        Fault("kafka_freeze", seconds=BROKER_SESSION_SECONDS + 3, records=50),
        Fault("reconfigure", records=20),
    )


@pytest.mark.parametrize("seed", [pytest.param(3, marks=pytest.mark.long), 1007])
def test_random_schedules(lab: Lab, seed: int) -> None:
    """A few of those that ``python -m tests.faults`` runs by the hundred."""
    outcome = Run(lab, make_schedule(seed, heavy=0), print).run()
    assert outcome.verdict.problems == [], lab.worker.tail()


def test_the_registry_is_away(lab: Lab, survive: Survive) -> None:
    """Not killed: what it has just registered is gone with it now and then, and nobody can read those records any more."""
    survive(
        Fault("registry_refuse", seconds=0.5, records=20),
        Fault("registry_refuse", seconds=2.0, records=20),
        options=lab.avro(),
    )


@pytest.mark.turns
def test_one_of_two_workers_is_cut_off_or_stands_still(lab: Lab, survive: Survive) -> None:
    with lab.pair_of_workers(f"pair-{secrets.token_hex(3)}"):
        survive(Fault("cut_off", records=50), Fault("freeze_owner", records=50))


def test_a_full_disk_at_the_broker(survive: Survive) -> None:
    survive(Fault("kafka_disk_full", records=50))


def test_exactly_once(lab: Lab, survive: Survive) -> None:
    """Killed at every point, and cut off: who reads committed records sees each event once, and each row of a snapshot."""
    points = [point for point in STREAM_POINTS if point != "records.acknowledged"]
    with lab.other_worker(f"once-{secrets.token_hex(3)}", {"exactly.once.source.support": "enabled"}):
        survive(
            *(at(point, 1) for point in points),
            Fault("kafka_cut", records=20),
            Fault("kafka_cut_after", amount=4_001, records=20),
            Fault("pg_cut", records=20),
            Fault("freeze_task", seconds=0.5, records=20),
            Fault("kill_worker", records=20),
            options=EXACTLY_ONCE,
        )
        outcome = survive(
            at("snapshot.rows", 1),
            at("offset.written", 1),
            at("snapshot.sent"),
            # So that a slow machine, too, sends a table in one transaction.
            options=EXACTLY_ONCE
            | {"snapshot.mode": "initial", "producer.override.transaction.timeout.ms": "600000"},
            rows=6_000,
        )
        assert outcome.verdict.snapshot_rows >= 6_000
        assert outcome.verdict.snapshot_repeated == 0


def test_killed_within_an_incremental_snapshot(survive: Survive) -> None:
    outcome = survive(
        Fault("snapshot", point="window.read", amount=2),
        at("window.sent", 2),
        options={
            "signal.data.collection": "public.signals",
            "incremental.snapshot.chunk.size": "500",
        },
        rows=8_000,
    )
    assert outcome.verdict.snapshot_rows >= 8_000
