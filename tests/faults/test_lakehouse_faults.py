"""The lake through faults: after each it is what the database is, and its watermark neither claims too much nor rests."""

from collections.abc import Iterator

import pytest
from binloglab.flavours import MariaDb
from binloglab.servers import BinlogLab
from faultlab.fault import Fault
from faultlab.servers import Lab
from lakehouselab.binlog import BinlogLakeRun
from lakehouselab.job import Warehouse
from lakehouselab.run import Run
from lakehouselab.schedule import Schedule

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # py4j leaves the sockets of ended threads to the garbage collector.
    pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def warehouse(lab: Lab) -> Iterator[Warehouse]:
    made = Warehouse(lab.directory, kafka=lab.kafka.bootstrap, registry=lab.registry.url)
    yield made
    made.close()


@pytest.mark.long
def test_the_job_dies_and_forgets_while_a_snapshot_repairs_a_gap(lab: Lab, warehouse: Warehouse) -> None:
    """Of the faults that ``python -m tests.faults.lakehouse`` mixes; the job takes 2,000 records a batch."""
    fault, tables = Fault("gap", point="log", records=10), ("things", "shorts", "pulse")
    outcome = Run(lab, warehouse, Schedule(2, (fault,), tables), print).run()
    assert outcome.problems == []
    assert outcome.starts > 1
    assert outcome.transactions > 30


@pytest.fixture
def mariadb_lab() -> Iterator[BinlogLab]:
    made = BinlogLab(MariaDb(), registry=True)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.long
def test_the_server_fails_over_and_the_job_dies_and_forgets(mariadb_lab: BinlogLab) -> None:
    lab = mariadb_lab
    warehouse = Warehouse(lab.directory, kafka=lab.kafka.bootstrap, registry=lab.registry.url)
    try:
        faults = (Fault("fail_over", records=60), Fault("forget", point="log", records=60))
        outcome = BinlogLakeRun(lab, warehouse, 2, faults, print).run()
    finally:
        warehouse.close()
    assert outcome.problems == []
    assert outcome.starts > 1
    assert outcome.moments > 0
