"""Business events through faults: afterwards each is there once, in order, and as SQL tells it from the store's history."""

import secrets
from collections.abc import Iterator

import pytest
from binloglab.flavours import MySql
from binloglab.servers import EXACTLY_ONCE, BinlogLab
from faultlab.fault import Fault
from faultlab.servers import Lab
from translatorlab.binlog import BinlogEventsRun
from translatorlab.pipeline import Pipeline, open_pipeline
from translatorlab.run import Run
from translatorlab.schedule import Schedule

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.fixture
def pipeline(lab: Lab) -> Iterator[Pipeline]:
    """So little may wait in memory that the store's large transactions go to disk."""
    settings = {"TIDINGS_MAX_BUFFERED_ROWS": "1000", "TIDINGS_MAX_BUFFERED_BYTES": "2000000"}
    with open_pipeline(lab, "json", settings) as pipeline:
        yield pipeline


@pytest.mark.long
def test_stages_killed_between_their_steps_while_others_come_and_go(pipeline: Pipeline) -> None:
    """A few of those that ``python -m tests.faults.translator`` mixes by the hundred."""
    schedule = Schedule(
        7,
        (
            Fault("point_sequencer", point="part.added", records=20),
            Fault("resnapshot", records=20),
            Fault("join_translator", records=20),
            Fault("point_translator", point="offsets.sent", amount=1, records=20),
            Fault("point_sequencer", point="transaction.committed", records=20),
            Fault("poison", amount=6, records=20),
            Fault("wide", amount=1, records=20),
            Fault("kill_translator", records=20),
            Fault("alter", amount=2, records=20),
        ),
    )
    outcome = Run(pipeline, schedule, print, strict=True).run()
    assert outcome.verdict.problems == [], pipeline.logs()
    assert outcome.verdict.expected > 100
    assert outcome.starts >= 6


@pytest.mark.long
def test_events_of_mysql_while_it_is_altered_and_crashes_and_a_generation_takes_over(lab: Lab) -> None:
    """A few of those that ``python -m tests.faults.translator --source mysql`` mixes."""
    kinds = ("kill_task", "alter", "crash", "promote", "kill_sequencer", "signal", "kill_translator")
    with lab.other_worker(f"faults-events-{secrets.token_hex(3)}", EXACTLY_ONCE):
        mysql = BinlogLab(MySql(), within=lab)
        try:
            mysql.start()
            faults = tuple(Fault(kind, amount=1, records=20) for kind in kinds)
            made = BinlogEventsRun(mysql, lab.pg.url, 5, faults, print)
            outcome = made.run()
        finally:
            mysql.close()
    assert outcome.verdict.problems == [], made.logs()
    assert outcome.verdict.found > 100
