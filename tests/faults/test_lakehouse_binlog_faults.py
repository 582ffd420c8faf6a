"""The lake through faults of MariaDB and of the job: a fixed schedule; random ones are run by hand (``--source mariadb``)."""

from collections.abc import Iterator

import pytest
from binloglab.flavours import MariaDb
from binloglab.servers import BinlogLab
from faultlab.fault import Fault
from lakehouselab.binlog import BinlogLakeRun
from lakehouselab.job import Warehouse

pytestmark = [
    pytest.mark.stack,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # py4j leaves the sockets of ended threads to the garbage collector.
    pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


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
