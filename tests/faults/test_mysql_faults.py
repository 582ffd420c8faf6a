"""A fixed schedule of MySQL's connector under faults, exactly once; random ones are run by hand (``python -m tests.faults.mariadb``)."""

import secrets

import pytest
from binloglab.flavours import MySql
from binloglab.run import Run
from binloglab.servers import EXACTLY_ONCE, BinlogLab
from faultlab.fault import Fault
from faultlab.servers import Lab

SCHEDULE = ("kill_task", "compress", "terminate", "purge", "crash")
PAUSES = (0.1, 0.3)
"""Of which few rows come, as the verdict reads them all."""


@pytest.mark.turns
@pytest.mark.timeout(600)
def test_rows_are_told_once_and_in_order_whatever_is_killed(lab: Lab) -> None:
    with lab.other_worker(f"faults-mysql-{secrets.token_hex(3)}", EXACTLY_ONCE):
        mysql = BinlogLab(MySql(), within=lab)
        try:
            mysql.start()
            faults = tuple(Fault(kind, amount=1, records=20) for kind in SCHEDULE)
            outcome = Run(mysql, 3, faults, print, PAUSES).run()
        finally:
            mysql.close()
    assert outcome.problems == []
    assert outcome.transactions > 0
