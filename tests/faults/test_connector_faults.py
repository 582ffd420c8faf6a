"""Some of the schedules that ``python -m tests.faults.sinks`` and ``query`` run, with tasks that two workers share: each target
ends as its sink claims, and the topics of a query source are its tables, whatever happens on the way."""

import secrets
from collections.abc import Iterator

import pytest
from faultlab.fault import Fault
from faultlab.servers import Lab, open_lab
from querylab.database import Postgres
from querylab.run import Run as QueryRun
from querylab.schedule import Schedule as QuerySchedule
from sinklab.run import WORKER, Run
from sinklab.schedule import Schedule
from sinklab.target import TAIL, Claim, RecordPlace
from sinklab.targets import TARGETS
from sinklab.verdict import judge_copy, judge_places

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
TASKS = (
    Fault("kill_task", amount=1, records=40),
    Fault("alter", records=40),
    Fault("kill_partner", records=40),
    Fault("kill_worker", records=40),
)
LINK = (Fault("target_cut_after", amount=9_001, records=40), Fault("target_kill", records=40))
AGAIN = Fault("rewind", records=40)
FAULTS = {
    "postgres": (*TASKS, *LINK, AGAIN),
    "postgres-rows": (*TASKS, *LINK, AGAIN),
    "opensearch": (*LINK, AGAIN, Fault("pause", seconds=0.5, records=40)),
    "warehouse-log": (*TASKS, Fault("target_occupy", seconds=1.0, records=40)),
    "objects": (Fault("kill_task", amount=2, records=40), AGAIN, Fault("leave", seconds=0.5, records=40)),
}


SOURCE = (
    Fault("spread", records=20),
    Fault("kill_task", amount=1, records=20),
    Fault("kill_partner", records=20),
    Fault("db_cut_after", amount=9_001, records=20),
    Fault("leave", seconds=0.3, records=20),
    Fault("db_restart", records=20),
)
"""More tasks than one at first, so that both workers have some."""


@pytest.fixture(scope="module")
def pair_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """With a registry where a schedule needs it."""
    registry = bool(request.config.getoption("long"))
    with (
        open_lab(group="faults-sinks", registry=registry, worker_settings=WORKER) as lab,
        lab.beside(WORKER),
    ):
        yield lab


LONG = ("opensearch", "warehouse-log", "postgres-rows")
IN_AVRO = ("postgres-rows",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in FAULTS]
)
def test_the_target_ends_as_its_sink_claims(pair_lab: Lab, name: str) -> None:
    target = TARGETS[name](pair_lab.place)
    wire = "avro" if name in IN_AVRO else "plain" if target.claim is Claim.COPY else "schemas"
    schedule = Schedule(1, FAULTS[name], wire)
    try:
        target.start()
        result = Run(pair_lab, target, f"s{secrets.token_hex(4)}", schedule, print).run()
        assert result["written"] > 0
    finally:
        target.close()


def test_the_topics_of_a_query_source_are_its_tables(pair_lab: Lab) -> None:
    schedule = QuerySchedule(1, "timestamp+incrementing", waits=False, faults=SOURCE)
    name = f"q{secrets.token_hex(4)}"
    result = QueryRun(pair_lab, Postgres(pair_lab), name, schedule, print, exactly_once=True).run()
    assert result["records"] > 0


def test_what_is_there_twice_is_a_verdict_of_its_own() -> None:
    truth = {"orders": {1: 5, 2: 6}}
    assert judge_copy(truth, {"orders": [(1, 5), (2, 6)]}).ends
    twice = judge_copy(truth, {"orders": [(1, 5), (2, 6), (2, 6)]})
    assert (twice.ends, twice.doubled) == (True, 1)
    assert not judge_copy(truth, {"orders": [(1, 5)]}).ends
    assert not judge_copy(truth, {"orders": [(1, 5), (2, 6), (3, 1)]}).ends
    assert not judge_copy(truth, {}).ends


def test_what_comes_out_of_order_is_wrong_and_what_is_repeated_is_not() -> None:
    first, second, third = records = [RecordPlace("t", 0, offset) for offset in range(3)]
    repeated = [first, second, first, second, third]
    assert judge_places(records, repeated, Claim.AT_LEAST_ONCE, in_order=True).ends
    assert not judge_places(records, [first, third, second], Claim.AT_LEAST_ONCE, in_order=True).ends


def test_what_is_appended_is_told_by_its_place() -> None:
    records = [RecordPlace("t", 0, offset) for offset in (0, 1, 3, 4, 6, 7, 8, 9)]
    assert judge_places(records, records, Claim.ONCE).ends
    twice = judge_places(records, [*records, records[2]], Claim.ONCE)
    assert (twice.ends, twice.doubled) == (True, 1)
    assert not judge_places(records, records[:-1], Claim.ONCE).ends
    assert not judge_places(records, [*records, RecordPlace("t", 0, 2)], Claim.ONCE).ends
    assert judge_places(records, records[: 1 - TAIL], Claim.OBJECTS).ends, "the last object is open"
    assert not judge_places(records, records[:-TAIL], Claim.OBJECTS).ends
    assert not judge_places(records, [*records[:3], *records[4:]], Claim.OBJECTS).ends, "a gap"
