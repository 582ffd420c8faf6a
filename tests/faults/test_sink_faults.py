"""Two schedules of those that ``python -m tests.faults.sinks`` runs: the target ends as the source, whatever happens on the way."""

import pytest
from faultlab.fault import Fault
from faultlab.servers import open_lab
from sinklab.run import Run
from sinklab.targets import TARGETS

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
FAULTS = (
    Fault("kill_task", records=40),
    Fault("target_cut_after", amount=9_001, records=40),
    Fault("rewind", records=40),
    Fault("target_restart", records=40),
    Fault("kill_worker", records=40),
    Fault("alter", records=40),
)


@pytest.mark.parametrize("name", ["postgres", "opensearch"])
def test_the_target_ends_as_the_source(name: str) -> None:
    with open_lab(group=f"faults-{name}", worker_settings={"exactly.once.source.support": "enabled"}) as lab:
        target = TARGETS[name](lab.place)
        try:
            target.server.start()
            assert Run(lab, target, 1, FAULTS, print).run()["transactions"]
        finally:
            target.server.close()
            target.proxy.close()
